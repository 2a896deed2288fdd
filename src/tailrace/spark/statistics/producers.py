"""Producers by their ids. There may be as many as there are batches: like keys, a shuffle brings them together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace.spark.statistics.sample import BatchSample, are_in
from tailrace.spark.statistics.seen import Numbers, Seen
from tailrace.spark.statistics.topic_stats import ProducerStats
from tailrace.spark.tables.tasks.buckets import packed

MOST_LISTED: Final = 100
SENT_PRODUCERS: Final = 50_000
EXPIRATION_MS: Final = 24 * 3_600_000
"""`producer.id.expiration.ms`, as brokers have it by default: who is silent for longer is no active producer."""

SCHEMA: Final = pa.schema(
    [
        (name, pa.int64())
        for name in (
            "id",
            "partition",
            "least_epoch",
            "greatest_epoch",
            "records",
            "batches",
            "stored_bytes",
            "transactional_records",
            "last_ms",
            "last_offset",
            "is_sampled",
        )
    ]
)


class PieceProducers:
    """Those of one piece."""

    def __init__(self, sample: BatchSample) -> None:
        self._sample = sample
        self._found: dict[int, list[int]] = {}

    def add(self, seen: Seen, records: Numbers) -> None:
        """Batches with data, and how many records of each count."""
        if not len(seen):
            return
        ids, places = np.unique(np.maximum(seen.producer_id, -1), return_inverse=True)
        sums = np.zeros((len(ids), 4), np.int64)
        transactional = np.where(seen.is_transactional, records, 0)
        np.add.at(sums, places, np.stack((records, np.ones_like(records), seen.size, transactional), axis=1))
        greatest = np.full((len(ids), 4), -1, np.int64)
        least = np.full(len(ids), 1 << 15, np.int64)
        np.maximum.at(
            greatest,
            places,
            np.stack((seen.producer_epoch, seen.max_timestamp, seen.last_offset, seen.last_offset), axis=1),
        )
        np.minimum.at(least, places, seen.producer_epoch)
        for row, producer_id in enumerate(ids.tolist()):
            own = self._found.setdefault(producer_id, [1 << 15, -1, 0, 0, 0, 0, -1, -1])
            own[0] = min(own[0], int(least[row]))
            own[1] = max(own[1], int(greatest[row, 0]))
            own[2:6] = [before + more for before, more in zip(own[2:6], sums[row].tolist(), strict=True)]
            own[6] = max(own[6], int(greatest[row, 1]))
            own[7] = max(own[7], int(greatest[row, 2]))

    @property
    def is_full(self) -> bool:
        return len(self._found) >= SENT_PRODUCERS

    def send(self, partition: int, buckets: int) -> Iterator[tuple[int, bytes]]:
        """By buckets; nothing is left then."""
        rows = np.array([[each, partition, *own] for each, own in self._found.items()], np.int64)
        self._found.clear()
        if not len(rows):
            return
        is_sampled = are_in(rows[:, -1], *self._sample.ranges()).astype(np.int64)
        rows = np.column_stack((rows, is_sampled))
        numbers = rows[:, 0] % buckets
        for bucket in np.unique(numbers).tolist():
            columns = [pa.array(column) for column in rows[numbers == bucket].T]
            yield bucket, packed(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


@dataclass
class ProducersFound:
    """Of one bucket; they add up."""

    distinct: int = 0
    listed: list[ProducerStats] = field(default_factory=list)
    last_offsets: list[tuple[int, int]] = field(default_factory=list)
    """Partition and offset: last batches of producers that are still active, of those that are sampled."""

    def take(self, other: ProducersFound) -> None:
        self.distinct += other.distinct
        self.listed = _most(self.listed + other.listed)
        self.last_offsets += other.last_offsets


def producers_of(table: pa.Table, now_ms: int) -> ProducersFound:
    columns = {name: table.column(name).to_numpy() for name in SCHEMA.names}
    if not table.num_rows:
        return ProducersFound()
    ids, places = np.unique(columns["id"], return_inverse=True)
    sums = np.zeros((len(ids), 4), np.int64)
    added = ("records", "batches", "stored_bytes", "transactional_records")
    np.add.at(sums, places, np.stack([columns[name] for name in added], axis=1))
    least = np.full(len(ids), 1 << 15, np.int64)
    np.minimum.at(least, places, columns["least_epoch"])
    greatest = np.full((len(ids), 2), -1, np.int64)
    np.maximum.at(greatest, places, np.stack((columns["greatest_epoch"], columns["last_ms"]), axis=1))
    order = np.lexsort((ids, -sums[:, 0]))[:MOST_LISTED]
    listed = [
        ProducerStats(
            producer_id=None if ids[row] < 0 else int(ids[row]),
            epochs=None if ids[row] < 0 else (int(least[row]), int(greatest[row, 0])),
            records=int(sums[row, 0]),
            batches=int(sums[row, 1]),
            stored_bytes=int(sums[row, 2]),
            transactional_records=int(sums[row, 3]),
            last_ms=int(greatest[row, 1]),
        )
        for row in order.tolist()
    ]
    return ProducersFound(int((ids >= 0).sum()), listed, _last_offsets(columns, now_ms))


def _last_offsets(columns: dict[str, Numbers], now_ms: int) -> list[tuple[int, int]]:
    ids, partitions, offsets = columns["id"], columns["partition"], columns["last_offset"]
    order = np.lexsort((offsets, partitions, ids))
    is_last = np.ones(len(order), np.bool_)
    same = (ids[order][1:] == ids[order][:-1]) & (partitions[order][1:] == partitions[order][:-1])
    is_last[:-1] = ~same
    rows = order[is_last]
    is_active = (ids[rows] >= 0) & (columns["last_ms"][rows] > now_ms - EXPIRATION_MS)
    rows = rows[is_active & (columns["is_sampled"][rows] != 0)]
    return list(zip(partitions[rows].tolist(), offsets[rows].tolist(), strict=True))


def _most(listed: list[ProducerStats]) -> list[ProducerStats]:
    def order(each: ProducerStats) -> tuple[int, int]:
        return -each.records, -1 if each.producer_id is None else each.producer_id

    return sorted(listed, key=order)[:MOST_LISTED]
