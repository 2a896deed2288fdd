"""Looking twice: only what two looks in a row show, at files that stand still between them, is a finding.

A broker that appends, rolls, compacts, truncates or deletes while an audit reads makes things that look like damage: a
segment of a listing that is gone, an index ahead of what was read, files of before and after a swap side by side. None
of them shows again a moment later. Damage does.

Every folder that has findings, or could not be read as it was listed, is listed again and looked at again. Segments
that nobody changed, and that no finding is about, are not read again. A folder in which nothing was touched for a while
is believed at once. This is repeated until a look shows nothing new; what comes and goes even then is no finding, and a
note says that the folder would not stand still.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tailrace.env import Files, Mode
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.listing import list_again
from tailrace.spark.auditing.job.looking import Look, Looker
from tailrace.spark.auditing.job.memory import fingerprint
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.job.waves import SegmentResult, SegmentWork
from tailrace.spark.auditing.progress import CONFIRM, AuditProgress, AuditTold
from tailrace.spark.auditing.rules import CHANGED, GONE, NOTE, UNREADABLE
from tailrace.storage import names
from tailrace.storage.names import join

MOST_LOOKS: Final = 6
PAUSE_S: Final = 1.0
SETTLED_NS: Final = 60 * 10**9
"""Files that nobody touched for so long are not just being changed."""

Pause = Callable[[float], None]
FindingKey = tuple[str, str, int | None, int | None]


@dataclass
class Confirmed:
    findings: list[Finding] = field(default_factory=list)
    """Of the folders that were asked about, notes among them."""
    folders: dict[str, Folder] = field(default_factory=dict)
    """As each was listed last, by path; those that are gone are not in it."""


@dataclass
class _Suspect:
    look: Look
    notes: list[Finding] = field(default_factory=list)
    shown: frozenset[FindingKey] | None = None
    """What this look showed; None where it was not whole."""
    before: frozenset[FindingKey] | None = None
    """The same of the look before."""

    def concluded(self, look: Look) -> list[Finding] | None:
        """The findings that stay; None where one more look is needed."""
        self.look = look
        self.before = self.shown
        self.shown = frozenset(key_of(finding) for finding in look.findings) if look.is_whole else None
        if self.before is None or self.shown is None:
            return None
        faults = {key_of(finding) for finding in look.findings if finding.severity != NOTE}
        return look.findings if faults <= self.before else None


def confirm(
    looker: Looker,
    files: Files,
    looks: Iterable[Look],
    *,
    pause: Pause = time.sleep,
    told: AuditTold | None = None,
) -> Confirmed:
    """What stays of what first looks found."""
    confirmed = Confirmed()
    suspects = {}
    for look in looks:
        suspects[look.folder.path] = _Suspect(look)
        suspects[look.folder.path].concluded(look)
    count = len(suspects)
    for _ in range(MOST_LOOKS - 1):
        if told is not None:
            told(AuditProgress(CONFIRM, count - len(suspects), count, looker.tallies.findings))
        if not suspects:
            return confirmed
        pause(PAUSE_S)
        again = _listed_again(files, suspects, confirmed)
        for look in looker.again(again, lambda work: _known(suspects[work.folder.path].look, work)):
            suspect = suspects[look.folder.path]
            suspect.notes += _differences(suspect.look.folder, look.folder)
            found = suspect.concluded(look)
            if found is not None:
                _conclude(confirmed, suspects, look, found)
    for suspect in suspects.values():
        _give_up(files, confirmed, suspect)
    return confirmed


def key_of(finding: Finding) -> FindingKey:
    """Words may tell of numbers that grow."""
    return finding.file, finding.rule, finding.offset, finding.position


def _listed_again(files: Files, suspects: dict[str, _Suspect], confirmed: Confirmed) -> list[Folder]:
    """Those that need another look. Those that are gone, or stood still for long, are done with."""
    again: list[Folder] = []
    for path, suspect in list(suspects.items()):
        before = suspect.look.folder
        try:
            folder = list_again(files, before)
        except FileNotFoundError:
            words = "the folder went away while it was audited"
            confirmed.findings.append(Finding(path, str(before.partition), None, GONE, words))
            del suspects[path]
            continue
        except OSError as error:
            words = f"cannot be listed: {error.strerror or error}"
            confirmed.findings.append(Finding(path, str(before.partition), None, UNREADABLE, words))
            del suspects[path]
            continue
        if suspect.look.is_whole and folder.is_same_as(before) and is_settled(folder):
            _conclude(confirmed, suspects, suspect.look, suspect.look.findings)
        else:
            again.append(folder)
    return again


def is_settled(folder: Folder) -> bool:
    """Whether nobody touched any of its files for a while."""
    touched = max((max(each.modified_ns, each.changed_ns) for each in folder.statuses.values()), default=0)
    return touched < time.time_ns() - SETTLED_NS


def _conclude(confirmed: Confirmed, suspects: dict[str, _Suspect], look: Look, findings: Sequence[Finding]) -> None:
    suspect = suspects.pop(look.folder.path)
    confirmed.findings += [*findings, *suspect.notes]
    confirmed.folders[look.folder.path] = look.folder


def _give_up(files: Files, confirmed: Confirmed, suspect: _Suspect) -> None:
    """After the last look: what the last two both showed stays."""
    look, folder = suspect.look, suspect.look.folder
    before = (suspect.before or frozenset()) & (suspect.shown or frozenset())
    confirmed.findings += [finding for finding in look.findings if key_of(finding) in before]
    for result in look.segments.values():
        if result.missed is not None:
            place = (result.work.segment.path, str(folder.partition), result.work.segment.base_offset)
            confirmed.findings.append(Finding(*place, *_why_missed(files, result)))
    words = f"would not stand still: {MOST_LOOKS} looks each showed something else"
    confirmed.findings += [*suspect.notes, Finding(folder.path, str(folder.partition), None, CHANGED, words)]
    confirmed.folders[folder.path] = folder


def _why_missed(files: Files, result: SegmentResult) -> tuple[str, str]:
    """Rule and words. What a broker deletes is not listed any more once it cannot be opened; a broken link is."""
    segment = result.work.segment
    if result.missed is not None and result.missed.words is not None:
        return UNREADABLE, result.missed.words
    with suppress(OSError):
        files.open(segment.path, Mode.READ).close()
        return CHANGED, "was put in place of another just when it was to be read"
    with suppress(OSError):
        if segment.path in {join(segment.folder, entry.name) for entry in files.list(segment.folder)}:
            return UNREADABLE, "is listed time and again, but cannot be opened"
    return GONE, "went away while the audit ran"


def _known(look: Look, work: SegmentWork) -> SegmentResult | None:
    """What the look before found of a segment, if that is beyond doubt."""
    before = look.segments.get(work.segment.base_offset)
    if before is None or before.missed is not None or not before.is_as_listed or before.work.segment != work.segment:
        return None
    if fingerprint(before.work.whole, before.work.segment) != fingerprint(work.whole, work.segment):
        return None
    prefix = join(work.folder.path, names.prefix_of(work.segment.base_offset))
    if any(finding.file.startswith(prefix) for finding in look.findings):
        return None
    return SegmentResult(work, before.pieces)


def _differences(before: Folder, after: Folder) -> list[Finding]:
    """Which segments went away, and which are other files now."""
    now = {segment.base_offset: segment for segment in after.segments}
    notes: list[Finding] = []
    for segment in before.segments:
        place = (segment.path, str(before.partition), segment.base_offset)
        other = now.get(segment.base_offset)
        if other is None:
            notes.append(Finding(*place, GONE, "went away while the audit ran"))
        elif other.status.identity != segment.status.identity or other.size < segment.size:
            notes.append(Finding(*place, CHANGED, "was put in place of another, or cut, and was looked at again"))
    return notes
