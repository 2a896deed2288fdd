"""A compacted log on a simulated disk, and beside it a plain model of what must survive a clean.

The model has one `Written` for each batch that was appended, with its records as values. `Model.clean` says in a few
lines of Python what a clean leaves; nothing of it is taken from the code under test.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from support.logs.builders import DIRECTORY, SimLog
from tailrace.config.log import LogConfig
from tailrace.env import Mode
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import ShallowBatch, batches, check_integrity
from tailrace.storage.compaction.log_compaction import CompactionStats, cleanable_of, compact
from tailrace.storage.compaction.offset_map import SLOT_BYTES, OffsetMap
from tailrace.storage.origin import Origin
from tailrace.storage.steps import run_inline
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.verify import verify_directory

RETENTION_MS = 10_000
COMPACTED = LogConfig(
    cleanup_policy=("compact",),
    segment_bytes=2000,
    segment_index_bytes=960,
    index_interval_bytes=100,
    file_delete_delay_ms=1000,
    delete_retention_ms=RETENTION_MS,
)

Pair = tuple[bytes | None, bytes | None]


def offset_map(slots: int = 10_000, load_factor: float = 0.9) -> OffsetMap:
    return OffsetMap(slots * SLOT_BYTES, random.Random(7), load_factor)


@dataclass(frozen=True)
class Written:
    """A batch as it was appended; `horizon_ms` and the loss of records come later."""

    first: int
    last: int
    records: tuple[Record, ...]
    producer_id: int = -1
    is_transactional: bool = False
    control: int | None = None
    horizon_ms: int | None = None
    is_stamped_useless: bool = False


class CompactedLog(SimLog):
    def __init__(self, config: LogConfig = COMPACTED, *, seed: int = 0, **options: Any) -> None:
        super().__init__(config, seed=seed, **options)
        self.cleaner_point: int | None = None
        self.written: list[Written] = []
        self.sequences: dict[int, int] = {}
        self.open_transactions: set[int] = set()

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    def put(self, pairs: Sequence[Pair], *, producer_id: int = -1, transactional: bool = False, **fields: Any) -> None:
        """One batch; timestamps go up by 1 ms from record to record."""
        if producer_id >= 0:
            sequence = self.sequences.get(producer_id, 0)
            fields |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            self.sequences[producer_id] = sequence + len(pairs)
        if transactional:
            self.open_transactions.add(producer_id)
        builder = BatchBuilder(transactional=transactional, **fields)
        headers = [("h", b"x")] if len(pairs) % 2 else []
        for place, (key, value) in enumerate(pairs):
            builder.append(self.now_ms - 7 + place, key, value, headers)
        self._append(builder.build(), Origin.COORDINATOR if any(key is None for key, _ in pairs) else Origin.CLIENT)

    def end(self, producer_id: int, *, commit: bool) -> None:
        self.open_transactions.discard(producer_id)
        kind = COMMIT if commit else ABORT
        marker = end_txn_marker(
            kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=self.now_ms
        )
        self._append(marker, Origin.COORDINATOR, control=kind)

    def _append(self, data: bytearray, origin: Origin, control: int | None = None) -> None:
        first = self.log.log_end_offset
        self.append(data, origin=origin)
        (batch,) = batches(data)
        records = tuple(each._replace(sequence=-1) for each in records_of(data, batch))
        self.written.append(
            Written(first, self.log.log_end_offset - 1, records, batch.producer_id, batch.is_transactional, control)
        )

    def roll(self) -> None:
        if self.log.local.active.size:
            self.log.roll()

    def settle(self) -> None:
        """Everything is replicated and in inactive segments."""
        self.all_moved_to_end()
        self.roll()
        self.all_moved_to_end()

    def flushed(self) -> None:
        """Everything is durable, as it is before a clean puts new segments in."""
        self.log.flush()
        self.world.jobs.run_all()

    def clean(self, **changes: Any) -> CompactionStats:
        stats = run_inline(self.cleaning(**changes))
        self.cleaner_point = stats.cleaner_point
        return stats

    def cleaning(self, slots: int = 10_000, load_factor: float = 0.9, **options: Any) -> Any:
        """The steps of a clean, each of a single buffer: the more there are, the more can come between them."""
        to_clean = cleanable_of(self.log, self.cleaner_point, self.now_ms).log
        return compact(
            self.log, to_clean, offset_map(slots, load_factor), self.now_ms, **{"buffers_per_step": 1, **options}
        )

    def reopen(self) -> UnifiedLog:
        """Flushed, killed, and opened again."""
        self.log.flush()
        self.world.jobs.run_all()
        recovery_point = self.log.recovery_point
        return self.kill_and_open(recovery_point=recovery_point)

    def wait(self, forward_ms: int) -> None:
        self.world.clock.advance(forward_ms)

    def findings(self) -> list[Any]:
        return list(verify_directory(self.disk, DIRECTORY))

    # Reading

    def stored(self) -> list[tuple[bytes, ShallowBatch]]:
        return stored(self.log)

    def data_records(self) -> list[Record]:
        return [
            record._replace(sequence=-1)
            for data, batch in self.stored()
            if not batch.is_control
            for record in records_of(data, batch)
        ]

    def markers(self) -> list[int]:
        """Offsets of the control batches that hold a record."""
        return [batch.base_offset for _, batch in self.stored() if batch.is_control and batch.record_count]

    def table(self, *, committed: bool = True) -> dict[bytes, bytes]:
        """What a reader who builds a table from the whole log gets."""
        aborted = self.log.aborted_transactions(0, self.log.log_end_offset) if committed else ()
        found: dict[bytes, bytes] = {}
        for data, batch in self.stored():
            if batch.is_control or any(
                each.producer_id == batch.producer_id
                and batch.is_transactional
                and each.first_offset <= batch.base_offset < each.last_offset
                for each in aborted
            ):
                continue
            for record in records_of(data, batch):
                if record.key is not None:
                    if record.value is None:
                        found.pop(record.key, None)
                    else:
                        found[record.key] = record.value
        return found

    # The model

    def model_clean(self, first_dirty: int, end: int, latest: int | None = None) -> None:
        """What a clean of the batches below `end` leaves; the map reaches to `latest`."""
        latest = end - 1 if latest is None else latest
        aborted = aborted_batches(self.written)
        newest: dict[bytes, int] = {}
        for batch in self.written:
            if batch.control is None and batch.first not in aborted:
                for record in batch.records:
                    if record.key is not None and first_dirty <= record.offset <= latest:
                        newest[record.key] = record.offset
        with_batches: set[int] = set()
        left: list[Written] = []
        for batch in self.written:
            if batch.first >= end:
                left.append(batch)
            elif batch.control is not None:
                left += self._model_marker(batch, batch.producer_id in with_batches)
                with_batches.discard(batch.producer_id)
            else:
                if batch.is_transactional:
                    with_batches.add(batch.producer_id)
                left += self._model_data(batch, batch.first in aborted, newest, latest, end)
        self.written = left

    def _is_last(self, batch: Written, end: int) -> bool:
        entry = self.log.producers.producers.get(batch.producer_id)
        return batch.last + 1 == end or (entry is not None and entry.last_data_offset == batch.last)

    def _model_data(
        self, batch: Written, is_aborted: bool, newest: dict[bytes, int], latest: int, end: int
    ) -> list[Written]:
        keeps_tombstones = batch.horizon_ms is None or self.now_ms < batch.horizon_ms
        kept = tuple(
            record
            for record in batch.records
            if not is_aborted
            and (
                record.offset > latest
                or (
                    record.key is not None
                    and record.offset >= newest.get(record.key, -1)
                    and (record.value is not None or keeps_tombstones)
                )
            )
        )
        if not kept:
            return [replace(batch, records=(), horizon_ms=None)] if self._is_last(batch, end) else []
        horizon_ms = batch.horizon_ms
        if horizon_ms is None and any(record.value is None for record in kept):
            horizon_ms = self.now_ms + RETENTION_MS
        return [replace(batch, records=kept, horizon_ms=horizon_ms)]

    def _model_marker(self, batch: Written, is_useful: bool) -> list[Written]:
        if is_useful:
            return [batch]
        if batch.horizon_ms is None:
            return [replace(batch, horizon_ms=self.now_ms + RETENTION_MS)]
        return [batch] if self.now_ms < batch.horizon_ms else []

    def expected_records(self) -> list[Record]:
        return [record for batch in self.written if batch.control is None for record in batch.records]

    def expected_shape(self) -> list[tuple[int, int, int, int | None]]:
        """First and last offset, record count and delete horizon of each batch."""
        return [(each.first, each.last, len(each.records), each.horizon_ms) for each in self.written]

    def shape(self) -> list[tuple[int, int, int, int | None]]:
        return [
            (each.base_offset, each.last_offset, each.record_count, each.delete_horizon_ms) for _, each in self.stored()
        ]


def aborted_batches(written: Sequence[Written]) -> set[int]:
    """First offsets of the batches whose transaction ended with an abort."""
    aborted: set[int] = set()
    waiting: dict[int, list[int]] = {}
    for batch in written:
        if batch.control is not None:
            begun = waiting.pop(batch.producer_id, [])
            if batch.control == ABORT:
                aborted.update(begun)
        elif batch.is_transactional:
            waiting.setdefault(batch.producer_id, []).append(batch.first)
    return aborted


def stored(log: UnifiedLog) -> list[tuple[bytes, ShallowBatch]]:
    """Every batch in the files, CRC checked, with the buffer it is in."""
    found = []
    for segment in log.local.segments:
        data = log.local.place.env.files.open(segment.records.path, Mode.READ).read_at(segment.size, 0)
        for batch in batches(data):
            check_integrity(data, batch)
            found.append((data, batch))
    return found
