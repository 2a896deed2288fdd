"""Deleting the segments that `retention` has decided on, so that what is gone stays gone.

    1  where every segment goes, a fresh active one is rolled
    2  the first survivor's base is made durable ground: the log below it is flushed, with the producer snapshot there
    3  the log start moves to that base, unless it is beyond already
    4  the caller's checkpoint of the log start is written
    5  the segments leave the log, their files are renamed `.deleted` and unlinked after `file.delete.delay.ms`
    6  so do the producer snapshots below the survivor

Crash rule. Of the renames a crash keeps any. After step 4 that does no harm: the load after a crash drops every segment
that lies below the checkpointed log start, and has producers from the snapshot of step 2. Before step 4 nothing is
renamed.

Runs on the log's owner thread and blocks in step 4, and in step 2 where the newest segments go: both are rare.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.model.errors import StorageError
from tailrace.storage.retention import Decision, Deletion, LogFacts, SegmentFacts, decide
from tailrace.storage.segment import LogSegment, SegmentPlace

if TYPE_CHECKING:
    from tailrace.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)


def delete_old_segments(log: UnifiedLog, checkpoint_log_start: Callable[[int], None], now_ms: int) -> list[Deletion]:
    """What went, oldest first. StorageError when the disk refuses; what was not deleted then goes another time."""
    decision = _decide(log, now_ms)
    for base_offset, timestamp in decision.warnings:
        _log.warning(
            "%s: segment %d cannot expire before its timestamp %d in the future", log.dir, base_offset, timestamp
        )
    if not decision.deletions:
        return []
    if decision.rolls_first:
        log.roll()
    survivor = decision.deletions[-1].end_offset
    if survivor >= log.recovery_point:  # at it, the snapshot may still wait to be written
        log.flush_now()
    log.increment_log_start(survivor)
    try:
        checkpoint_log_start(log.log_start_offset)
        _remove_below(log, survivor)
    except OSError as cause:
        raise log.failed(f"delete segments below {survivor}", cause) from cause
    for deletion in decision.deletions:
        _log.info("%s: segment %d deleted by %s", log.dir, deletion.base_offset, deletion.reason.value)
    return list(decision.deletions)


def _decide(log: UnifiedLog, now_ms: int) -> Decision:
    facts = LogFacts(log.log_start_offset, log.high_watermark, log.local.size)
    try:
        return decide(_facts_of(log), facts, log.config, now_ms)
    except OSError as cause:
        raise StorageError(f"look for old segments in {log.dir}", cause) from cause


def _facts_of(log: UnifiedLog) -> Iterator[SegmentFacts]:
    """One by one as they are asked for: an age may have to be read from a cold index."""
    segments = tuple(log.local.segments)
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    for segment, end_offset in zip(segments, ends, strict=True):
        is_last = segment is segments[-1]
        yield SegmentFacts(
            segment.base_offset, end_offset, segment.size, age_timestamp(log.local.place, segment), is_last
        )


def age_timestamp(place: SegmentPlace, segment: LogSegment) -> int:
    """By which retention and compaction tell how old a segment is."""
    largest = segment.largest.timestamp
    return largest if largest >= 0 else place.env.files.modified_ms(segment.records.path)


def _remove_below(log: UnifiedLog, survivor: int) -> None:
    log.local.remove(segment for segment in log.local.segments if segment.base_offset < survivor)
    renamed = []
    while (oldest := log.producers.oldest_snapshot_offset) is not None and oldest < survivor:
        path = log.producers.mark_snapshot_for_deletion(oldest)
        if path is not None:
            renamed.append(path)
    if renamed:
        unlink_later(log.local.place, renamed)


def unlink_later(place: SegmentPlace, paths: Sequence[str]) -> None:
    """Unlink producer snapshots that were marked for deletion."""
    files, jobs = place.env.files, place.env.jobs

    def unlink() -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                files.unlink(path)

    def left(error: Exception) -> None:
        if not isinstance(error, OSError):
            raise error
        _log.error("%s: deleted producer snapshots stay until the next load: %s", place.dir, error)

    def start() -> None:
        jobs.run("delete-file", unlink, failed=left, can_wait=True)

    jobs.later("delete-file", place.config.file_delete_delay_ms, start)
