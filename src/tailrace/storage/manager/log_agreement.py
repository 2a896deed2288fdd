"""How far a log and the copy of it that a move builds are the same.

The copy can fall behind in more than its end. While its directory was offline, or the machine without power, the log
may have lost records that the copy still has, may have taken others in their place, and may have been compacted.

    epochs   Up to the end of the latest leader epoch that both know, the shorter one counting, both were written by
             the same leaders in the same order. Logs without epochs in common agree on nothing.
    bytes    A compacted part is smaller than what it was made from. A copy of the larger one must not be continued: it
             would keep records whose tombstones are gone.
"""

from __future__ import annotations

from tailrace.model.errors import StorageError
from tailrace.storage.unified_log import UnifiedLog


def first_offset(log: UnifiedLog) -> int:
    """The lowest offset that can be read from this disk."""
    return max(log.log_start_offset, log.local_log_start_offset)


def agreed_end(log: UnifiedLog, copy: UnifiedLog) -> int:
    """The offset up to which the copy's records are the log's, by their epochs; 0 where nothing can be said."""
    if not copy.local.size:
        return min(copy.log_end_offset, log.log_end_offset)
    known = {entry.epoch for entry in log.epochs.entries}
    common = [entry.epoch for entry in copy.epochs.entries if entry.epoch in known]
    if not common:
        return 0
    return min(log.end_offset_for_epoch(common[-1])[1], copy.end_offset_for_epoch(common[-1])[1])


def has_same_bytes(log: UnifiedLog, copy: UnifiedLog, end: int) -> bool:
    """Whether both hold the same number of bytes below `end`, from where the later of the two begins."""
    start = max(first_offset(log), first_offset(copy))
    return start >= end or bytes_between(log, start, end) == bytes_between(copy, start, end)


def bytes_between(log: UnifiedLog, start: int, end: int) -> int:
    """From the batch that holds `start` to the one that holds `end`."""
    try:
        first, last = log.local.locate(start), log.local.locate(end)
    except OSError as cause:
        raise StorageError(f"measure {log.dir} from offset {start} to {end}", cause) from cause
    whole = sum(
        segment.size for segment in log.local.segments if first.segment_base <= segment.base_offset < last.segment_base
    )
    return whole + last.position - first.position
