"""One clean of one log: pass 1 over its dirty part, pass 2 over it from its beginning, group by group.

    1  files that an earlier attempt left are removed
    2  the offset map is built from the dirty part, as far as it has room
    3  the log is flushed: a record must not go for a later one, for a marker or for its producer's last batch while a
       loss of power could still take those
    4  each group of segments is rewritten into `.cleaned` segments, which are synced and swapped in

Crash rule: each swap leaves the old segments or the new ones (see `swap`), and cleaning again what was cleaned changes
nothing that counts. So an attempt may die anywhere. What it must not leave behind in a log that goes on is a `.cleaned`
file: a load takes it for a swap that was not finished and undoes every swap above it. Hence step 1.

Steps run as `steps` tells. The owner's thread decides what to read, and puts new segments in. If the log was truncated,
moved or lost segments meanwhile, the attempt ends with SegmentGoneError and can be made again; with any other error the
log cannot be cleaned as it is. A log that takes no writes is not cleaned at all: where a swap has failed half way, its
files are for the next load to judge, and step 1 would take away what it judges by.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from tailrace.env import Files
from tailrace.model.errors import SegmentGoneError
from tailrace.storage import names
from tailrace.storage.compaction import planner
from tailrace.storage.compaction.chunks import ReadBuffer
from tailrace.storage.compaction.map_builder import MapBuilder
from tailrace.storage.compaction.offset_map import OffsetMap
from tailrace.storage.compaction.planner import LogToClean, SegmentSize
from tailrace.storage.compaction.rewriter import GroupRewriter
from tailrace.storage.compaction.transactions import SeenTransactions
from tailrace.storage.compaction.verdict import CleanRules, LastBatch
from tailrace.storage.segment import LogSegment
from tailrace.storage.segment_deletion import age_timestamp
from tailrace.storage.steps import Steps
from tailrace.storage.transaction_index import AbortedTxn
from tailrace.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)

IO_BUFFER_BYTES: Final = 512 * 1024

BUFFERS_PER_STEP: Final = 16
"""So many `log.cleaner.io.buffer.size` are read at once. Each time a step comes for the GIL, after a read, a kernel or
a write, the owner's thread may have to wait for it, so a step comes seldom: eight megabytes, some milliseconds."""


class CompactionStats(NamedTuple):
    """What a clean has done. `cleaner_point`: everything below it is clean, and the next clean begins there."""

    cleaner_point: int
    map_bytes_read: int = 0
    map_utilization: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    invalid_records: int = 0
    """Records without a key, which a compacted topic cannot hold; dropped."""

    @property
    def records_dropped(self) -> int:
        return self.records_read - self.records_written


class Cleanable(NamedTuple):
    """What could be cleaned of a log now, and whether the cleaner's checkpoint of it is to be written anew."""

    log: LogToClean
    is_checkpoint_reset: bool


def cleanable_of(log: UnifiedLog, checkpoint: int | None, now_ms: int) -> Cleanable:
    """Ask on the owner's thread. With `min.compaction.lag.ms` or `max.compaction.lag.ms` it may read a little."""
    dirty_from = planner.first_dirty(checkpoint, log.log_start_offset, log.log_end_offset)
    config, local = log.config, log.local
    active_base = local.active.base_offset
    dirty = local.segments.covering(dirty_from.offset, active_base) if dirty_from.offset <= active_base else ()

    def ages() -> Iterator[tuple[int, int]]:
        for segment in dirty:
            yield segment.base_offset, age_timestamp(local.place, segment)

    uncleanable = planner.first_uncleanable(
        dirty_from.offset, log.last_stable_offset, active_base, ages(), now_ms, config.min_compaction_lag_ms
    )
    first_timestamps = (segment.first_timestamp for segment in dirty)
    delay_ms = planner.compaction_delay_ms(first_timestamps, now_ms, config.max_compaction_lag_ms)
    sizes = [SegmentSize(segment.base_offset, segment.size) for segment in local.segments]
    to_clean = planner.log_to_clean(dirty_from.offset, uncleanable, sizes, must_compact=delay_ms > 0)
    return Cleanable(to_clean, dirty_from.is_reset)


class _Snapshot:
    """The part of a log that is to be cleaned, as it was when the clean began."""

    def __init__(self, log: UnifiedLog, to_clean: LogToClean) -> None:
        end = to_clean.first_uncleanable_offset
        self.place = log.local.place
        self.segments = tuple(each for each in log.local.segments if each.base_offset < end)
        self.end = end
        self.log_end = log.log_end_offset
        self.last_batches = {each.producer_id: LastBatch.of(each) for each in log.producers.producers.values()}
        self._versions = {id(each): (each.records.cuts, each.size) for each in self.segments}
        self._truncations = log.local.truncations

    def check(self, log: UnifiedLog, group: Sequence[LogSegment]) -> None:
        """Producers may have lost their last batches to a truncation anywhere: then others must be kept."""
        present = {id(each) for each in log.local.segments}
        is_same = (
            log.local.place.dir == self.place.dir
            and log.local.truncations == self._truncations
            and all(id(each) in present for each in group)
            and all(self._versions[id(each)] == (each.records.cuts, each.size) for each in group)
        )
        if not is_same:
            raise SegmentGoneError(f"{self.place.dir} was truncated, moved or deleted from while it was compacted")

    def end_of(self, group: Sequence[LogSegment]) -> int:
        following = self.segments.index(group[-1]) + 1
        return self.segments[following].base_offset if following < len(self.segments) else self.end


def compact(
    log: UnifiedLog,
    to_clean: LogToClean,
    offset_map: OffsetMap,
    now_ms: int,
    io_buffer_bytes: int = IO_BUFFER_BYTES,
    buffers_per_step: int = BUFFERS_PER_STEP,
) -> Steps[CompactionStats]:
    """The steps of one clean. `offset_map` is this clean's alone until it has ended."""
    if log.failure is not None:
        raise log.failure
    buffer = ReadBuffer(io_buffer_bytes * buffers_per_step, log.config.max_message_bytes)
    try:
        return (yield from _compact(log, to_clean, offset_map, now_ms, buffer))
    except OSError as cause:
        raise log.failed("compact", cause) from cause


def _compact(
    log: UnifiedLog, to_clean: LogToClean, offset_map: OffsetMap, now_ms: int, buffer: ReadBuffer
) -> Steps[CompactionStats]:
    snapshot = _Snapshot(log, to_clean)
    yield partial(_remove_leftovers, snapshot.place.env.files, snapshot.place.dir)

    aborted: Sequence[AbortedTxn] = ()
    if snapshot.segments:
        aborted = yield partial(log.local.aborted_transactions, snapshot.segments[0].base_offset, snapshot.end)
    yield offset_map.clear
    dirty = log.local.segments.covering(to_clean.first_dirty_offset, snapshot.end)
    builder = MapBuilder(offset_map, dirty, to_clean.first_dirty_offset, snapshot.end, aborted, buffer)
    while not builder.is_done:
        yield builder.step
    cleaner_point = max(offset_map.latest_offset + 1, to_clean.first_dirty_offset)
    stats = CompactionStats(cleaner_point, builder.bytes_read, offset_map.utilization)

    rules: CleanRules = yield partial(_rules_of, snapshot, to_clean, now_ms)
    groups: list[tuple[LogSegment, ...]] = yield partial(_groups_of, snapshot, offset_map.latest_offset)
    transactions = SeenTransactions(aborted)
    if groups:
        yield from log.flushing_with_snapshots(snapshot.log_end)
    for group in groups:
        rewriter = GroupRewriter(snapshot.place, group, snapshot.end_of(group), offset_map, rules, transactions, buffer)
        try:
            while not rewriter.is_done:
                snapshot.check(log, group)
                yield rewriter.step
            snapshot.check(log, group)
        except Exception:
            _discard(log, rewriter)
            raise
        yield from log.replacing_segments(group, rewriter.made)
        stats = _added(stats, rewriter)
    return stats


def _remove_leftovers(files: Files, directory: str) -> None:
    left = [entry.name for entry in files.list(directory) if entry.name.endswith(names.CLEANED_SUFFIX)]
    for name in left:
        files.unlink(names.join(directory, name))
    if left:
        files.sync_dir(directory)


def _rules_of(snapshot: _Snapshot, to_clean: LogToClean, now_ms: int) -> CleanRules:
    config, files = snapshot.place.config, snapshot.place.env.files
    clean = [each for each in snapshot.segments if each.base_offset < to_clean.first_dirty_offset]
    return CleanRules(
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        first_uncleanable_offset=snapshot.end,
        legacy_horizon_ms=files.modified_ms(clean[-1].records.path) - config.delete_retention_ms if clean else 0,
        last_batches=snapshot.last_batches,
    )


def _groups_of(snapshot: _Snapshot, latest_offset: int) -> list[tuple[LogSegment, ...]]:
    """The segments that hold what was mapped, up to `latest_offset`, and all before them; none if nothing was."""
    config = snapshot.place.config
    mapped = [each for each in snapshot.segments if each.base_offset <= latest_offset]
    sizes = [
        SegmentSize(each.base_offset, each.size, each.offset_index.size_bytes, each.time_index.size_bytes)
        for each in mapped
    ]
    groups = planner.group_segments(sizes, config.segment_bytes, config.segment_index_bytes, snapshot.end)
    return [tuple(mapped[place] for place in group) for group in groups]


def _discard(log: UnifiedLog, rewriter: GroupRewriter) -> None:
    """At once: were it to happen later, it might take the files of another attempt."""
    try:
        rewriter.discard()
    except OSError as error:
        _log.warning("%s: files of a compaction that failed stay until the next one: %s", log.dir, error)


def _added(stats: CompactionStats, rewriter: GroupRewriter) -> CompactionStats:
    return stats._replace(
        bytes_read=stats.bytes_read + rewriter.bytes_read,
        bytes_written=stats.bytes_written + rewriter.bytes_written,
        records_read=stats.records_read + rewriter.records_read,
        records_written=stats.records_written + rewriter.records_kept,
        invalid_records=stats.invalid_records + rewriter.invalid_records,
    )
