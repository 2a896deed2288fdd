"""What the partitions of a broker show of themselves, under Kafka's names. Read when somebody asks, never kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from tailrace.metrics.gauge import Gauge
from tailrace.metrics.row import Columns, Row
from tailrace.replication.partition import Partition

_TAGS: Final = ("topic", "partition")
PARTITION: Final = Columns(
    "cluster",
    "Partition",
    ("UnderReplicated", "InSyncReplicasCount", "UnderMinIsr", "AtMinIsr", "ReplicasCount", "LastStableOffsetLag"),
    _TAGS,
)
LOG: Final = Columns("log", "Log", ("Size", "NumLogSegments", "LogStartOffset", "LogEndOffset"), _TAGS)


def replica_gauges(online: Collection[Partition], offline_count: int, now_ms: int) -> Iterator[Gauge | Row]:
    """Each partition, then all together: one pass, which the reader may interrupt between any two."""
    leaders = under_replicated = under_min_isr = at_min_isr = reassigning = late = producers = 0
    for partition in online:
        labels = (partition.topic, partition.index)
        leads, log, registration = partition.is_leader, partition.log, partition.registration
        is_under_replicated = partition.is_under_replicated
        is_under_min_isr, is_at_min_isr = partition.is_under_min_isr, partition.is_at_min_isr
        lag = 0
        if log is not None:
            lag = log.high_watermark - log.last_stable_offset
            producers += len(log.producers.producers)
            local = log.local
            yield Row(LOG, labels, (local.size, len(local.segments), log.log_start_offset, log.log_end_offset))
        if leads:
            leaders += 1
            under_replicated += is_under_replicated
            under_min_isr += is_under_min_isr
            at_min_isr += is_at_min_isr
            reassigning += registration is not None and registration.is_reassigning
            late += log is not None and log.producers.has_late_transaction(now_ms)
        in_sync = len(partition.isr_state.isr) if leads else 0
        replicas = partition.replication_factor if leads else 0
        values = (int(is_under_replicated), in_sync, int(is_under_min_isr), int(is_at_min_isr), replicas, lag)
        yield Row(PARTITION, labels, values)
    counts = {
        "LeaderCount": leaders,
        "PartitionCount": len(online) + offline_count,
        "OfflineReplicaCount": offline_count,
        "UnderReplicatedPartitions": under_replicated,
        "UnderMinIsrPartitionCount": under_min_isr,
        "AtMinIsrPartitionCount": at_min_isr,
        "ReassigningPartitions": reassigning,
        "PartitionsWithLateTransactionsCount": late,
        "ProducerIdCount": producers,
    }
    for name, count in counts.items():
        yield Gauge("server", "ReplicaManager", name, count)
