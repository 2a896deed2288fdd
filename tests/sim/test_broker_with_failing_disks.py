"""A broker whose disk is full, or dies: who can be served is served, the others are told, and nobody is lied to."""

from __future__ import annotations

import errno

import pytest

from support.brokers.simulated import SimBroker, SimClient
from support.logs.builders import batch
from tailrace.metrics.gauge import Gauge
from tailrace.model.errors import NoLiveLogDirError
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.record.reader import application_records

STORAGE_ERROR = 56
FIRST, SECOND = "/data", "/more"


def offsets(payload: bytes) -> list[int]:
    return [record.offset for record in application_records(payload)]


def everything(client: SimClient, topic: str, partition: int = 0) -> list[int]:
    found: list[int] = []
    while True:
        got = client.fetch(topic, len(found), partition)
        assert got.error_code == 0, got
        more = offsets(got.records)
        if not more:
            return found
        found += more


def wait(broker: SimBroker, ms: int) -> None:
    """Not all at once: a broker that is silent for long is taken for dead."""
    for _ in range(0, ms, 500):
        broker.pass_time(500)


# A full disk


def test_a_full_disk_refuses_appends_and_serves_readers_and_goes_on_when_there_is_room() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    written = 0
    for _ in range(3):
        assert client.produce("orders", batch(2, 100)).base_offset == written
        written += 2
    broker.disk.faults.fail_next("write", "/data/orders-0/*", errno.ENOSPC, times=None)
    for _ in range(3):
        refused = client.produce("orders", batch(1, 100))
        assert (refused.error_code, refused.base_offset) == (STORAGE_ERROR, -1)
    assert everything(client, "orders") == list(range(written))
    wait(broker, 60_000)
    broker.disk.faults.heal()
    assert client.produce("orders", batch(1, 100)).base_offset == written
    assert everything(client, "orders") == list(range(written + 1))


def test_a_full_disk_does_not_fill_the_log_of_the_process(caplog: pytest.LogCaptureFixture) -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    broker.disk.faults.fail_next("write", "/data/orders-0/*", errno.ENOSPC, times=None)
    for _ in range(100):
        client.produce("orders", batch(1, 100))
    assert len([line for line in caplog.messages if "No space left" in line]) == 1
    wait(broker, 10_000)
    client.produce("orders", batch(1, 100))
    assert len([line for line in caplog.messages if "No space left" in line]) == 2


@pytest.mark.parametrize("seed", range(6))
def test_nothing_acknowledged_is_lost_on_a_disk_that_fills_up(seed: int) -> None:
    """The metadata log is on the same disk, and its controller must outlive the shortage too."""
    broker = SimBroker(seed).start()
    client = broker.client()
    client.create_topic("orders")
    client.produce("orders", batch(1, 100))
    disk = broker.disk
    disk.faults.capacity_bytes = disk.allocated_bytes() + 100_000 + 3000 * seed
    acknowledged = 1
    refused = 0
    while refused < 20:
        answer = client.produce("orders", batch(1, 5000 + 700 * seed))
        if answer.error_code:
            assert answer.error_code == STORAGE_ERROR
            refused += 1
            wait(broker, 2_000)  # the controller has records of its own to write
        else:
            assert answer.base_offset == acknowledged
            acknowledged += 1
    assert broker.failure is None
    assert everything(client, "orders") == list(range(acknowledged))
    disk.faults.capacity_bytes = None
    wait(broker, 5_000)
    assert client.produce("orders", batch(1, 100)).base_offset == acknowledged
    client.create_topic("more-orders")
    assert client.produce("more-orders", batch(1, 100)).base_offset == 0
    broker.kill()
    again = broker.start().client()
    assert everything(again, "orders") == list(range(acknowledged + 1))


def test_a_topic_that_is_made_on_a_full_disk_can_be_used_when_there_is_room() -> None:
    broker = SimBroker().start()
    client = broker.client()
    broker.disk.faults.fail_next(None, "/data/orders-0*", errno.ENOSPC, times=None)
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    assert client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7).topics[0].error_code == 0
    assert client.produce("orders", batch(1, 100)).error_code in (STORAGE_ERROR, 6, 5, 3)
    broker.disk.faults.heal()
    wait(broker, 60_000)
    assert client.produce("orders", batch(1, 100)).error_code == 0
    assert broker.failure is None


# A directory that dies


def spread(broker: SimBroker, client: SimClient, partitions: int = 6) -> dict[str, list[int]]:
    """A topic with a record in each partition; which partitions are in which directory."""
    client.create_topic("orders", partitions)
    for index in range(partitions):
        assert client.produce("orders", batch(1, 100), index).error_code == 0
    found: dict[str, list[int]] = {}
    for result in client.ask(DescribeLogDirsRequest(topics=None), 4).results:
        found[result.log_dir] = sorted(p.partition_index for topic in result.topics for p in topic.partitions)
    assert all(found[directory] for directory in (FIRST, SECOND)), found
    return found


def failing(seed: int = 0) -> tuple[SimBroker, SimClient, dict[str, list[int]]]:
    broker = SimBroker(seed, log_dirs=f"{FIRST},{SECOND}").start()
    client = broker.client()
    return broker, client, spread(broker, client)


def gauges(broker: SimBroker) -> dict[str, int | float]:
    return {each.name: each.value for each in broker.node.metrics.read() if isinstance(each, Gauge) and not each.tags}


def test_a_dead_directory_takes_its_partitions_and_no_others() -> None:
    broker, client, where = failing()
    broker.disk.faults.fail_next(None, f"{SECOND}/*", errno.EIO, times=None)
    for index in where[SECOND]:
        assert client.produce("orders", batch(1, 100), index).error_code == STORAGE_ERROR
        assert client.fetch("orders", 0, index).error_code == STORAGE_ERROR
    for index in where[FIRST]:
        assert client.produce("orders", batch(1, 100), index).base_offset == 1
        assert everything(client, "orders", index) == [0, 1]
    assert broker.failure is None


def test_everybody_hears_of_a_dead_directory() -> None:
    broker, client, where = failing()
    broker.disk.faults.fail_next(None, f"{SECOND}/*", errno.EIO, times=None)
    client.produce("orders", batch(1, 100), where[SECOND][0])
    wait(broker, 10_000)  # the controller hears of it with a heartbeat
    told = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 12).topics[0]
    state = {each.partition_index: (each.error_code, each.leader_id, each.offline_replicas) for each in told.partitions}
    assert all(state[index] == (0, 1, []) for index in where[FIRST])
    assert all(state[index] == (5, -1, [1]) for index in where[SECOND]), "no leader, the replica is offline"
    dirs = {each.log_dir: each for each in client.ask(DescribeLogDirsRequest(topics=None), 4).results}
    assert dirs[SECOND].error_code == STORAGE_ERROR
    assert not dirs[SECOND].topics
    assert dirs[FIRST].error_code == 0
    figures = gauges(broker)
    assert figures["OfflineLogDirectoryCount"] == 1
    assert figures["OfflineReplicaCount"] == len(where[SECOND])
    assert figures["OfflinePartitionsCount"] == len(where[SECOND])


def test_what_waits_for_a_directory_that_dies_is_answered() -> None:
    """With flush.messages=1 an acknowledgement waits for a sync, which fails."""
    broker = SimBroker(log_dirs=f"{FIRST},{SECOND}").start()
    client = broker.client()
    client.create_topic("orders", 6, configs={"flush.messages": "1"})
    broker.disk.faults.fail_next("sync", f"{SECOND}/*", errno.EIO, times=None)
    codes = {client.produce("orders", batch(1, 100), index).error_code for index in range(6)}
    assert codes == {0, STORAGE_ERROR}


def test_partitions_of_a_dead_directory_are_found_again_when_it_is_repaired() -> None:
    broker, client, where = failing()
    broker.disk.faults.fail_next(None, f"{SECOND}/*", errno.EIO, times=None)
    client.produce("orders", batch(1, 100), where[SECOND][0])
    wait(broker, 10_000)
    broker.kill()
    broker.disk.faults.heal()
    client = broker.start().client()
    for index in [*where[FIRST], *where[SECOND]]:
        assert everything(client, "orders", index) == [0]
        assert client.produce("orders", batch(1, 100), index).error_code == 0


def test_new_topics_go_to_the_directories_that_are_left() -> None:
    broker, client, where = failing()
    broker.disk.faults.fail_next(None, f"{SECOND}/*", errno.EIO, times=None)
    client.produce("orders", batch(1, 100), where[SECOND][0])
    wait(broker, 10_000)
    client.create_topic("later", 4)
    for index in range(4):
        assert client.produce("later", batch(1, 100), index).error_code == 0
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (where[FIRST][0], where[SECOND][0])]
    topic = ListOffsetsTopic(name="orders", partitions=asked)
    listed = client.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 6).topics[0].partitions
    assert [each.error_code for each in listed] == [0, STORAGE_ERROR]


def test_the_last_directory_ends_the_broker() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.create_topic("orders")
    broker.disk.faults.fail_next(None, "/data/*", errno.EIO, times=None)
    with pytest.raises(NoLiveLogDirError, match="/data/orders-0"):
        client.produce("orders", batch(1, 100))
