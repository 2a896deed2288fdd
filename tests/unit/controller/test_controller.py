"""The controller as a writer of the log: order, commit, refusal, activation, snapshots."""

from __future__ import annotations

import pytest

from support.metadata.controllers import BOOTSTRAP, NODE_ID, ControllerRig, MemoryQuorum, topic
from tailrace.controller.controller import DECISIONS
from tailrace.controller.decision import Decision
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.versions import METADATA_VERSION
from tailrace.model.errors import InvalidRegistrationError, NotControllerError, StorageError, UnsupportedVersionError
from tailrace.model.invariant import InvariantError
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tailrace.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from tailrace.protocol.messages.alter_partition import AlterPartitionRequest
from tailrace.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from tailrace.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest
from tailrace.protocol.messages.controller_registration import ControllerRegistrationRequest, Listener
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest
from tailrace.protocol.messages.describe_quorum import RequestPartitionData as DescribedPartition
from tailrace.protocol.messages.describe_quorum import RequestTopicData as DescribedTopic
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest
from tailrace.protocol.messages.fetch import FetchRequest
from tailrace.protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from tailrace.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tailrace.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.protocol.messages.update_features import UpdateFeaturesRequest
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.brokers import RegisterBrokerRecord, RegisterControllerRecord
from tailrace.protocol.records.ledger import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.protocol.records.topics import TopicRecord

# Activation


def test_an_empty_log_gets_the_bootstrap_records_as_one_transaction() -> None:
    rig = ControllerRig()
    kinds = [[type(each.record) for each in batch] for batch in rig.quorum.batches]
    assert kinds == [[BeginTransactionRecord, FeatureLevelRecord, EndTransactionRecord], [RegisterControllerRecord]]
    begin = rig.quorum.batches[0][0].record
    assert begin == BeginTransactionRecord(name="Bootstrap records")
    assert rig.image.metadata_version == 30
    registered = rig.image.controllers[NODE_ID]
    assert registered.endpoints[0].name == "CONTROLLER"
    assert registered.features[METADATA_VERSION] == (7, 30)


def test_a_log_with_records_gets_none() -> None:
    first = ControllerRig()
    quorum = first.quorum
    again = ControllerRig(quorum, starts=False)
    again.loader.loaded(again.loader.prepare(first.image.records()), first.image.offset, 1, 0)
    before = len(quorum.batches)
    again.controller.became_leader(2)
    assert len(quorum.batches) == before  # the same incarnation is registered
    assert again.state.image.metadata_version == 30


def test_an_open_transaction_is_aborted() -> None:
    rig = ControllerRig(starts=False)
    started = [
        VersionedRecord(FeatureLevelRecord(name=METADATA_VERSION, feature_level=30), 0),
        VersionedRecord(BeginTransactionRecord(name="x"), 0),
        VersionedRecord(TopicRecord(name="t", topic_id=b"t" * 16), 0),
    ]
    rig.loader.committed(started, 3, 1, 0)
    rig.controller.became_leader(1)
    assert isinstance(rig.quorum.records[0], AbortTransactionRecord)
    assert not rig.image.topics
    assert rig.image.held_back is None


def test_an_unfinished_bootstrap_transaction_is_aborted_and_written_again() -> None:
    rig = ControllerRig(starts=False)
    started = [VersionedRecord(BeginTransactionRecord(name="Bootstrap records"), 0), *BOOTSTRAP]
    rig.loader.committed(started, 2, 1, 0)
    rig.controller.became_leader(2)
    kinds = [type(each) for each in rig.quorum.records[:4]]
    assert kinds == [AbortTransactionRecord, BeginTransactionRecord, FeatureLevelRecord, EndTransactionRecord]
    assert rig.image.metadata_version == 30


@pytest.mark.parametrize("level", [6, 31])
def test_a_version_that_is_not_known_stops_it(level: int) -> None:
    rig = ControllerRig(starts=False)
    record = VersionedRecord(FeatureLevelRecord(name=METADATA_VERSION, feature_level=level), 0)
    rig.loader.committed([record], 1, 1, 0)
    with pytest.raises(UnsupportedVersionError, match=f"metadata.version {level}"):
        rig.controller.became_leader(1)


def test_bootstrap_records_without_a_version_stop_it() -> None:
    quorum = MemoryQuorum()
    quorum.bootstrap_records = ()
    with pytest.raises(UnsupportedVersionError, match="format the directory"):
        ControllerRig(quorum)


# Order and commit


@pytest.mark.spec("RP-01")
def test_the_next_command_sees_what_is_not_committed_yet_but_answers_wait() -> None:
    rig = ControllerRig().brokers(1)
    rig.quorum.commits_at_once = False
    first = rig.pending(CreateTopicsRequest(topics=[topic("t")]))
    second = rig.pending(CreateTopicsRequest(topics=[topic("t")]))
    assert (first, second) == ([], [])
    assert "t" not in rig.image.topics
    rig.quorum.commit()
    assert [each.topics[0].error_code for each in (*first, *second)] == [0, 36]  # type: ignore[attr-defined]
    assert "t" in rig.image.topics


@pytest.mark.spec("RP-01")
def test_a_broker_that_applies_the_log_has_the_controllers_state() -> None:
    rig = ControllerRig().brokers(1, 2, 3)
    rig.create(topic("a", 5, 3), topic("b", 2, 2, configs={"retention.ms": "1"}))
    rig.beat(1, want_fence=True)
    rig.beat(1)
    replayed = MetadataImage()
    for batch in rig.quorum.batches:
        delta = MetadataDelta(replayed)
        for each in batch:
            delta.replay(each.record)
    own, theirs = rig.state.image, rig.image
    assert list(own.records()) == list(theirs.records()) == list(replayed.records())


def test_nothing_is_left_behind_by_a_log_that_refuses() -> None:
    rig = ControllerRig().brokers(1)
    rig.quorum.refusal = StorageError("write", OSError(28, "No space left on device"))
    (result,) = rig.create(topic("t"))
    assert result.error_code == 56
    rig.quorum.refusal = None
    (result,) = rig.create(topic("t"))
    assert result.error_code == 0


def test_a_command_that_follows_from_a_commit_sees_its_records() -> None:
    rig = ControllerRig()
    answers: list[Response] = []
    rig.register(1)

    class Eager:
        """A broker that beats from within the commit."""

        def committed(self, records: list[VersionedRecord], last_offset: int, epoch: int, timestamp_ms: int) -> None:
            rig.loader.committed(records, last_offset, epoch, timestamp_ms)
            rig.quorum.listener = rig.loader
            beat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=rig.epochs[1], current_metadata_offset=last_offset)
            rig.controller.handle(beat, 2, None, answers.append)

    rig.quorum.listener = Eager()
    assert rig.register(2).error_code == 0
    (answer,) = answers
    assert isinstance(answer, BrokerHeartbeatResponse)
    assert (answer.is_fenced, rig.image.brokers[1].is_fenced) == (False, False)


def test_a_request_that_cannot_be_decided_gets_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker that forwards a request to a controller that closes the connection sends it again and again."""

    def fails(controller: object, request: Request, version: int) -> Decision:
        raise AssertionError("a defect")

    rig = ControllerRig().brokers(1)
    monkeypatch.setitem(DECISIONS, CreateTopicsRequest, fails)
    assert [each.error_code for each in rig.create(topic("t"))] == [-1]
    assert "CreateTopicsRequest v7 cannot be decided" in caplog.text
    assert rig.ask(UpdateFeaturesRequest()).error_code == 0


def test_more_records_than_a_batch_takes_are_several_batches() -> None:
    rig = ControllerRig().brokers(1)
    for name in ("a", "b"):
        rig.create(topic(name, 6000))
    before = len(rig.quorum.batches)
    rig.beat(1, want_fence=True)
    assert [len(each) for each in rig.quorum.batches[before:]] == [10_000, 2001]
    assert rig.image.brokers[1].is_fenced
    assert {p.leader for t in rig.image.topics.values() for p in t.partitions.values()} == {-1}


def test_only_the_active_controller_decides() -> None:
    rig = ControllerRig(starts=False)
    (result,) = rig.create(topic("t"))
    assert result.error_code == 41
    assert result.error_message == "No controller appears to be active."
    rig.controller.became_leader(1)
    rig.controller.resigned()
    rig.controller.leader_changed(7, 2)
    (result,) = rig.create(topic("t"))
    assert (result.error_code, result.error_message) == (41, "The active controller appears to be node 7.")


def test_requests_that_are_not_the_controllers() -> None:
    rig = ControllerRig()
    assert rig.ask(FetchRequest()).error_code == 35
    assert rig.ask(MetadataRequest()).error_code == 35


def test_what_waits_when_the_log_fails_is_not_answered() -> None:
    rig = ControllerRig().brokers(1)
    rig.quorum.commits_at_once = False
    answers = rig.pending(CreateTopicsRequest(topics=[topic("t")]))
    rig.controller.failed(StorageError("sync", OSError(5, "Input/output error")))
    assert answers == []
    (after,) = rig.pending(CreateTopicsRequest(topics=[topic("u")]))
    assert isinstance(after, CreateTopicsResponse)
    assert after.topics[0].error_code == 41


# Losing the leadership

EMPTY_REQUESTS = [
    AllocateProducerIdsRequest(),
    AlterPartitionReassignmentsRequest(),
    AlterPartitionRequest(),
    AssignReplicasToDirsRequest(),
    BrokerHeartbeatRequest(),
    BrokerRegistrationRequest(),
    ControllerRegistrationRequest(),
    ElectLeadersRequest(),
    ListPartitionReassignmentsRequest(),
    UnregisterBrokerRequest(),
    UpdateFeaturesRequest(),
]
REQUESTS_WITH_ROWS = [
    AlterConfigsRequest(resources=[AlterConfigsResource(resource_type=2, resource_name="t")]),
    CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2)]),
    CreateTopicsRequest(topics=[topic("t")]),
    DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]),
    IncrementalAlterConfigsRequest(resources=[IncrementalResource(resource_type=2, resource_name="t")]),
]


@pytest.mark.parametrize("request_", EMPTY_REQUESTS, ids=lambda each: type(each).__name__)
def test_an_inactive_controller_refuses_the_whole_request(request_: Request) -> None:
    rig = ControllerRig()
    rig.controller.resigned()
    assert rig.ask(request_).error_code == 41


@pytest.mark.parametrize("request_", REQUESTS_WITH_ROWS, ids=lambda each: type(each).__name__)
def test_an_inactive_controller_refuses_every_row(request_: Request) -> None:
    rig = ControllerRig()
    rig.controller.resigned()
    answer = rig.ask(request_)
    (rows,) = [getattr(answer, each.name) for each in answer.__fields__ if isinstance(getattr(answer, each.name), list)]
    assert [row.error_code for row in rows] == [41]


def test_every_kind_of_request_is_refused_by_an_inactive_controller() -> None:
    refused = {type(each) for each in (*EMPTY_REQUESTS, *REQUESTS_WITH_ROWS)}
    assert refused == set(DECISIONS)


def test_a_node_that_does_not_lead_does_not_describe_the_quorum() -> None:
    rig = ControllerRig()
    rig.quorum.is_leader = False
    topics = [DescribedTopic(topic_name="__cluster_metadata", partitions=[DescribedPartition(partition_index=0)])]
    (described,) = rig.ask(DescribeQuorumRequest(topics=topics)).topics
    assert [each.error_code for each in described.partitions] == [6]
    topics[0].topic_name = "other"
    (described,) = rig.ask(DescribeQuorumRequest(topics=topics)).topics
    assert [each.error_code for each in described.partitions] == [3]


@pytest.mark.spec("RP-01")
def test_waiting_requests_are_refused_and_their_records_discarded_on_resignation() -> None:
    rig = ControllerRig().brokers(1)
    rig.quorum.commits_at_once = False
    answers = rig.pending(CreateTopicsRequest(topics=[topic("t", 2)]))
    assert "t" in rig.state.image.topics
    rig.controller.resigned()
    (answer,) = answers
    assert isinstance(answer, CreateTopicsResponse)
    assert [each.error_code for each in answer.topics] == [41]
    assert "t" not in rig.state.image.topics
    assert rig.state.index.partition_count == 0
    rig.quorum.commit()  # by the next leader
    assert "t" in rig.state.image.topics
    assert rig.state.index.partition_count == 2
    assert len(answers) == 1


def test_an_active_controller_loads_no_snapshot() -> None:
    rig = ControllerRig()
    with pytest.raises(InvariantError):
        rig.loader.loaded(rig.loader.prepare(rig.image.records()), rig.image.offset, 1, 0)


def test_a_controller_that_lost_the_leadership_during_activation_waits_for_its_resignation() -> None:
    quorum = MemoryQuorum()
    quorum.refusal = NotControllerError("another node leads")
    rig = ControllerRig(quorum)
    assert rig.failures == []
    quorum.refusal = None
    rig.loader.resigned()
    rig.loader.became_leader(2)
    assert rig.image.metadata_version == 30


def test_time_passes_for_a_controller_that_has_lost_the_leadership_already() -> None:
    rig = ControllerRig()
    rig.quorum.refusal = NotControllerError("another node leads")
    rig.clock.ms += 1000
    rig.controller.tick(rig.clock.ms)
    assert rig.failures == []


def test_the_own_broker_has_a_session_after_a_failover_to_its_controller() -> None:
    rig = ControllerRig()
    rig.register(NODE_ID, incarnation=b"c" * 16)
    rig.beat(NODE_ID)
    rig.controller.resigned()
    rig.controller.became_leader(2)
    before = len(rig.quorum.batches)
    assert not rig.beat(NODE_ID).is_fenced
    assert len(rig.quorum.batches) == before
    rig.pass_time(9001)
    assert rig.image.brokers[NODE_ID].is_fenced


def test_a_registration_that_the_log_refuses_opens_no_session() -> None:
    rig = ControllerRig().brokers(1)
    rig.quorum.refusal = StorageError("write", OSError(28, "No space left on device"))
    assert rig.register(2).error_code == 56
    assert rig.ask(UnregisterBrokerRequest(broker_id=1)).error_code == 56
    assert rig.state.heartbeats.is_alive(1, rig.clock.ms)
    rig.quorum.refusal = None
    assert rig.register(1, incarnation=b"x" * 16).error_code == 101


# Other controllers


def test_another_controller_registers() -> None:
    rig = ControllerRig()
    request = ControllerRegistrationRequest(
        controller_id=7, incarnation_id=b"7" * 16, listeners=[Listener(name="CONTROLLER", host="h", port=9)]
    )
    assert rig.ask(request).error_code == 0
    assert rig.image.controllers[7].endpoints[0].port == 9


def test_a_controller_with_an_invalid_listener_is_refused() -> None:
    """Kafka could not read the record."""
    rig = ControllerRig()
    for bad in (Listener(name="A", host="h"), Listener(name="A", host="h", port=9, security_protocol=99)):
        answer = rig.ask(ControllerRegistrationRequest(controller_id=7, listeners=[bad]))
        assert answer.error_code == InvalidRegistrationError.code
        assert "listener 'A'" in answer.error_message
    assert 7 not in rig.image.controllers


# Time


def test_an_idle_log_moves_all_the_same() -> None:
    rig = ControllerRig()
    before = len(rig.quorum.batches)
    rig.clock.ms += 499
    rig.controller.tick(rig.clock.ms)
    assert len(rig.quorum.batches) == before
    rig.clock.ms += 1
    rig.controller.tick(rig.clock.ms)
    assert [each.record for each in rig.quorum.batches[-1]] == [NoOpRecord()]
    rig.controller.tick(rig.clock.ms)
    assert len(rig.quorum.batches) == before + 1


def test_gauges() -> None:
    rig = ControllerRig().brokers(1)
    rig.create(topic("t", 3))
    rig.register(2)
    rig.beat(1, want_fence=True)
    values = {each.name: each.value for each in rig.controller.gauges()}
    assert values["ActiveControllerCount"] == 1
    assert (values["GlobalTopicCount"], values["GlobalPartitionCount"], values["OfflinePartitionsCount"]) == (1, 3, 3)
    assert (values["ActiveBrokerCount"], values["FencedBrokerCount"]) == (0, 2)
    rig.beat(1)
    values = {each.name: each.value for each in rig.controller.gauges()}
    assert (values["OfflinePartitionsCount"], values["PreferredReplicaImbalanceCount"]) == (0, 0)


def test_bootstrap_records_of_the_rig_are_those_of_this_release() -> None:
    assert [each.record for each in BOOTSTRAP] == [FeatureLevelRecord(name=METADATA_VERSION, feature_level=30)]


def test_the_quorum_is_described_while_nothing_can_be_committed() -> None:
    rig = ControllerRig().brokers(1)
    rig.quorum.commits_at_once = False
    assert rig.pending(CreateTopicsRequest(topics=[topic("t")])) == []
    asked = DescribedTopic(topic_name="__cluster_metadata", partitions=[DescribedPartition()])
    (answer,) = rig.ask(DescribeQuorumRequest(topics=[asked])).topics[0].partitions
    assert answer.leader_id == NODE_ID


def test_a_broker_must_have_read_a_snapshot_in_which_it_is_registered() -> None:
    """The place of its registration in the log is unknown: it is at the end of the snapshot at most."""
    rig = ControllerRig().brokers(1)
    rig.controller.resigned()
    image = MetadataImage()
    registration = RegisterBrokerRecord(broker_id=2, incarnation_id=b"2" * 16, broker_epoch=40, log_dirs=[b"d" * 16])
    delta = MetadataDelta(image)
    for record in (*(each.record for each in rig.image.records()), registration):
        delta.replay(record)
    image.offset = 50
    rig.loader.loaded(rig.loader.prepare(image.records()), 50, 1, 0)
    rig.quorum.log_end_offset = 51
    rig.controller.became_leader(2)
    for offset in (40, 49):
        assert rig.beat(2, epoch=40, current_metadata_offset=offset).is_fenced
    assert not rig.beat(2, epoch=40, current_metadata_offset=50).is_fenced


def test_state_and_committed_image_share_their_partitions() -> None:
    rig = ControllerRig().brokers(1, 2)
    rig.quorum.commits_at_once = False
    rig.pending(CreateTopicsRequest(topics=[topic("t", 2, 2)], timeout_ms=1000))
    rig.quorum.commit()
    committed, state = rig.image.topics["t"].partitions, rig.state.image.topics["t"].partitions
    assert committed is not state
    assert [committed[index] is state[index] for index in (0, 1)] == [True, True]
