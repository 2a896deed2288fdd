"""Brokers register, beat, fall silent, leave: with simulated brokers and a simulated clock."""

from __future__ import annotations

import pytest

from support.metadata.controllers import TICK_MS, ControllerRig, MemoryQuorum, topic
from tailrace.metadata.partition_registration import NO_LEADER
from tailrace.metadata.versions import ELR_VERSION, METADATA_VERSION
from tailrace.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.broker_registration import Feature, Listener
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from tailrace.protocol.records.settings import FeatureLevelRecord


def two_and_a_topic() -> ControllerRig:
    rig = ControllerRig().brokers(1, 2)
    rig.create(topic("t", assignments={0: [1, 2], 1: [2, 1]}))
    return rig


# Registration


def record_of(rig: ControllerRig) -> RegisterBrokerRecord:
    """The registration that is the newest batch of the log."""
    (written,) = rig.quorum.batches[-1]
    assert isinstance(written.record, RegisterBrokerRecord)
    return written.record


@pytest.mark.spec("RP-18", "RP-41")
def test_a_registration_has_the_epoch_of_its_offset() -> None:
    rig = ControllerRig()
    next_offset = rig.quorum.log_end_offset
    answer = rig.register(1, "r", listeners=[Listener(name="PLAINTEXT", host="h", port=9092)])
    assert (answer.error_code, answer.broker_epoch) == (0, next_offset)
    broker = rig.image.brokers[1]
    assert (broker.epoch, broker.rack, broker.is_fenced) == (next_offset, "r", True)
    assert broker.incarnation_id == record_of(rig).incarnation_id != bytes(16)
    endpoint = broker.endpoint("PLAINTEXT")
    assert endpoint is not None
    assert (endpoint.host, endpoint.port) == ("h", 9092)
    assert broker.endpoint("SSL") is None
    assert rig.quorum.batches[-1][0].version == 4


def test_no_broker_has_the_id_that_means_none() -> None:
    rig = ControllerRig()
    assert rig.register(NO_LEADER).error_code == 119
    assert not rig.image.brokers


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "another"}, 104),
        ({"log_dirs": []}, 119),
        ({"log_dirs": [b"d" * 16, b"d" * 16]}, 119),
        ({"log_dirs": [bytes(15) + b"\x05"]}, 119),
        ({"is_migrating_zk_broker": True}, 102),
        ({"features": []}, 119),
        ({"listeners": [Listener(name="", host="h", port=1)]}, 119),
        ({"listeners": [Listener(name="A", host="", port=1)]}, 119),
        ({"listeners": [Listener(name="A", host="h", port=0)]}, 119),
        ({"listeners": [Listener(name="A", host="h", port=1, security_protocol=4)]}, 119),
        ({"listeners": [Listener(name="A", host="h", port=1, security_protocol=-1)]}, 119),
        ({"features": [Feature(name=METADATA_VERSION, min_supported_version=7, max_supported_version=29)]}, 35),
        ({"features": [Feature(name=METADATA_VERSION, min_supported_version=31, max_supported_version=40)]}, 35),
    ],
)
def test_refused_registrations(fields: dict[str, object], code: int) -> None:
    rig = ControllerRig()
    answer = rig.register(1, **fields)  # type: ignore[arg-type]
    assert (answer.error_code, answer.broker_epoch) == (code, -1)
    assert not rig.image.brokers


def test_a_directory_belongs_to_one_broker() -> None:
    rig = ControllerRig().brokers(1)
    assert rig.register(2, log_dirs=list(rig.image.brokers[1].directories)).error_code == 119


@pytest.mark.spec("RP-18")
def test_an_id_is_taken_as_long_as_its_session_is_open() -> None:
    rig = ControllerRig().brokers(1)
    assert rig.register(1, incarnation=b"x" * 16).error_code == 101
    rig.clock.ms += rig.settings.config.broker_session_timeout_ms
    assert rig.register(1, incarnation=b"x" * 16).error_code == 101
    rig.clock.ms += 1
    before = rig.epochs[1]
    assert rig.register(1, incarnation=b"x" * 16).error_code == 0
    assert rig.epochs[1] > before
    assert rig.image.brokers[1].is_fenced
    assert rig.beat(1, epoch=before).error_code == 77
    assert rig.beat(1).error_code == 0


@pytest.mark.spec("RP-18")
def test_a_fenced_broker_that_sends_heartbeats_keeps_its_id() -> None:
    """It starts, or has not caught up: another process with the id would take it in turns with this one."""
    rig = ControllerRig()
    rig.register(1)
    assert rig.beat(1, current_metadata_offset=-1).is_fenced
    assert rig.register(1, incarnation=b"x" * 16).error_code == 101
    rig.pass_time(8_900)
    assert rig.beat(1, current_metadata_offset=-1).is_fenced
    rig.pass_time(8_900)
    assert rig.register(1, incarnation=b"x" * 16).error_code == 101
    rig.pass_time(200)
    assert rig.register(1, incarnation=b"x" * 16).error_code == 0


def test_a_broker_that_has_left_may_be_back_at_once() -> None:
    rig = ControllerRig().brokers(1)
    assert rig.beat(1, want_shut_down=True).should_shut_down
    assert rig.register(1, incarnation=b"x" * 16).error_code == 0


def test_fenced_brokers_have_no_session_with_a_new_controller() -> None:
    rig = ControllerRig().brokers(1, 2)
    rig.beat(1, want_shut_down=True)
    rig.controller.resigned()
    rig.controller.became_leader(2)
    assert rig.register(1, incarnation=b"x" * 16).error_code == 0
    assert rig.register(2, incarnation=b"x" * 16).error_code == 101


def test_the_same_incarnation_may_say_more() -> None:
    rig = ControllerRig().brokers(1)
    epoch = rig.epochs[1]
    answer = rig.register(1, rack="new")
    assert (answer.error_code, answer.broker_epoch) == (0, epoch)
    assert (rig.image.brokers[1].rack, rig.image.brokers[1].is_fenced) == ("new", False)


def test_a_broker_that_died_unnoticed_is_led_out_before_it_comes_back() -> None:
    rig = two_and_a_topic()
    rig.clock.ms += rig.settings.config.broker_session_timeout_ms + 1
    rig.beat(2)
    rig.register(1, incarnation=b"x" * 16)
    partition = rig.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2,), 1)


def test_features_that_only_another_release_knows_are_no_hindrance() -> None:
    quorum = MemoryQuorum()
    extra = VersionedRecord(FeatureLevelRecord(name="streams.version", feature_level=1), 0)
    quorum.bootstrap_records = [*quorum.bootstrap_records, extra]
    rig = ControllerRig(quorum).brokers(1)
    assert rig.image.features["streams.version"] == 1


# Heartbeats


@pytest.mark.spec("RP-18")
def test_unfenced_when_it_has_read_its_own_registration() -> None:
    rig = ControllerRig()
    rig.register(1)
    behind = rig.beat(1, current_metadata_offset=rig.epochs[1] - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    waits = rig.beat(1, want_fence=True)
    assert (waits.is_caught_up, waits.is_fenced) == (True, True)
    there = rig.beat(1)
    assert (there.is_caught_up, there.is_fenced, there.should_shut_down) == (True, False, False)
    (record,) = rig.quorum.batches[-1]
    assert record == (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=rig.epochs[1], fenced=-1), 0)
    before = len(rig.quorum.batches)
    rig.beat(1)
    assert len(rig.quorum.batches) == before


def test_heartbeats_of_nobody() -> None:
    rig = ControllerRig()
    assert rig.beat(1, epoch=5).error_code == 77
    rig.register(1)
    assert rig.beat(1, epoch=rig.epochs[1] + 1).error_code == 77


@pytest.mark.spec("RP-02", "RP-18")
def test_a_silent_broker_is_fenced_and_its_leaders_move() -> None:
    rig = two_and_a_topic()
    timeout_ms = rig.settings.config.broker_session_timeout_ms
    rig.pass_time(timeout_ms)
    assert not rig.image.brokers[1].is_fenced
    rig.beat(2)
    rig.pass_time(1)
    assert rig.image.brokers[1].is_fenced
    assert not rig.image.brokers[2].is_fenced
    partitions = rig.image.topics["t"].partitions
    assert (partitions[0].leader, partitions[0].isr, partitions[0].leader_epoch) == (2, (2,), 1)
    assert (partitions[1].leader, partitions[1].isr, partitions[1].leader_epoch) == (2, (2,), 0)
    assert {each.partition_epoch for each in partitions.values()} == {1}
    rig.pass_time(timeout_ms + 1)
    assert (partitions[0].leader, partitions[0].isr) == (NO_LEADER, (2,))
    assert not rig.beat(1).is_fenced
    assert partitions[0].leader == NO_LEADER  # it is not in sync
    assert not rig.beat(2).is_fenced
    assert partitions[0].leader == 2


def test_a_time_in_which_the_controller_did_not_run_counts_for_no_broker() -> None:
    rig = two_and_a_topic()
    timeout_ms = rig.settings.config.broker_session_timeout_ms
    rig.pass_time(timeout_ms // 2)
    rig.clock.ms += 10 * timeout_ms
    rig.controller.tick(rig.clock.ms)
    assert not rig.image.brokers[1].is_fenced
    rig.pass_time(timeout_ms // 2)
    assert not rig.image.brokers[1].is_fenced
    rig.pass_time(TICK_MS)
    assert rig.image.brokers[1].is_fenced


def test_a_heartbeat_read_after_a_pause_and_before_the_tick_extends_no_session_beyond_its_timeout() -> None:
    rig = two_and_a_topic()
    timeout_ms = rig.settings.config.broker_session_timeout_ms
    rig.clock.ms += 10 * timeout_ms
    rig.beat(1)
    rig.controller.tick(rig.clock.ms)
    rig.pass_time(timeout_ms + TICK_MS)
    assert rig.image.brokers[1].is_fenced
    assert rig.register(1, incarnation=b"x" * 16).error_code == 0


@pytest.mark.spec("RP-18")
def test_a_broker_leaves_in_two_steps() -> None:
    rig = two_and_a_topic()
    first = rig.beat(1, want_shut_down=True)
    assert (first.should_shut_down, first.is_fenced) == (False, False)
    assert rig.image.brokers[1].in_controlled_shutdown
    assert {each.leader for each in rig.image.topics["t"].partitions.values()} == {2}
    at = rig.image.offset
    assert not rig.beat(1, want_shut_down=True).should_shut_down  # broker 2 has not read it yet
    rig.beat(2, current_metadata_offset=at)
    last = rig.beat(1, want_shut_down=True)
    assert (last.should_shut_down, last.is_fenced) == (True, True)
    assert rig.image.brokers[1].is_fenced


def test_who_leads_nothing_leaves_at_once() -> None:
    rig = ControllerRig().brokers(1, 2)
    assert rig.beat(1, want_shut_down=True).should_shut_down
    assert rig.beat(1, want_shut_down=True).should_shut_down


def test_the_last_broker_leaves_too() -> None:
    rig = ControllerRig().brokers(1)
    rig.create(topic("t", 3))
    assert not rig.beat(1, want_shut_down=True).should_shut_down
    assert {each.leader for each in rig.image.topics["t"].partitions.values()} == {NO_LEADER}
    assert rig.beat(1, want_shut_down=True).should_shut_down
    assert {each.isr for each in rig.image.topics["t"].partitions.values()} == {(1,)}


def test_no_new_replicas_on_who_leaves() -> None:
    rig = ControllerRig().brokers(1, 2)
    rig.create(topic("t", assignments={0: [1]}))
    rig.beat(1, want_shut_down=True)
    assert rig.create(topic("u", 1, 2))[0].error_code == 38


def test_a_new_start_of_the_node_need_not_wait_for_its_own_session() -> None:
    rig = ControllerRig().brokers(100, 2)
    rig.create(topic("t", assignments={0: [100]}))
    again = ControllerRig(rig.quorum, starts=False)
    again.loader.loaded(again.loader.prepare(rig.image.records()), rig.image.offset, 1, 0)
    again.controller.became_leader(2)
    assert again.register(2, incarnation=b"x" * 16).error_code == 101
    assert again.register(100, incarnation=b"x" * 16).error_code == 0
    assert again.image.topics["t"].partitions[0].leader == NO_LEADER
    assert not again.beat(100).is_fenced
    partition = again.image.topics["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch) == (100, 2)


def test_the_broker_of_a_new_leader_that_does_not_register_again_is_fenced() -> None:
    """It recovers its logs for long, or the node has become a controller only."""
    rig = ControllerRig().brokers(100, 2)
    rig.create(topic("t", assignments={0: [100, 2]}))
    again = ControllerRig(rig.quorum, starts=False)
    again.loader.loaded(again.loader.prepare(rig.image.records()), rig.image.offset, 1, 0)
    again.controller.became_leader(2)
    again.epochs.update(rig.epochs)
    again.pass_time(again.settings.config.broker_session_timeout_ms)
    assert not again.image.brokers[100].is_fenced
    again.beat(2)
    again.pass_time(TICK_MS)
    assert again.image.brokers[100].is_fenced
    assert again.image.topics["t"].partitions[0].leader == 2


# Directories


def test_a_directory_that_fails_loses_its_leaders() -> None:
    rig = ControllerRig()
    for broker in (1, 2):
        rig.register(broker, log_dirs=[bytes([broker]) * 16, bytes([broker + 10]) * 16])
        rig.beat(broker)
    rig.create(topic("t", assignments={0: [1, 2]}))
    partition = rig.image.topics["t"].partitions[0]
    assert partition.directories == (bytes(15) + b"\x01", bytes(15) + b"\x01")  # the brokers choose
    assert assign(rig, 1, bytes([1]) * 16) == [0]
    assert rig.image.topics["t"].partitions[0].directories[0] == bytes([1]) * 16
    rig.beat(1, offline_log_dirs=[bytes([1]) * 16])
    assert rig.image.brokers[1].directories == (bytes([11]) * 16,)
    assert rig.image.topics["t"].partitions[0].leader == 2
    assert rig.beat(1, offline_log_dirs=[bytes([1]) * 16]).error_code == 0


def test_a_broker_is_not_unfenced_by_a_heartbeat_that_reports_a_failed_directory() -> None:
    rig = ControllerRig()
    rig.register(1, log_dirs=[b"a" * 16, b"b" * 16])
    rig.beat(1)
    rig.create(topic("t"))
    assert assign(rig, 1, b"a" * 16) == [0]
    rig.beat(1, want_fence=True)
    assert rig.image.topics["t"].partitions[0].leader == NO_LEADER
    assert rig.beat(1, offline_log_dirs=[b"a" * 16]).is_fenced
    assert not rig.beat(1, offline_log_dirs=[b"a" * 16]).is_fenced
    partition = rig.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (NO_LEADER, (1,))


def assign(
    rig: ControllerRig, broker: int, directory: bytes, index: int = 0, topic_id: bytes | None = None
) -> list[int]:
    partitions = [RequestPartitionData(partition_index=index)]
    topics = [RequestTopicData(topic_id=topic_id or rig.image.topics["t"].id, partitions=partitions)]
    request = AssignReplicasToDirsRequest(
        broker_id=broker,
        broker_epoch=rig.epochs[broker],
        directories=[RequestDirectoryData(id=directory, topics=topics)],
    )
    answer = rig.ask(request)
    assert answer.error_code == 0
    return [p.error_code for d in answer.directories for t in d.topics for p in t.partitions]


def test_assignments_to_directories_that_cannot_be() -> None:
    rig = ControllerRig().brokers(1, 2)
    rig.create(topic("t", assignments={0: [1]}))
    directory = rig.image.brokers[1].directories[0]
    assert assign(rig, 1, directory, index=5) == [3]
    assert assign(rig, 1, directory, topic_id=b"x" * 16) == [100]
    assert assign(rig, 2, directory) == [6]
    before = len(rig.quorum.batches)
    assert assign(rig, 1, directory) == [0]
    assert len(rig.quorum.batches) == before
    assert assign(rig, 1, b"gone" * 4) == [0]
    partition = rig.image.topics["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (NO_LEADER, 1, 1)


def test_a_replica_is_assigned_to_one_directory_in_a_request() -> None:
    rig = ControllerRig()
    directories = [b"a" * 16, b"b" * 16]
    rig.register(1, log_dirs=directories)
    rig.beat(1)
    rig.create(topic("t"))
    topics = [RequestTopicData(topic_id=rig.image.topics["t"].id, partitions=[RequestPartitionData()])]
    request = AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=rig.epochs[1],
        directories=[RequestDirectoryData(id=each, topics=topics) for each in directories],
    )
    codes = [d.topics[0].partitions[0].error_code for d in rig.ask(request).directories]
    assert codes == [0, 42]
    assert rig.image.topics["t"].partitions[0].directories == (directories[0],)


def test_cordoned_directories_take_nothing_new() -> None:
    rig = ControllerRig().brokers(1)
    rig.beat(1, cordoned_log_dirs=list(rig.image.brokers[1].directories))
    (record,) = rig.quorum.batches[-1]
    assert record.version == 3
    assert rig.create(topic("t"))[0].error_code == 38
    rig.beat(1, cordoned_log_dirs=[])
    assert rig.create(topic("t"))[0].error_code == 0


def test_the_order_of_cordoned_directories_is_no_change() -> None:
    rig = ControllerRig()
    rig.register(1, log_dirs=[b"a" * 16, b"b" * 16, b"c" * 16])
    rig.beat(1, cordoned_log_dirs=[b"a" * 16, b"b" * 16])
    batches = len(rig.quorum.batches)
    rig.beat(1, cordoned_log_dirs=[b"b" * 16, b"a" * 16])
    assert len(rig.quorum.batches) == batches


# Eligible leader replicas, where a directory of Kafka's has that feature on


def with_elr() -> ControllerRig:
    quorum = MemoryQuorum()
    feature = VersionedRecord(FeatureLevelRecord(name=ELR_VERSION, feature_level=1), 0)
    quorum.bootstrap_records = [*quorum.bootstrap_records, feature]
    rig = ControllerRig(quorum).brokers(1)
    rig.create(topic("t"))
    return rig


@pytest.mark.parametrize("is_clean", [True, False])
def test_eligible_after_a_clean_shutdown_only(is_clean: bool) -> None:
    rig = with_elr()
    before = rig.epochs[1]
    rig.beat(1, want_shut_down=True)
    assert rig.beat(1, want_shut_down=True).should_shut_down
    down = rig.image.topics["t"].partitions[0]
    assert (down.isr, down.leader, down.elr, down.last_known_elr) == ((), NO_LEADER, (1,), (1,))
    rig.register(1, incarnation=b"x" * 16, previous_broker_epoch=before if is_clean else -1)
    rig.beat(1)
    up = rig.image.topics["t"].partitions[0]
    assert (up.isr, up.leader, up.elr, up.last_known_elr) == ((1,), 1, (), ())
    assert up.is_recovering == (not is_clean)


def test_a_broker_with_an_empty_disk_leads_again_when_its_replica_has_a_directory() -> None:
    rig = with_elr()
    rig.pass_time(20_000)  # the session of the process with the old disk ends
    rig.register(1, incarnation=b"x" * 16, log_dirs=[b"new-" * 4], previous_broker_epoch=-1)
    assert not rig.beat(1).is_fenced
    wiped = rig.image.topics["t"].partitions[0]
    assert (wiped.isr, wiped.leader, wiped.last_known_elr) == ((), NO_LEADER, (1,))
    assert assign(rig, 1, b"new-" * 4) == [0]
    back = rig.image.topics["t"].partitions[0]
    assert (back.isr, back.leader, back.is_recovering, back.last_known_elr) == ((1,), 1, True, ())


# Unregistering


def test_an_unregistered_broker_is_nowhere() -> None:
    rig = two_and_a_topic()
    answer = rig.ask(UnregisterBrokerRequest(broker_id=1))
    assert (answer.error_code, answer.error_message) == (0, None)
    assert 1 not in rig.image.brokers
    assert {each.leader for each in rig.image.topics["t"].partitions.values()} == {2}
    answer = rig.ask(UnregisterBrokerRequest(broker_id=9))
    assert (answer.error_code, answer.error_message) == (102, "Broker ID 9 is not currently registered")
    assert rig.ask(BrokerHeartbeatRequest(broker_id=1, broker_epoch=rig.epochs[1])).error_code == 77
    assert rig.register(1).error_code == 0
