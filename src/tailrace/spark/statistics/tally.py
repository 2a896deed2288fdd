"""What one piece adds to the statistics of its topic beside its keys: sums, and things that add up like sums."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace.record.batch import CODEC_MASK
from tailrace.record.shallow import NO_TIMESTAMP
from tailrace.spark.source.columns import HEADERS, KEY, OFFSET, TIMESTAMP, VALUE
from tailrace.spark.statistics.age_line import AgeLine
from tailrace.spark.statistics.headers import Headers
from tailrace.spark.statistics.seen import Seen
from tailrace.spark.statistics.sizes import Numbers, Sizes, add_numbers, lengths
from tailrace.spark.statistics.timeline import END_MS, TimeLine

RECORD_BYTES: Final = 8
"""What a record takes beside key, value and headers, about. A measure to share bytes out by: see `estimate`."""
MOST_SKIPPED: Final = 100

BATCHES, RECORDS, STORED, PLAIN = range(4)


@dataclass(frozen=True)
class Records:
    """The records of an Arrow batch, as columns of numbers."""

    keys: pa.Array
    offsets: Numbers
    times_ms: Numbers
    key_sizes: Numbers
    """−1 for null."""
    value_sizes: Numbers
    payload: Numbers
    sizes: Numbers
    """Key, value, headers with their lengths, and RECORD_BYTES."""

    @property
    def tombstones(self) -> Numbers:
        return ((self.key_sizes >= 0) & (self.value_sizes < 0)).astype(np.int64)


@dataclass
class PartitionTally:
    records: int = 0
    stored_bytes: int = 0
    batches: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    ages: AgeLine = field(default_factory=lambda: AgeLine(2))
    """Bytes and records of batches, by their greatest timestamps."""

    def take(self, other: PartitionTally) -> None:
        self.records += other.records
        self.stored_bytes += other.stored_bytes
        self.batches += other.batches
        self.date(other.first_ms, other.last_ms)
        self.ages.take(other.ages)

    def date(self, first_ms: int | None, last_ms: int | None) -> None:
        if first_ms is not None and last_ms is not None:
            self.first_ms = first_ms if self.first_ms is None else min(self.first_ms, first_ms)
            self.last_ms = last_ms if self.last_ms is None else max(self.last_ms, last_ms)


@dataclass
class Cleanable:
    """What a cleaner would look at: everything, or what is in closed segments."""

    bytes: int = 0
    """Of batches with data that are not aborted."""
    records: int = 0
    sizes: int = 0
    """Of these records, as `Records` has them."""
    lost_bytes: int = 0
    """Of batches that go whatever their keys are: aborted ones, and markers whose delete horizon has passed."""
    keyless: int = 0

    def take(self, other: Cleanable) -> None:
        add_numbers(self, other)


@dataclass
class Tally:
    control_batches: int = 0
    aborted_batches: int = 0
    aborted_records: int = 0
    payload_bytes: int = 0
    tombstones: int = 0
    null_values: int = 0
    null_keys: int = 0
    key_sizes: Sizes = field(default_factory=Sizes)
    value_sizes: Sizes = field(default_factory=Sizes)
    batch_sizes: Sizes = field(default_factory=Sizes)
    batch_records: Sizes = field(default_factory=Sizes)
    rates: TimeLine = field(default_factory=lambda: TimeLine(3))
    """Records, payload and tombstones, by timestamps of records."""
    headers: Headers = field(default_factory=Headers)
    codecs: Numbers = field(default_factory=lambda: np.zeros((CODEC_MASK + 1, 4), np.int64))
    """BATCHES, RECORDS, STORED and PLAIN of each codec, of batches with data that are not aborted."""
    partitions: dict[int, PartitionTally] = field(default_factory=dict)
    whole: Cleanable = field(default_factory=Cleanable)
    closed: Cleanable = field(default_factory=Cleanable)
    sampled_batches: int = 0
    is_all_sampled: bool = True
    skipped: list[str] = field(default_factory=list)

    def take(self, other: Tally) -> None:
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if hasattr(mine, "take") and not isinstance(mine, np.ndarray):
                mine.take(theirs)
            elif isinstance(mine, bool):
                setattr(self, each.name, mine and theirs)
            elif isinstance(mine, int | np.ndarray):
                setattr(self, each.name, mine + theirs)
        for number, partition in other.partitions.items():
            self.partitions.setdefault(number, PartitionTally()).take(partition)
        self.skipped = (self.skipped + other.skipped)[:MOST_SKIPPED]

    # Records

    def add_records(self, partition: int, batch: pa.RecordBatch, closed_to: int | None) -> Records:
        headers, framed_headers = self.headers.add(batch.column(HEADERS))
        keys = batch.column(KEY)
        key_sizes, value_sizes = lengths(keys, of_null=-1), lengths(batch.column(VALUE), of_null=-1)
        data = np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
        records = Records(
            keys=keys,
            offsets=batch.column(OFFSET).to_numpy(),
            times_ms=batch.column(TIMESTAMP).cast(pa.int64()).to_numpy() // 1000,
            key_sizes=key_sizes,
            value_sizes=value_sizes,
            payload=data + headers,
            sizes=data + framed_headers + RECORD_BYTES,
        )
        self._count(partition, records, closed_to)
        return records

    def _count(self, partition: int, records: Records, closed_to: int | None) -> None:
        is_keyless, count = records.key_sizes < 0, len(records.offsets)
        tombstones = records.tombstones
        self.payload_bytes += int(records.payload.sum())
        self.tombstones += int(tombstones.sum())
        self.null_values += int((records.value_sizes < 0).sum())
        self.null_keys += int(is_keyless.sum())
        self.key_sizes.add(records.key_sizes[~is_keyless])
        self.value_sizes.add(records.value_sizes[records.value_sizes >= 0])
        self.rates.add(records.times_ms, (np.ones(count, np.int64), records.payload, tombstones))
        dated = records.times_ms[(records.times_ms >= 0) & (records.times_ms < END_MS)]
        mine = self.partitions.setdefault(partition, PartitionTally())
        mine.records += count
        if len(dated):
            mine.date(int(dated.min()), int(dated.max()))
        below = np.ones(count, np.bool_)
        for cleanable in (self.whole, self.closed):
            cleanable.records += int(below.sum())
            cleanable.sizes += int(records.sizes[below].sum())
            cleanable.keyless += int(is_keyless[below].sum())
            below = records.offsets < (-1 if closed_to is None else closed_to)

    # Batches

    def add_batches(
        self,
        partition: int,
        seen: Seen,
        is_aborted: np.ndarray,
        is_damaged: np.ndarray,
        closed_to: int | None,
        now_ms: int,
    ) -> Seen:
        """Gives those with data that are not aborted. Of damaged ones nothing is believed but that they take room."""
        is_control = seen.is_control
        has_passed = seen.has_passed(now_ms) & is_control
        has_data = ~is_control & ~is_aborted & ~is_damaged
        data = seen.where(has_data)
        self.control_batches += int(is_control.sum())
        self.aborted_batches += int(is_aborted.sum())
        self.aborted_records += int(seen.record_count[is_aborted].sum())
        self.batch_sizes.add(data.size)
        self.batch_records.add(data.record_count)
        ones = np.ones(len(data), np.int64)
        np.add.at(self.codecs, data.codec, np.stack((ones, data.record_count, data.size, data.size), axis=1))
        mine = self.partitions.setdefault(partition, PartitionTally())
        mine.stored_bytes += int(seen.size.sum())
        mine.batches += len(data)
        times_ms = np.where(is_damaged, NO_TIMESTAMP, seen.max_timestamp)
        mine.ages.add(times_ms, (seen.size, np.where(has_data, seen.record_count, 0)))
        below = np.ones(len(seen), np.bool_)
        for cleanable in (self.whole, self.closed):
            cleanable.bytes += int(seen.size[below & has_data].sum())
            cleanable.lost_bytes += int(seen.size[below & (is_aborted | has_passed)].sum())
            below = seen.last_offset < (-1 if closed_to is None else closed_to)
        return data

    def add_plain(self, codec: int, more_bytes: int) -> None:
        """Of a batch that was opened: by how much it is longer than stored."""
        self.codecs[codec, PLAIN] += more_bytes
