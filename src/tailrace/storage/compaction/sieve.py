"""Which records of a batch of format v2 stay, and the batch without the others. Plain batches go the way of `runs`.

A batch that keeps all its records and its delete horizon stays as it is, byte for byte. Any other is written anew: see
`record.filter` for what stays in its header and what changes. A batch that keeps a tombstone, and a marker that is of
no use any more, get a delete horizon if they have none: from then on they have `delete.retention.ms` to be read.

Records are walked and judged by kernels; Python sees batches only. One thread at a time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.env import Buffer
from tailrace.model.errors import InvalidRecordError
from tailrace.record import kernels
from tailrace.record.batch import (
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_V2,
    BatchHeader,
    set_crc,
)
from tailrace.record.compression import compress, decompress
from tailrace.record.filter import emptied
from tailrace.record.kernels import DROPPED, GREATEST_GROWTH, KEPT, KEPT_TOMBSTONE
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES
from tailrace.record.shallow import ShallowBatch
from tailrace.storage.compaction.offset_map import OffsetMap
from tailrace.storage.compaction.rows import Rows, timestamps_of
from tailrace.storage.compaction.verdict import CleanRules, Verdict

_GREATEST_LENGTH: Final = 2**31 - 1


class _Payload(NamedTuple):
    """Uncompressed records: `data[start:end]`."""

    data: Buffer
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class _Marks(NamedTuple):
    """What was said of each record of a batch: `kept[start:end]`."""

    kept: bytearray
    start: int
    end: int


class Sieve:
    """For one clean: the map is filled. Counts what it drops."""

    def __init__(self, offset_map: OffsetMap, rules: CleanRules) -> None:
        self._map = offset_map
        self._rules = rules
        self._rows = Rows()
        self.records_read = 0
        self.records_kept = 0
        self.invalid_records = 0

    def sift(self, data: Buffer, batch: ShallowBatch, verdict: Verdict) -> Buffer | None:
        """The batch as it is to be, None when nothing of it stays."""
        if verdict.is_discarded or not batch.record_count:
            self.records_read += max(batch.record_count, 0)
            return emptied(batch) if verdict.keeps_empty else None
        payload = _Payload(data, batch.position + HEADER_BYTES, batch.end)
        if batch.codec and payload.size:
            whole = decompress(batch.codec, memoryview(data)[payload.start : payload.end], MAX_DECOMPRESSED_BYTES)
            payload = _Payload(whole, 0, len(whole))
        return self._with_marked(data, batch, payload, self._judged(payload, batch), verdict)

    def _judged(self, payload: _Payload, batch: ShallowBatch) -> _Marks:
        # A record has at least seven bytes: no count that a header states makes this larger than it can get.
        kept = bytearray(min(max(batch.record_count, 0), payload.size // 7))
        done = 0
        keeps_tombstones = self._rules.keeps_tombstones(batch)
        for count in self._rows.walk_payload(*payload, batch):
            if batch.is_control:
                kept[done : done + count] = bytes([KEPT]) * count
            else:
                self.invalid_records += self._map.keep_rows(
                    payload.data, self._rows.cells, count, kept, done, keeps_tombstones=keeps_tombstones
                )
            done += count
        return _Marks(kept, 0, done)

    def _with_marked(
        self, data: Buffer, batch: ShallowBatch, payload: _Payload, marks: _Marks, verdict: Verdict
    ) -> Buffer | None:
        """The batch in `data` with those of its records that are marked."""
        count = batch.record_count
        dropped = marks.kept.count(DROPPED, marks.start, marks.end)
        self.records_read += count
        self.records_kept += count - dropped
        if dropped == count:
            return emptied(batch) if verdict.keeps_empty else None
        horizon_ms = batch.delete_horizon_ms
        if horizon_ms is None and (verdict.is_stamped or marks.kept.find(KEPT_TOMBSTONE, marks.start, marks.end) >= 0):
            horizon_ms = self._rules.new_horizon_ms
        elif not dropped:
            return memoryview(data)[batch.position : batch.end]
        return _rebuilt(batch, payload, marks, count - dropped, horizon_ms)


def _rebuilt(
    batch: ShallowBatch, payload: _Payload, marks: _Marks, kept_count: int, horizon_ms: int | None
) -> bytearray:
    same_timestamp, base_timestamp = timestamps_of(batch)
    out = bytearray(payload.size + GREATEST_GROWTH * kept_count)
    written, new_base, max_timestamp = kernels.rebuild_records(
        *payload,
        marks.kept,
        marks.start,
        batch.record_count,
        base_timestamp,
        same_timestamp,
        horizon_ms is not None,
        horizon_ms or 0,
        out,
    )
    if written < 0:
        raise InvalidRecordError(f"batch at offset {batch.base_offset} does not hold {batch.record_count} records")
    if batch.timestamp_type == LOG_APPEND_TIME:
        max_timestamp = batch.max_timestamp
    records: Buffer = memoryview(out)[:written]
    if batch.codec:
        records = compress(batch.codec, records)
    return _assembled(batch, records, kept_count, new_base, max_timestamp, horizon_ms is not None)


def _assembled(
    batch: ShallowBatch, records: Buffer, count: int, base_timestamp: int, max_timestamp: int, has_horizon: bool
) -> bytearray:
    length = HEADER_BYTES - LOG_OVERHEAD + len(records)
    if length > _GREATEST_LENGTH:
        raise InvalidRecordError(f"batch at offset {batch.base_offset} would grow to {length} bytes")
    made = bytearray(
        BatchHeader(
            base_offset=batch.base_offset,
            length=length,
            leader_epoch=batch.leader_epoch,
            magic=MAGIC_V2,
            crc=0,
            attributes=batch.attributes | (DELETE_HORIZON_BIT if has_horizon else 0),
            last_offset_delta=batch.last_offset - batch.base_offset,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            record_count=count,
        ).pack()
    )
    made += records
    set_crc(made)
    return made
