"""A batch without the records that compaction takes, made by the cleaner's own sieve.

Only which records are superseded is told: to know that takes all keys, and no batch has them.
"""

from __future__ import annotations

from array import array
from random import Random
from typing import Final, NamedTuple

import numpy as np

from tailrace.env import Buffer
from tailrace.record.kernels import DROPPED, KEPT, KEPT_TOMBSTONE
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES, records_of
from tailrace.record.shallow import ShallowBatch
from tailrace.record.walk import HEADERS_END, HEADERS_START, KEY_LENGTH, OFFSET, ROW, VALUE_LENGTH
from tailrace.spark.statistics.sizes import Numbers
from tailrace.spark.statistics.tally import RECORD_BYTES
from tailrace.storage.compaction.legacy_sieve import sift_messages
from tailrace.storage.compaction.offset_map import LOAD_FACTOR, SLOT_BYTES, OffsetMap
from tailrace.storage.compaction.sieve import Sieve
from tailrace.storage.compaction.verdict import CleanRules, Verdict

_RETENTION_MS: Final = 24 * 3_600_000
"""`delete.retention.ms`, as topics have it by default."""


class Sifted(NamedTuple):
    bytes: int
    """Of what is left, the batch's header included."""
    left_sizes: int
    """Of records that stay, as `tally.Records` has sizes."""
    gone_sizes: int


class Sifter:
    """For one batch after the other. One thread."""

    def __init__(self, now_ms: int) -> None:
        self._rules = CleanRules(now_ms, _RETENTION_MS, 0, 0, {})
        self._map = _GivenMap()
        self._sieve = Sieve(self._map, self._rules)

    def sift(self, data: bytes, batch: ShallowBatch, gone: Numbers, *, keeps_empty: bool) -> Sifted:
        """`gone`: offsets that are superseded, ascending; also those of other batches."""
        first, behind = np.searchsorted(gone, (batch.base_offset, batch.next_offset)).tolist()
        own = gone[first:behind]
        if not batch.is_v2:
            return _sift_messages(data, batch, own, keeps_empty=keeps_empty)
        self._map.begin(own)
        left = self._sieve.sift(data, batch, Verdict(keeps_empty=keeps_empty))
        return Sifted(0 if left is None else len(left), self._map.left_sizes, self._map.gone_sizes)


class _GivenMap(OffsetMap):
    """Has no keys: it is told which offsets have a newer one."""

    def __init__(self) -> None:
        super().__init__(2 * SLOT_BYTES, Random(0))
        self.begin(np.zeros(0, np.int64))

    def begin(self, gone: Numbers) -> None:
        self._gone = gone
        self.left_sizes = 0
        self.gone_sizes = 0

    def keep_rows(
        self, buffer: Buffer, rows: array[int], count: int, kept: bytearray, kept_at: int, *, keeps_tombstones: bool
    ) -> int:
        table = np.frombuffer(rows, np.int64, ROW * count).reshape(-1, ROW)
        has_key, has_value = table[:, KEY_LENGTH] >= 0, table[:, VALUE_LENGTH] >= 0
        stays = has_key & ~np.isin(table[:, OFFSET], self._gone) & (has_value | keeps_tombstones)
        marks = np.where(stays, np.where(has_value, KEPT, KEPT_TOMBSTONE), DROPPED)
        kept[kept_at : kept_at + count] = marks.astype(np.uint8).tobytes()
        data = np.maximum(table[:, KEY_LENGTH], 0) + np.maximum(table[:, VALUE_LENGTH], 0)
        # Without any headers there is still their number, in one byte.
        sizes = data + table[:, HEADERS_END] - table[:, HEADERS_START] - 1 + RECORD_BYTES
        self.left_sizes += int(sizes[stays].sum())
        self.gone_sizes += int(sizes[~stays].sum())
        return int((~has_key).sum())


def _sift_messages(data: bytes, batch: ShallowBatch, gone: Numbers, *, keeps_empty: bool) -> Sifted:
    """Of old formats there is little: each record is put, with a greater offset if it is to go."""
    superseded = set(gone.tolist())
    records = list(records_of(data, batch, MAX_DECOMPRESSED_BYTES))
    offset_map = OffsetMap(SLOT_BYTES * (int(len(records) / LOAD_FACTOR) + 2), Random(0))
    sizes = [0, 0]
    for record in records:
        if record.key is not None:
            offset_map.put(record.key, record.offset + (record.offset in superseded))
        stays = record.key is not None and record.offset not in superseded
        sizes[stays] += len(record.key or b"") + len(record.value or b"") + RECORD_BYTES
    offset_map.mapped_to(batch.next_offset)
    left = sift_messages(data, batch, offset_map, keeps_tombstones=True, keeps_empty=keeps_empty).data
    return Sifted(0 if left is None else len(left), sizes[True], sizes[False])
