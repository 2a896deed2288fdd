"""What the partitions show of themselves, under Kafka's names."""

from __future__ import annotations

from replica_world import ReplicaWorld, change, topic

from support.logs.builders import in_transaction


def seen(run: ReplicaWorld, kind: str, name: str) -> dict[str, float]:
    """By the values of its tags."""
    return {
        "-".join(value for _, value in gauge.tags): gauge.value
        for gauge in run.metrics.read()
        if (gauge.type, gauge.name) == (kind, name)
    }


def count(run: ReplicaWorld, name: str) -> float:
    (value,) = seen(run, "ReplicaManager", name).values()
    return value


def test_gauges_of_each_partition() -> None:
    run = ReplicaWorld()
    run.apply(*topic("t", 1, 2, replicas=(1, 2, 3)), *topic("f", 2, replicas=(1, 2), leader=2), *topic("a", 3))
    run.apply(change(1, 1, isr=[1]))
    for index in (0, 1):
        log = run.replicas.partition("t", index).log
        assert log is not None
        log.use_config(type(log.config)(min_insync_replicas=3 if index else 2))
    assert seen(run, "Partition", "UnderReplicated") == {"t-0": 0, "t-1": 1, "f-0": 0, "a-0": 0}
    assert seen(run, "Partition", "UnderMinIsr") == {"t-0": 0, "t-1": 1, "f-0": 0, "a-0": 0}
    assert seen(run, "Partition", "AtMinIsr") == {"t-0": 0, "t-1": 0, "f-0": 0, "a-0": 1}
    assert seen(run, "Partition", "InSyncReplicasCount") == {"t-0": 3, "t-1": 1, "f-0": 0, "a-0": 1}
    assert seen(run, "Partition", "ReplicasCount") == {"t-0": 3, "t-1": 3, "f-0": 0, "a-0": 1}
    run.replicas.partition("a", 0).append((in_transaction(7, 0, 3),), -1)
    assert seen(run, "Partition", "LastStableOffsetLag")["a-0"] == 3


def test_gauges_of_all_of_them() -> None:
    run = ReplicaWorld()
    run.apply(*topic("t", 1, 2, replicas=(1, 2)), *topic("f", 2, replicas=(1, 2), leader=2), *topic("a", 3))
    run.apply(change(1, 1, isr=[1], adding_replicas=[3], replicas=[1, 2, 3], directories=[bytes(16)] * 3))
    run.put("a")
    assert (count(run, "LeaderCount"), count(run, "PartitionCount"), count(run, "OfflineReplicaCount")) == (3, 4, 0)
    assert count(run, "UnderReplicatedPartitions") == 1
    assert count(run, "UnderMinIsrPartitionCount") == 0
    assert count(run, "AtMinIsrPartitionCount") == 2
    assert count(run, "ReassigningPartitions") == 1
    run.disk.fail_next("write", "/a/*")
    for index in (0, 1):
        run.replicas.partition("t", index).append((in_transaction(7, 0),), 1)
    run.run()
    offline = count(run, "OfflineReplicaCount")
    assert offline >= 1
    assert count(run, "PartitionCount") == 4
    assert count(run, "ProducerIdCount") == 1
    assert count(run, "PartitionsWithLateTransactionsCount") == 0
