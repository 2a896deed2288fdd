"""What statistics of a topic must say, in plain Python from what was written. Nothing of it is taken from the code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.stats.topics import Put, Row
from tailrace.record.compression import CODEC_NAMES
from tailrace.record.reader import records_of
from tailrace.record.shallow import ShallowBatch, batches
from tailrace.spark.statistics.topic_stats import Histogram, TopicStats

LIMITS_MS = {"1h": 1, "6h": 6, "1d": 24, "3d": 72, "7d": 168, "30d": 720}


@dataclass
class Stored:
    """A batch as a file has it."""

    partition: int
    batch: ShallowBatch
    plain_bytes: int


class Model:
    def __init__(self, puts: Sequence[Put]) -> None:
        self.puts = [put for put in puts if not put.is_aborted]
        self.aborted = [put for put in puts if put.is_aborted]
        self.rows = [(put.partition, row) for put in self.puts for row in put.rows]

    def all(self) -> list[Row]:
        return [row for _, row in self.rows]

    def key_counts(self) -> Counter[bytes]:
        return Counter(row.key for row in self.all() if row.key is not None)

    def hot(self, top: int) -> list[tuple[bytes, int, int]]:
        sizes: Counter[bytes] = Counter()
        for row in self.all():
            if row.key is not None:
                sizes[row.key] += row.payload
        counts = self.key_counts()
        ordered = sorted(counts, key=lambda key: (-counts[key], key))
        return [(key[:256], counts[key], sizes[key]) for key in ordered[:top]]

    def gini(self) -> float:
        """Half the mean difference of two keys, of their mean."""
        counts = list(self.key_counts().values())
        differences = sum(abs(one - other) for one in counts for other in counts)
        return differences / (2 * len(counts) * sum(counts)) if counts else 0.0

    def several(self) -> int:
        places: dict[bytes, set[int]] = {}
        for partition, row in self.rows:
            if row.key is not None:
                places.setdefault(row.key, set()).add(partition)
        return sum(len(each) > 1 for each in places.values())

    def left(self) -> list[Row]:
        """What compaction leaves."""
        newest = {(partition, row.key): row for partition, row in self.rows if row.key is not None}
        return list(newest.values())

    def headers(self) -> dict[str, tuple[int, int, int]]:
        found: dict[str, list[int]] = {}
        for row in self.all():
            for name in {name for name, _ in row.headers}:
                found.setdefault(name, [0, 0, 0])[0] += 1
            for name, value in row.headers:
                found[name][1] += 1
                found[name][2] += len(name.encode()) + len(value or b"")
        return {name: (each[0], each[1], each[2]) for name, each in found.items()}

    def producers(self) -> dict[int | None, int]:
        found: Counter[int | None] = Counter()
        for put in [*self.puts, *self.aborted]:
            found[put.producer_id if put.producer_id >= 0 else None] += 0 if put.is_aborted else len(put.rows)
        return dict(found)


def stored_batches(path: Path, partitions: int) -> list[Stored]:
    found = []
    for number in range(partitions):
        for file in sorted((path / f"t-{number}").glob("*.log")):
            data = file.read_bytes()
            for batch in batches(data):
                plain = batch.size
                if batch.codec:
                    plain = len(_plain_batch(data, batch))
                found.append(Stored(number, batch, plain))
    return found


def _plain_batch(data: bytes, batch: ShallowBatch) -> bytes:
    from tailrace.record.builder import BatchBuilder

    builder = BatchBuilder()
    for record in records_of(data, batch):
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return bytes(builder.build())


def check(found: TopicStats, puts: Sequence[Put], path: Path, partitions: int, top: int) -> None:
    model = Model(puts)
    rows = model.all()
    assert found.records == len(rows)
    assert found.aborted_records == sum(len(put.rows) for put in model.aborted)
    assert found.payload_bytes == sum(row.payload for row in rows)
    assert found.null_values == sum(row.value is None for row in rows)
    assert found.tombstones == sum(row.value is None and row.key is not None for row in rows)
    _check_keys(found, model, top)
    check_sizes(found.key_sizes, [len(row.key) for row in rows if row.key is not None])
    check_sizes(found.value_sizes, [len(row.value) for row in rows if row.value is not None])
    headers = {each.name: (each.records, each.count, each.bytes) for each in found.headers.names}
    assert headers == model.headers()
    assert found.headers.records == sum(bool(row.headers) for row in rows)
    assert {each.producer_id: each.records for each in found.producers.listed} == model.producers()
    assert found.compaction.whole.records == len(model.left())
    assert found.compaction.tombstones == sum(row.value is None for row in model.left())
    assert found.compaction.keyless_records == sum(row.key is None for row in rows)
    _check_rates(found, rows)
    _check_batches(found, model, stored_batches(path, partitions))


def _check_keys(found: TopicStats, model: Model, top: int) -> None:
    keys, counts = found.keys, model.key_counts()
    assert (keys.distinct, keys.keyed_records) == (len(counts), counts.total())
    assert keys.null_records == sum(row.key is None for row in model.all())
    assert keys.several_partitions == model.several()
    assert keys.once == sum(count == 1 for count in counts.values())
    assert [(each.key, each.records, each.payload_bytes) for each in keys.hot] == model.hot(top)
    assert abs(keys.gini - model.gini()) < 1e-9
    if counts:
        assert (keys.lorenz[0], keys.lorenz[-1]) == ((0.0, 0.0), (1.0, 1.0))
        assert list(keys.lorenz) == sorted(keys.lorenz)


def check_sizes(found: Histogram, sizes: Sequence[int]) -> None:
    assert (found.count, found.total) == (len(sizes), sum(sizes))
    assert (found.least, found.greatest) == (min(sizes, default=0), max(sizes, default=0))
    assert sum(count for _, _, count in found.bins) == len(sizes)
    for start, end, count in found.bins:
        assert count == sum(start <= size < end for size in sizes)
    if sizes:
        ordered = sorted(sizes)
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
            exact = ordered[min(-int(-len(sizes) * share * 1000 // 1000), len(sizes)) - 1]
            assert exact <= found.quantiles[name] <= exact + exact // 8


def _check_rates(found: TopicStats, rows: Sequence[Row]) -> None:
    rates = found.rates
    dated = [row for row in rows if row.time_ms >= 0]
    assert rates.undated == len(rows) - len(dated)
    buckets: dict[int, list[int]] = {}
    for row in dated:
        sums = buckets.setdefault(row.time_ms - row.time_ms % rates.bucket_ms, [0, 0, 0])
        is_tombstone = row.value is None and row.key is not None
        sums[:] = [sums[0] + 1, sums[1] + row.payload, sums[2] + is_tombstone]
    told = {each.start_ms: [each.records, each.payload_bytes, each.tombstones] for each in rates.buckets}
    assert told == buckets
    assert len(buckets) <= 240
    assert found.first_ms == min((row.time_ms for row in dated), default=None)
    assert found.last_ms == max((row.time_ms for row in dated), default=None)


def _check_batches(found: TopicStats, model: Model, stored: Sequence[Stored]) -> None:
    data = [each for each in stored if not each.batch.is_control]
    aborted = {put.rows for put in model.aborted}
    assert found.stored_bytes == sum(each.batch.size for each in stored)
    assert found.control_batches == len(stored) - len(data)
    assert found.batches == len(model.puts)
    assert [each.stored_bytes for each in found.partitions] == [
        sum(each.batch.size for each in stored if each.partition == partition.partition)
        for partition in found.partitions
    ]
    if not aborted:
        check_sizes(found.batch_sizes, [each.batch.size for each in data])
        check_sizes(found.batch_records, [each.batch.record_count for each in data])
        assert {each.codec: _codec(each) for each in found.codecs} == _codecs(data)
        _check_retention(found, stored)
    assert found.plain_bytes >= found.payload_bytes


def _codec(each: Any) -> tuple[int, int, int, int]:
    return each.batches, each.records, each.stored_bytes, each.plain_bytes


def _codecs(data: Iterable[Stored]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for each in data:
        name, batch = CODEC_NAMES[each.batch.codec], each.batch
        own = (1, batch.record_count, batch.size, each.plain_bytes)
        before = found.get(name, (0, 0, 0, 0))
        found[name] = tuple(one + more for one, more in zip(before, own, strict=True))
    return found


def _check_retention(found: TopicStats, stored: Sequence[Stored]) -> None:
    newest = found.last_ms
    assert found.retention.newest_ms == newest
    for limit in found.retention.times:
        since = (newest or 0) - LIMITS_MS[limit.name] * 3_600_000
        kept = [each.batch for each in stored if each.batch.max_timestamp >= since or each.batch.max_timestamp < 0]
        assert limit.kept_bytes == sum(each.size for each in kept)
        assert limit.kept_records == sum(each.record_count for each in kept if not each.is_control)
    for size in found.retention.sizes:
        assert size.kept_bytes == sum(min(each.stored_bytes, size.limit_bytes) for each in found.partitions)
