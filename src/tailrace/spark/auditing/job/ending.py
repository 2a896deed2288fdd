"""What can be said of a folder once all of it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tailrace.env import Files
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.folder_rules import FolderFacts, check_ends
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.job.snapshot_states import LoggedProducer, check_snapshot
from tailrace.spark.auditing.job.stitching import stitch
from tailrace.spark.auditing.job.waves import SegmentResult
from tailrace.spark.auditing.rules import TRUNCATED


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
    return [*found, *of_snapshots, *check_ends(folder, facts, _end_offset(results), first_epoch)]


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
