"""From what tasks found to what is told."""

from __future__ import annotations

from typing import Final

import numpy as np

from tailrace.record.compression import CODEC_NAMES
from tailrace.spark.statistics.estimate import codec_trials, compaction_gain
from tailrace.spark.statistics.job import Found
from tailrace.spark.statistics.plan import Plan
from tailrace.spark.statistics.retention import retention_of
from tailrace.spark.statistics.tally import BATCHES, PLAIN, RECORDS, STORED, PartitionTally
from tailrace.spark.statistics.timeline import WIDTHS_MS, TimeLine
from tailrace.spark.statistics.topic_stats import (
    CodecStats,
    PartitionStats,
    Producers,
    Rates,
    TimeBucket,
    TopicStats,
)

MOST_BUCKETS: Final = 240
LEAST_BUCKET_MS: Final = 1000


def assembled(plan: Plan, found: Found, seconds: float) -> TopicStats:
    tally = found.tally
    partitions = tuple(
        _partition(each.partition.partition, each.start, each.end, tally.partitions.get(each.partition.partition))
        for each in plan.ranges
    )
    stored = sum(each.stored_bytes for each in partitions)
    return TopicStats(
        topic=plan.topic,
        source=plan.source,
        partitions=partitions,
        records=sum(each.records for each in partitions),
        batches=sum(each.batches for each in partitions),
        control_batches=tally.control_batches,
        aborted_records=tally.aborted_records,
        stored_bytes=stored,
        plain_bytes=stored + int(tally.codecs[:, PLAIN].sum() - tally.codecs[:, STORED].sum()),
        payload_bytes=tally.payload_bytes,
        tombstones=tally.tombstones,
        null_values=tally.null_values,
        keys=found.keys.stats(tally.null_keys),
        key_sizes=tally.key_sizes.histogram(),
        value_sizes=tally.value_sizes.histogram(),
        batch_sizes=tally.batch_sizes.histogram(),
        batch_records=tally.batch_records.histogram(),
        rates=_rates(tally.rates, partitions, tally.payload_bytes),
        headers=tally.headers.stats(),
        producers=Producers(found.producers.distinct, tuple(found.producers.listed)),
        codecs=_codecs(tally.codecs),
        codec_trials=codec_trials(tally, found.trials, stored),
        compaction=compaction_gain(found, stored, has_closed=plan.closed_to is not None),
        retention=retention_of(tally.partitions, partitions),
        skipped=tuple(tally.skipped),
        seconds=seconds,
    )


def _partition(number: int, start: int, end: int, tally: PartitionTally | None) -> PartitionStats:
    own = tally or PartitionTally()
    return PartitionStats(
        number, start, max(start, end), own.records, own.stored_bytes, own.batches, own.first_ms, own.last_ms
    )


def _codecs(sums: np.ndarray) -> tuple[CodecStats, ...]:
    found = [
        CodecStats(
            codec=CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown ({codec})",
            batches=int(row[BATCHES]),
            records=int(row[RECORDS]),
            stored_bytes=int(row[STORED]),
            plain_bytes=int(row[PLAIN]),
        )
        for codec, row in enumerate(sums)
        if row[BATCHES]
    ]
    return tuple(sorted(found, key=lambda each: -each.stored_bytes))


def _rates(line: TimeLine, partitions: tuple[PartitionStats, ...], payload_bytes: int) -> Rates:
    shown = line.copy()
    shown.widen(LEAST_BUCKET_MS)
    while shown.span > MOST_BUCKETS:
        shown.widen(WIDTHS_MS[WIDTHS_MS.index(shown.width_ms) + 1])
    first = min((each.first_ms for each in partitions if each.first_ms is not None), default=0)
    last = max((each.last_ms for each in partitions if each.last_ms is not None), default=0)
    seconds = (last - first) / 1000
    records = int(shown.sums[:, 0].sum())
    dated_payload = payload_bytes - int(shown.undated[1])
    return Rates(
        bucket_ms=shown.width_ms,
        buckets=tuple(
            TimeBucket(start, *sums) for start, sums in zip(shown.starts.tolist(), shown.sums.tolist(), strict=True)
        ),
        undated=int(shown.undated[0]),
        busiest_records_per_s=int(shown.sums[:, 0].max(initial=0)) / (shown.width_ms / 1000),
        mean_records_per_s=records / seconds if seconds else 0.0,
        mean_payload_bytes_per_s=dated_payload / seconds if seconds else 0.0,
    )
