"""Replicas of a partition hold the same records: from the higher log start to the lower high watermark.

Replicas roll, delete and compact apart, so offsets are compared, never files. Above all cleaner points the batches are
the same bytes (`replica_batches`); below them each key has the same newest value (`replica_keys`). Where a folder shows
that a compaction is under way, or ended before it was noted, all but its last segment counts as cleaned.

Of two replicas that differ nobody knows which is right: the finding is of the one that is named later, and says what
the other one has. Of more, it is of the one that differs from all others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.env import Files
from tailrace.spark.auditing.finding import Finding, Report
from tailrace.spark.auditing.job.places import Folder, ReplicaGroup
from tailrace.spark.auditing.job.planning import packed
from tailrace.spark.auditing.rules import REPLICA_DIVERGENCE, REPLICA_MISSING
from tailrace.spark.auditing.shuffles.naming import file_of, shown_key
from tailrace.spark.auditing.shuffles.records import Stretch, stretches
from tailrace.spark.auditing.shuffles.replica_batches import Comparison, Difference, Kind, compare_all
from tailrace.spark.auditing.shuffles.replica_keys import MOST_KEYS, KeyDifference, compare_keys, place_of
from tailrace.spark.source.files.ends import committed_bounds
from tailrace.spark.source.files.read_only import ReadOnlyFiles
from tailrace.spark.source.files.segments import list_segments
from tailrace.spark.tables.tasks.jobs import Failure, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.spark.tables.tasks.reading import Tally

STEP: Final = "replicas"
Told = Callable[[int, int], None]
"""Called with tasks done and tasks."""


class Bounds(NamedTuple):
    """[start, cleaned) is compared by keys, [cleaned, end) by batches."""

    start: int
    cleaned: int
    end: int


def compare_replicas(
    spark: SparkSession,
    groups: Sequence[ReplicaGroup],
    report: Report,
    *,
    told: Told | None = None,
    files: Files | None = None,
) -> None:
    """`files` is the driver's file system, the real one without."""
    readable = ReadOnlyFiles(files)
    bounds = [bounds_of(group, readable) for group in groups]
    _compare_batches(spark, groups, bounds, report, told)
    _compare_keys(spark, groups, bounds, report)


def bounds_of(group: ReplicaGroup, files: Files) -> Bounds:
    """Nothing, where a folder went away."""
    start = max(folder.log_start for folder in group.folders)
    end = min(_end_of(folder, files) for folder in group.folders)
    cleaned = max(_cleaned_to(folder) for folder in group.folders)
    return Bounds(start, min(max(cleaned, start), max(end, start)), max(end, start))


def _end_of(folder: Folder, files: Files) -> int:
    if folder.judged_to is not None:
        return folder.judged_to
    try:
        return committed_bounds(files, list_segments(files, folder.path), folder.noted).end
    except OSError:
        return 0


def _cleaned_to(folder: Folder) -> int:
    if folder.is_being_cleaned and folder.segments:
        return max(folder.cleaned_to, folder.segments[-1].base_offset)
    return folder.cleaned_to


# By batches


class _Pair(NamedTuple):
    """The first replica of a group, and another one."""

    group: int
    other: int


def _compare_batches(
    spark: SparkSession, groups: Sequence[ReplicaGroup], bounds: Sequence[Bounds], report: Report, told: Told | None
) -> None:
    pairs = [_Pair(number, other) for number, group in enumerate(groups) for other in range(1, len(group.folders))]
    jobs = [
        (Comparison(place, part.folder, groups[pair.group].folders[pair.other].path, part.start, part.end), part.size)
        for place, pair in enumerate(pairs)
        for part in _by_batches(place, groups[pair.group].folders[0], bounds[pair.group])
    ]
    tasks = packed(jobs, spark.sparkContext.defaultParallelism)
    tell = None if told is None else _adapted(told)
    found: dict[int, dict[int, list[Difference]]] = defaultdict(lambda: defaultdict(list))
    for results in run_tasks(spark, STEP, compare_all, tasks, tell):
        if isinstance(results, Failure):
            raise results.error
        for result in results:
            pair = pairs[result.comparison.place]
            found[pair.group][pair.other] += result.differences
    for number, differing in found.items():
        for finding in batch_findings(groups[number], differing):
            report(finding)


def _by_batches(place: int, folder: Folder, bounds: Bounds) -> list[Stretch]:
    return stretches(place, folder, bounds.cleaned, bounds.end)


def _adapted(told: Told) -> Callable[[Tally], None]:
    return lambda tally: told(tally.tasks_done, tally.tasks)


def batch_findings(group: ReplicaGroup, found: dict[int, list[Difference]]) -> Iterator[Finding]:
    """`found`: by the number of the replica that was compared with the first one."""
    reference, others = group.folders[0], len(group.folders) - 1
    joined = {other: _joined(differences) for other, differences in found.items()}
    agreed = Counter((each.kind, each.offset) for differences in joined.values() for each in differences)
    told: set[tuple[Kind, int]] = set()
    for other, differences in sorted(joined.items()):
        folder = group.folders[other]
        for each in differences:
            place = (each.kind, each.offset)
            is_alone = each.kind is Kind.DIFFERS and agreed[place] == others > 1
            if not is_alone and each.kind is not Kind.FIRST_LACKS:
                yield _batch_finding(each, reference, folder)
            elif place not in told:
                told.add(place)
                yield _batch_finding(_turned(each), folder, reference)


def _joined(differences: list[Difference]) -> list[Difference]:
    """Neighbours of one kind, which tasks cut apart, are one."""
    joined: list[Difference] = []
    for each in sorted(differences, key=lambda difference: difference.offset):
        last = joined[-1] if joined else None
        if last is not None and last.kind == each.kind and last.behind == each.offset:
            joined[-1] = replace(last, behind=each.behind, batches=last.batches + each.batches)
        else:
            joined.append(each)
    return joined


def _turned(found: Difference) -> Difference:
    """As seen from the other replica."""
    return replace(found, first_position=found.second_position, second_position=found.first_position, words="")


def _batch_finding(found: Difference, other: Folder, folder: Folder) -> Finding:
    """Of `folder`, which is held against `other`."""
    span = f"offsets {found.offset} to {found.behind - 1}"
    many = f", {found.batches} batches" if found.batches > 1 else ""
    if found.kind is Kind.DIFFERS:
        why = f": {found.words}" if found.words else ""
        words = f"{span}{many} differ from {other.path}{why}"
        rule, position = REPLICA_DIVERGENCE, found.second_position
    else:
        words = f"{span}{many} are missing; {other.path} has them"
        rule, position = REPLICA_MISSING, None
    return Finding(file_of(folder, found.offset), str(folder.partition), found.offset, rule, words, position)


# By keys


def _compare_keys(
    spark: SparkSession, groups: Sequence[ReplicaGroup], bounds: Sequence[Bounds], report: Report
) -> None:
    compared = [number for number, each in enumerate(bounds) if each.start < each.cleaned]
    parts = [
        part
        for number in compared
        for replica, folder in enumerate(groups[number].folders)
        for part in stretches(place_of(number, replica), folder, bounds[number].start, bounds[number].cleaned)
    ]
    if not parts:
        return
    found, holes = compare_keys(spark, {number: len(groups[number].folders) for number in compared}, parts)
    said: Counter[int] = Counter()
    for each in sorted(found, key=lambda difference: (difference.group, difference.offset)):
        group = groups[each.group]
        for finding in key_findings(group, each, {r: at for (g, r), at in holes.items() if g == each.group}):
            report(finding)
        said[each.group] += 1
        if said[each.group] == MOST_KEYS < each.keys:
            words = f"and {each.keys - MOST_KEYS} more keys whose newest values differ between replicas"
            folder = group.folders[-1]
            report(Finding(folder.path, str(group.partition), None, REPLICA_DIVERGENCE, words))


def key_findings(
    group: ReplicaGroup, found: KeyDifference, holes: dict[int, list[tuple[int, int]]]
) -> Iterator[Finding]:
    """What is wrong with each replica, as far as it was readable."""
    offset = found.offset
    by_replica = {each.replica: each for each in found.newest}
    holder = min(each.replica for each in found.newest if each.offset == offset)
    newest, holding = by_replica[holder], group.folders[holder]
    for number, folder in enumerate(group.folders):
        has = by_replica.get(number)
        if any(first <= offset < behind for first, behind in holes.get(number, ())):
            continue
        digest = None if has is None else has.value_digest
        if digest == newest.value_digest:
            continue
        key = shown_key(found.key)
        if has is not None and has.offset == offset:
            words = f"the newest value of key {key} differs from that in {holding.path}"
            yield Finding(file_of(folder, offset), str(group.partition), offset, REPLICA_DIVERGENCE, words)
        else:
            instead = "no record of it" if has is None else f"offset {has.offset} instead"
            words = f"the newest record of key {key} is missing, there is {instead}; {holding.path} has it"
            yield Finding(file_of(folder, offset), str(group.partition), offset, REPLICA_MISSING, words)
