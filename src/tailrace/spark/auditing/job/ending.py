"""What can be said of a folder once all of it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tailrace.env import Files
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.closed_logs import check_closed
from tailrace.spark.auditing.job.folder_rules import FolderFacts, check_ends
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.job.snapshot_states import LoggedProducer, check_snapshot
from tailrace.spark.auditing.job.stitching import stitch
from tailrace.spark.auditing.job.waves import SegmentResult
from tailrace.spark.auditing.pieces import PieceResult
from tailrace.spark.auditing.rules import EPOCH_CHECKPOINT, NOTE, TRUNCATED
from tailrace.spark.auditing.task.producer_findings import log_path
from tailrace.storage.names import LEADER_EPOCH_CHECKPOINT


def end_findings(
    files: Files, folder: Folder, facts: FolderFacts, results: Sequence[SegmentResult], *, max_transaction_ms: int
) -> list[Finding]:
    """`results` are of all segments, by base offset."""
    if not folder.segments:
        return _without_segments(folder)
    pieces = [piece for result in results for piece in result.pieces]
    of_snapshots: list[Finding] = []

    def take_states(offset: int, producers: Mapping[int, LoggedProducer]) -> None:
        of_snapshots.extend(check_snapshot(files, folder, offset, producers))

    found = stitch(folder, pieces, max_transaction_ms=max_transaction_ms, take_states=take_states)
    first_epoch = next((piece.seam.first_epoch for piece in pieces if piece.seam.first_epoch >= 0), -1)
    end_offset = _end_offset(results)
    return [
        *found,
        *_without_epoch(facts, pieces),
        *of_snapshots,
        *check_ends(folder, facts, end_offset, first_epoch),
        *check_closed(
            folder,
            facts,
            end_offset,
            has_sound_start=_is_sound(results[0], found),
            has_sound_end=_is_sound(results[-1], found),
        ),
    ]


def _without_epoch(facts: FolderFacts, pieces: Sequence[PieceResult]) -> list[Finding]:
    """The first batch of the log, if it has no leader epoch and the checkpoint names one for it.

    A leader gives its epoch to all that it writes. A batch without one behind others that have is told where they meet.
    """
    first = next((each for each in pieces if each.seam.without_epoch or each.seam.first_epoch >= 0), None)
    if first is None or first.seam.without_epoch is None:
        return []
    offset, position = first.seam.without_epoch
    epoch = max((entry.epoch for entry in facts.epochs if entry.start_offset <= offset), default=None)
    if epoch is None:
        return []
    words = f"batch has no leader epoch, but by {LEADER_EPOCH_CHECKPOINT} it is {epoch}"
    return [Finding(log_path(first.piece), str(first.piece.partition), offset, EPOCH_CHECKPOINT, words, position)]


def _is_sound(result: SegmentResult, found: Sequence[Finding]) -> bool:
    """Whether nothing is said of the segment that hides where it begins or ends."""
    path = result.work.segment.path
    faults = (each for each in (*result.findings, *found) if each.severity != NOTE)
    return bool(result.pieces) and not any(each.file == path for each in faults)


def _without_segments(folder: Folder) -> list[Finding]:
    """A log always has a segment, if an empty one. What was committed may have been deleted up to the log start."""
    start, end = folder.noted.log_start or 0, folder.judged_to or 0
    if end <= start:
        return []
    words = f"has no segment, but offsets {start} to {end - 1} were committed"
    return [Finding(folder.path, str(folder.partition), start, TRUNCATED, words)]


def _end_offset(results: Sequence[SegmentResult]) -> int | None:
    """Behind the last batch of the log; None where damage hides it, or what is not judged lies behind."""
    if not results or not results[-1].pieces:
        return None
    last = results[-1].pieces[-1]
    seam = last.seam
    if not seam.is_whole or seam.ends_damaged or seam.ends_unjudged:
        return None
    return last.piece.base_offset if seam.next_offset is None else seam.next_offset
