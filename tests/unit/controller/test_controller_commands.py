"""DeleteTopics, settings, features, elections, ISR proposals, producer ids: codes and texts of Kafka 4.3.1."""

from __future__ import annotations

import pytest

from support.metadata.controllers import NODE_ID, TICK_MS, ControllerRig, MemoryQuorum, topic
from tailrace.controller import controller
from tailrace.controller.heartbeats import BrokerState as SessionState
from tailrace.metadata.partition_registration import NO_LEADER
from tailrace.metadata.versions import ELR_VERSION
from tailrace.protocol.messages import alter_configs, incremental_alter_configs
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tailrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest
from tailrace.protocol.messages.describe_quorum import RequestPartitionData as QuorumPartition
from tailrace.protocol.messages.describe_quorum import RequestTopicData as QuorumTopic
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.ledger import ProducerIdsRecord
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.protocol.records.topics import PartitionChangeRecord


@pytest.fixture
def rig() -> ControllerRig:
    rig = ControllerRig().brokers(1)
    rig.create(topic("t"), topic("u.v"))
    return rig


# Deletion


def delete(rig: ControllerRig, *topics: DeleteTopicState, version: int = 6) -> list[tuple[str | None, int, str | None]]:
    answer = rig.ask(DeleteTopicsRequest(topics=list(topics), timeout_ms=1000), version)
    return [(each.name, each.error_code, each.error_message) for each in answer.responses]


def named(name: str | None = None, topic_id: bytes = bytes(16)) -> DeleteTopicState:
    return DeleteTopicState(name=name, topic_id=topic_id)


def test_deletion_by_name_and_by_id(rig: ControllerRig) -> None:
    topic_id = rig.image.topics["t"].id
    assert delete(rig, named(None, topic_id), named("u.v")) == [("t", 0, None), ("u.v", 0, None)]
    assert not rig.image.topics
    assert rig.create(topic("u_v"), topic("t"))[0].error_code == 0
    assert rig.image.topics["t"].id != topic_id


def test_deletion_in_older_versions(rig: ControllerRig) -> None:
    answer = rig.ask(DeleteTopicsRequest(topic_names=["t", "no"], timeout_ms=1000), 1)
    assert sorted((each.name, each.error_code) for each in answer.responses) == [("no", 3), ("t", 0)]


def test_refused_deletions(rig: ControllerRig) -> None:
    topic_id = rig.image.topics["t"].id
    assert delete(rig, named("no")) == [("no", 3, "This server does not host this topic-partition.")]
    assert delete(rig, named(None)) == [(None, 42, "Neither topic name nor id were specified.")]
    assert delete(rig, named("t", topic_id)) == [("t", 42, "You may not specify both topic name and topic id.")]
    assert delete(rig, named(None, b"x" * 16)) == [(None, 100, "This server does not host this topic ID.")]
    assert delete(rig, named("t"), named("t")) == [("t", 42, "Duplicate topic name.")]
    assert delete(rig, named(None, topic_id), named(None, topic_id)) == [(None, 42, "Duplicate topic id.")]
    assert delete(rig, named(None, topic_id), named("t")) == [
        ("t", 42, "The provided topic name maps to an ID that was already supplied.")
    ]
    assert set(rig.image.topics) == {"t", "u.v"}


@pytest.mark.parametrize(("version", "code"), [(6, 73), (3, 73), (2, 42)])
def test_deletion_may_be_forbidden(version: int, code: int) -> None:
    rig = ControllerRig(delete_topic_enable="false").brokers(1)
    rig.create(topic("t"))
    answer = rig.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), min(version, 5))
    assert [each.error_code for each in answer.responses] == [code]
    assert "t" in rig.image.topics


# Settings


def resource(
    kind: int, name: str, *changes: tuple[str, int, str | None]
) -> incremental_alter_configs.AlterConfigsResource:
    configs = [
        incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    return incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def alter(
    rig: ControllerRig, *resources: incremental_alter_configs.AlterConfigsResource, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=list(resources), validate_only=validate_only
    )
    return [(each.error_code, each.error_message) for each in rig.ask(request).responses]


def replace(rig: ControllerRig, kind: int, name: str, settings: dict[str, str]) -> list[tuple[int, str | None]]:
    configs = [alter_configs.AlterableConfig(name=key, value=value) for key, value in settings.items()]
    asked = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    answer = rig.ask(alter_configs.AlterConfigsRequest(resources=[asked]))
    return [(each.error_code, each.error_message) for each in answer.responses]


def test_settings_are_set_and_deleted(rig: ControllerRig) -> None:
    assert alter(rig, resource(2, "t", ("retention.ms", 0, "5"), ("segment.bytes", 0, "1048576"))) == [(0, None)]
    assert rig.image.topic_config("t") == {"retention.ms": "5", "segment.bytes": "1048576"}
    assert alter(rig, resource(2, "t", ("retention.ms", 1, None))) == [(0, None)]
    assert rig.image.topic_config("t") == {"segment.bytes": "1048576"}
    assert alter(rig, resource(2, "t", ("segment.bytes", 1, None)), validate_only=True) == [(0, None)]
    assert rig.image.topic_config("t") == {"segment.bytes": "1048576"}


def test_lists_grow_and_shrink(rig: ControllerRig) -> None:
    alter(rig, resource(2, "t", ("cleanup.policy", 2, "compact")))
    assert rig.image.topic_config("t") == {"cleanup.policy": "delete,compact"}
    alter(rig, resource(2, "t", ("cleanup.policy", 2, "compact,delete")))
    assert rig.image.topic_config("t") == {"cleanup.policy": "delete,compact"}
    alter(rig, resource(2, "t", ("cleanup.policy", 3, "delete")))
    assert rig.image.topic_config("t") == {"cleanup.policy": "compact"}


def test_unchanged_settings_of_topics_are_not_written_again(rig: ControllerRig) -> None:
    alter(rig, resource(2, "t", ("retention.ms", 0, "5")))
    before = len(rig.quorum.batches)
    alter(rig, resource(2, "t", ("retention.ms", 0, "5")))
    assert len(rig.quorum.batches) == before
    alter(rig, resource(4, "", ("log.cleaner.threads", 0, "1")))
    alter(rig, resource(4, "", ("log.cleaner.threads", 0, "1")))
    assert len(rig.quorum.batches) == before + 2  # a broker reads files anew that its settings name


def test_replacing_all_settings(rig: ControllerRig) -> None:
    assert replace(rig, 2, "t", {"retention.ms": "9", "segment.bytes": "1048576"}) == [(0, None)]
    assert replace(rig, 2, "t", {"retention.ms": "8"}) == [(0, None)]
    assert rig.image.topic_config("t") == {"retention.ms": "8"}
    assert replace(rig, 2, "t", {}) == [(0, None)]
    assert rig.image.topic_config("t") == {}


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (resource(2, "no", ("retention.ms", 0, "5")), 3, "The topic 'no' does not exist."),
        (resource(2, "", ("retention.ms", 0, "5")), 42, "Default topic resources are not allowed."),
        (resource(2, "a b", ("retention.ms", 0, "5")), 17, None),
        (resource(2, "t", ("retention.ms", 0, "x")), 40, None),
        (resource(2, "t", ("no.such.key", 0, "x")), 40, None),
        (
            resource(2, "t", ("retention.ms", 2, "5")),
            40,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            resource(2, "t", ("retention.ms", 3, "5")),
            40,
            "Can't SUBTRACT to key retention.ms because its type is not LIST.",
        ),
        (resource(2, "t", ("retention.ms", 9, "5")), 42, "Unknown operations type 9"),
        (resource(9, "t", ("retention.ms", 0, "5")), 35, "Unknown resource type 9."),
        (resource(4, "x", ("log.cleaner.threads", 0, "1")), 42, "Unable to parse broker name as a base 10 number."),
        (resource(4, "-1", ("log.cleaner.threads", 0, "1")), 42, "Invalid negative broker ID."),
        (resource(4, "77", ("log.cleaner.threads", 0, "1")), 102, "No node with id 77 found."),
        (resource(4, "", ("log.dirs", 0, "/x")), 42, None),
        (resource(4, "1", ("log.cleaner.threads", 0, "x")), 42, None),
    ],
)
def test_refused_settings(
    rig: ControllerRig, asked: incremental_alter_configs.AlterConfigsResource, code: int, message: str | None
) -> None:
    before = len(rig.quorum.batches)
    good = resource(2, "u.v", ("retention.ms", 0, "5"))
    (found, text), other = alter(rig, asked, good)
    assert found == code
    assert message is None or text == message
    assert other == (0, None)
    assert len(rig.quorum.batches) == before + 1
    assert (asked.resource_type, asked.resource_name) not in rig.image.configs


def test_a_resource_twice(rig: ControllerRig) -> None:
    once = resource(2, "t", ("retention.ms", 0, "5"))
    assert {code for code, _ in alter(rig, once, resource(2, "t", ("retention.ms", 0, "6")))} == {42}


@pytest.mark.spec("RP-40")
def test_min_isr_and_unclean_elections_are_settings_of_a_topic() -> None:
    rig = ControllerRig().brokers(1, 2)
    rig.create(topic("a", assignments={0: [1, 2]}, configs={"unclean.leader.election.enable": "true"}))
    rig.create(topic("b", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"}))
    assert rig.state.allows_unclean("a")
    assert not rig.state.allows_unclean("b")
    assert rig.state.min_isr(rig.state.image.topics["a"]) == 1
    assert rig.state.min_isr(rig.state.image.topics["b"]) == 2
    rig.create(topic("c", assignments={0: [1]}, configs={"min.insync.replicas": "5"}))
    assert rig.state.min_isr(rig.state.image.topics["c"]) == 1  # capped by the number of replicas
    alter(rig, resource(4, "", ("min.insync.replicas", 0, "2")))
    assert rig.state.min_isr(rig.state.image.topics["a"]) == 2
    alter(rig, resource(4, "", ("unclean.leader.election.enable", 0, "true")))
    assert rig.state.allows_unclean("b")
    (code, _) = alter(rig, resource(2, "a", ("replica.fetch.max.bytes", 0, "1")))[0]
    assert code == 40  # of the broker alone


@pytest.mark.spec("RP-40")
def test_only_a_topic_that_allows_it_is_led_by_a_replica_that_is_behind() -> None:
    rig = ControllerRig().brokers(1, 2)
    for name, allows in (("a", "true"), ("b", "false")):
        rig.create(topic(name, assignments={0: [1, 2]}, configs={"unclean.leader.election.enable": allows}))
    rig.beat(2, want_fence=True)
    rig.beat(2)
    rig.beat(1, want_fence=True)
    behind, offline = rig.image.topics["a"].partitions[0], rig.image.topics["b"].partitions[0]
    assert (behind.leader, behind.isr, behind.is_recovering) == (2, (2,), True)
    assert (offline.leader, offline.isr, offline.is_recovering) == (NO_LEADER, (1,), False)


def test_the_minimum_is_fixed_where_eligible_replicas_are_kept() -> None:
    quorum = MemoryQuorum()
    feature = VersionedRecord(FeatureLevelRecord(name=ELR_VERSION, feature_level=1), 0)
    quorum.bootstrap_records = [*quorum.bootstrap_records, feature]
    rig = ControllerRig(quorum).brokers(1)
    assert alter(rig, resource(4, "", ("min.insync.replicas", 0, "1"))) == [(0, None)]
    assert alter(rig, resource(4, "", ("min.insync.replicas", 1, None)))[0][0] == 40
    assert alter(rig, resource(4, "1", ("min.insync.replicas", 0, "1")))[0][0] == 40


# Elections


def elect(rig: ControllerRig, kind: int, partitions: dict[str, list[int]] | None) -> list[tuple[str, int, int]]:
    asked = (
        None
        if partitions is None
        else [TopicPartitions(topic=name, partitions=indices) for name, indices in partitions.items()]
    )
    answer = rig.ask(ElectLeadersRequest(election_type=kind, topic_partitions=asked))
    return [
        (result.topic, each.partition_id, each.error_code)
        for result in answer.replica_election_results
        for each in result.partition_result
    ]


def test_elections() -> None:
    rig = ControllerRig().brokers(1, 2)
    rig.create(topic("t", assignments={0: [1, 2], 1: [2, 1]}))
    assert elect(rig, 0, {"t": [0, 7], "no": [0]}) == [("t", 0, 84), ("t", 7, 3), ("no", 0, 3)]
    assert elect(rig, 1, {"t": [0]}) == [("t", 0, 84)]
    assert elect(rig, 0, None) == []
    assert elect(rig, 0, {}) == []
    rig.beat(1, want_fence=True)
    rig.beat(1)
    assert rig.image.topics["t"].partitions[0].leader == 2
    assert elect(rig, 0, {"t": [0]}) == [("t", 0, 80)]  # not in sync
    join_isr(rig, 2, 0, [2, 1])
    assert elect(rig, 0, None) == [("t", 0, 0)]
    partition = rig.image.topics["t"].partitions[0]
    assert (partition.leader, partition.preferred_leader) == (1, 1)


def test_unclean_elections_on_request() -> None:
    rig = ControllerRig().brokers(1, 2)
    rig.create(topic("t", assignments={0: [1, 2]}))
    rig.beat(2, want_fence=True)
    rig.beat(1, want_fence=True)
    assert rig.image.topics["t"].partitions[0].leader == NO_LEADER
    assert elect(rig, 1, {"t": [0]}) == [("t", 0, 83)]
    rig.beat(2)
    assert elect(rig, 1, {"t": [0]}) == [("t", 0, 0)]
    partition = rig.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.is_recovering) == (2, (2,), True)


@pytest.mark.spec("RP-40")
def test_topics_that_allow_unclean_elections_later_get_a_leader_in_the_next_round() -> None:
    rig = ControllerRig().brokers(1, 2)
    for name in ("allowed", "forbidden"):
        rig.create(topic(name, assignments={0: [1, 2]}))
    rig.beat(2, want_fence=True)
    rig.beat(1, want_fence=True)
    rig.beat(2)
    setting = resource(2, "allowed", ("unclean.leader.election.enable", 0, "true"))
    assert alter(rig, setting) == [(0, None)]
    leaders = {name: found.partitions[0].leader for name, found in rig.image.topics.items()}
    assert leaders == {"allowed": NO_LEADER, "forbidden": NO_LEADER}
    rig.clock.ms += 300_000  # unclean.leader.election.interval.ms
    rig.beat(2)
    rig.controller.tick(rig.clock.ms)
    leaders = {name: found.partitions[0].leader for name, found in rig.image.topics.items()}
    assert leaders == {"allowed": 2, "forbidden": NO_LEADER}


def test_what_a_round_of_unclean_elections_leaves_follows_with_the_next_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "MAX_ELECTIONS", 2)
    rig = ControllerRig().brokers(1, 2)
    rig.create(topic("t", assignments={index: [1, 2] for index in range(5)}))
    rig.beat(2, want_fence=True)
    rig.beat(1, want_fence=True)
    rig.beat(2)
    assert alter(rig, resource(2, "t", ("unclean.leader.election.enable", 0, "true"))) == [(0, None)]
    rig.clock.ms += 300_000
    rig.beat(2)
    assert [ticked(rig, 2) for _ in range(4)] == [2, 4, 5, 5]


def test_what_a_round_of_preferred_elections_leaves_follows_with_the_next_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "MAX_ELECTIONS", 2)
    rig = ControllerRig().brokers(1, 2)
    rig.create(topic("t", assignments={index: [1, 2] for index in range(5)}))
    rig.beat(1, want_fence=True)
    rig.beat(1)
    for index in range(5):
        join_isr(rig, 2, index, [2, 1])
    rig.clock.ms += 300_000
    rig.beat(1)
    rig.beat(2)
    assert [ticked(rig, 1) for _ in range(4)] == [2, 4, 5, 5]


def ticked(rig: ControllerRig, broker: int) -> int:
    """How many partitions the broker leads after a tick."""
    rig.pass_time(TICK_MS)
    return sum(each.leader == broker for each in rig.image.topics["t"].partitions.values())


def test_an_unknown_kind_of_election(rig: ControllerRig) -> None:
    answer = rig.ask(
        ElectLeadersRequest(election_type=7, topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
    )
    assert answer.error_code == 42
    (result,) = answer.replica_election_results
    assert [(each.error_code, each.error_message) for each in result.partition_result] == [
        (42, "Unknown election type 7")
    ]


def test_leaders_go_back_by_themselves() -> None:
    rig = ControllerRig().brokers(1, 2)
    rig.create(topic("t", assignments={0: [1, 2]}))
    rig.beat(1, want_fence=True)
    rig.beat(1)
    join_isr(rig, 2, 0, [2, 1])
    assert rig.image.topics["t"].partitions[0].leader == 2
    rig.clock.ms += 300_000
    rig.beat(1)
    rig.beat(2)
    rig.controller.tick(rig.clock.ms)
    assert rig.image.topics["t"].partitions[0].leader == 1


# ISR proposals


def propose(rig: ControllerRig, broker: int, index: int, isr: list[BrokerState], **fields: int) -> tuple[int, int]:
    """The error of the partition and its new epoch."""
    partition = rig.image.topics["t"].partitions[index]
    proposal = RequestPartitionData(
        partition_index=index,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=isr,
    )
    for name, value in fields.items():
        setattr(proposal, name, value)
    topics = [RequestTopicData(topic_id=rig.image.topics["t"].id, partitions=[proposal])]
    answer = rig.ask(AlterPartitionRequest(broker_id=broker, broker_epoch=rig.epochs[broker], topics=topics))
    assert answer.error_code == 0
    (result,) = answer.topics[0].partitions
    return result.error_code, result.partition_epoch


def join_isr(rig: ControllerRig, broker: int, index: int, isr: list[int]) -> None:
    states = [BrokerState(broker_id=each, broker_epoch=rig.epochs[each]) for each in isr]
    assert propose(rig, broker, index, states)[0] == 0


@pytest.fixture
def three() -> ControllerRig:
    rig = ControllerRig().brokers(1, 2, 3, 4)
    rig.create(topic("t", assignments={0: [1, 2, 3]}))
    return rig


def members(*ids: int, epoch: int = -1) -> list[BrokerState]:
    return [BrokerState(broker_id=each, broker_epoch=epoch) for each in ids]


@pytest.mark.spec("RP-02", "RP-36")
def test_an_accepted_proposal_raises_the_partition_epoch(three: ControllerRig) -> None:
    assert propose(three, 1, 0, members(1, 2)) == (0, 1)
    partition = three.image.topics["t"].partitions[0]
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((1, 2), 0, 1)
    (written,) = three.quorum.batches[-1]
    assert isinstance(written.record, PartitionChangeRecord)
    assert (written.record.partition_id, written.record.isr) == (0, [1, 2])


@pytest.mark.spec("RP-36")
@pytest.mark.parametrize(
    ("broker", "isr", "fields", "code"),
    [
        (1, members(1, 2), {"partition_epoch": -1}, 95),
        (1, members(1, 2), {"partition_epoch": 5}, 41),
        (1, members(1, 2), {"leader_epoch": 5}, 41),
        (1, members(1, 2), {"leader_epoch": -1}, 74),
        (2, members(1, 2), {}, 42),
        (1, members(1, 4), {}, 42),
        (1, members(2, 3), {}, 42),
        (1, members(), {}, 42),
        (1, members(1, 1), {}, 42),
        (1, members(1, 2, epoch=3), {}, 107),
        (1, members(1), {"leader_recovery_state": 1}, 42),
        (1, members(1, 2), {"leader_recovery_state": 1}, 42),
        (1, members(1), {"partition_index": 9}, 3),
    ],
)
def test_refused_proposals(
    three: ControllerRig, broker: int, isr: list[BrokerState], fields: dict[str, int], code: int
) -> None:
    before = three.image.topics["t"].partitions[0]
    assert propose(three, broker, 0, isr, **fields)[0] == code
    assert three.image.topics["t"].partitions[0] is before


@pytest.mark.spec("RP-36")
def test_a_broker_that_is_dead_fenced_or_leaving_is_not_eligible(three: ControllerRig) -> None:
    three.beat(2, want_fence=True)
    assert propose(three, 1, 0, members(1, 2))[0] == 107
    assert three.ask(UnregisterBrokerRequest(broker_id=2)).error_code == 0
    assert propose(three, 1, 0, members(1, 2))[0] == 107
    three.state.heartbeats.touch(3, three.clock.ms, 0, SessionState.UNFENCED)
    three.create(topic("led", assignments={0: [3, 1]}))
    three.beat(3, want_shut_down=True)
    assert propose(three, 1, 0, members(1, 3))[0] == 107


@pytest.mark.spec("RP-36")
def test_of_two_proposals_from_one_state_one_is_heard(three: ControllerRig) -> None:
    partition = three.image.topics["t"].partitions[0]
    assert propose(three, 1, 0, members(1, 2), partition_epoch=partition.partition_epoch)[0] == 0
    assert propose(three, 1, 0, members(1, 3), partition_epoch=partition.partition_epoch)[0] == 95


def test_proposals_of_a_broker_with_an_old_epoch(three: ControllerRig) -> None:
    topics = [RequestTopicData(topic_id=three.image.topics["t"].id)]
    assert three.ask(AlterPartitionRequest(broker_id=1, broker_epoch=0, topics=topics)).error_code == 77
    assert three.ask(AlterPartitionRequest(broker_id=1, broker_epoch=0)).error_code == 0, "it proposes nothing"


def test_of_two_proposals_in_one_request_the_one_after_a_change_is_refused(three: ControllerRig) -> None:
    found = three.image.topics["t"]

    def proposed(*isrs: list[BrokerState]) -> list[int]:
        present = found.partitions[0].partition_epoch
        partitions = [RequestPartitionData(partition_epoch=present, new_isr_with_epochs=isr) for isr in isrs]
        topics = [RequestTopicData(topic_id=found.id, partitions=partitions)]
        answer = three.ask(AlterPartitionRequest(broker_id=1, broker_epoch=three.epochs[1], topics=topics))
        return [each.error_code for each in answer.topics[0].partitions]

    same = [BrokerState(broker_id=each) for each in found.partitions[0].isr]
    assert proposed(same, members(), same, members(1, 2), same) == [0, 42, 0, 0, 95]


# Producer ids


def test_blocks_of_producer_ids_never_overlap(rig: ControllerRig) -> None:
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=rig.epochs[1])
    first, second = rig.ask(request), rig.ask(request)
    assert (first.producer_id_start, first.producer_id_len) == (0, 1000)
    assert (second.producer_id_start, second.producer_id_len) == (1000, 1000)
    record = rig.quorum.batches[-1][0].record
    assert record == ProducerIdsRecord(broker_id=1, broker_epoch=rig.epochs[1], next_producer_id=2000)
    assert rig.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)).error_code == 77


def test_producer_ids_end(rig: ControllerRig) -> None:
    rig.state.image.next_producer_id = 2**63 - 1 - 1000
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=rig.epochs[1])
    assert rig.ask(request).error_code == 0
    assert rig.ask(request).error_code == -1


# DescribeQuorum


def test_the_quorum_is_described(rig: ControllerRig) -> None:
    asked = [QuorumTopic(topic_name="__cluster_metadata", partitions=[QuorumPartition(partition_index=0)])]
    answer = rig.ask(DescribeQuorumRequest(topics=asked))
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (NODE_ID, 1, 0)
    assert [each.replica_id for each in partition.current_voters] == [NODE_ID]
    assert answer.nodes[0].listeners[0].name == "CONTROLLER"
    asked = [QuorumTopic(topic_name="t", partitions=[QuorumPartition(partition_index=0)])]
    answer = rig.ask(DescribeQuorumRequest(topics=asked))
    assert answer.topics[0].partitions[0].error_code == 3
