"""The controller as a writer of the log: order, commit, refusal, activation, snapshots."""

from __future__ import annotations

import pytest

from support.metadata.controllers import BOOTSTRAP, NODE_ID, ControllerRig, MemoryQuorum, topic
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.versions import METADATA_VERSION
from tailrace.model.errors import StorageError, UnsupportedVersionError
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.controller_registration import ControllerRegistrationRequest, Listener
from tailrace.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tailrace.protocol.messages.fetch import FetchRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.update_features import UpdateFeaturesRequest
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.brokers import RegisterControllerRecord
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
    quorum.bootstrap_records = ()
    again = ControllerRig(quorum, starts=False)
    again.controller.loaded(first.state.image.records(), first.state.image.offset, 1, 0)
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
    rig.committed(started, 3, 1, 0)
    rig.controller.became_leader(1)
    assert isinstance(rig.quorum.records[0], AbortTransactionRecord)
    assert not rig.image.topics
    assert rig.image.held_back is None


@pytest.mark.parametrize("level", [6, 31])
def test_a_version_that_is_not_known_stops_it(level: int) -> None:
    rig = ControllerRig(starts=False)
    record = VersionedRecord(FeatureLevelRecord(name=METADATA_VERSION, feature_level=level), 0)
    rig.controller.committed([record], 1, 1, 0)
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


def test_commands_that_follow_from_a_commit_wait_for_their_turn() -> None:
    rig = ControllerRig()
    answers = []
    rig.register(1)

    class Eager:
        """A broker that beats from within the commit."""

        def committed(self, records: list[VersionedRecord], last_offset: int, epoch: int, timestamp_ms: int) -> None:
            rig.committed(records, last_offset, epoch, timestamp_ms)
            rig.quorum.listener = rig
            beat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=rig.epochs[1], current_metadata_offset=last_offset)
            rig.controller.handle(beat, 2, None, answers.append)

    rig.quorum.listener = Eager()
    assert rig.ask(UpdateFeaturesRequest()).error_code == 0
    rig.register(2)
    assert answers == []
    rig.jobs.run_due()
    assert len(answers) == 1
    assert not rig.image.brokers[1].is_fenced


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
    rig.controller.became_leader(1)
    rig.controller.stop()
    (result,) = rig.create(topic("t"))
    assert result.error_code == 41


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


# Other controllers


def test_another_controller_registers() -> None:
    rig = ControllerRig()
    request = ControllerRegistrationRequest(
        controller_id=7, incarnation_id=b"7" * 16, listeners=[Listener(name="CONTROLLER", host="h", port=9)]
    )
    assert rig.ask(request).error_code == 0
    assert rig.image.controllers[7].endpoints[0].port == 9


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


def test_snapshots_are_taken_when_due() -> None:
    rig = ControllerRig().brokers(1)
    rig.create(topic("t"))
    rig.controller.tick(rig.clock.ms)
    assert rig.quorum.snapshots == []
    rig.quorum.is_snapshot_due = True
    rig.controller.tick(rig.clock.ms)
    ((records, offset),) = rig.quorum.snapshots
    assert offset == rig.image.offset
    assert records == list(rig.image.records())


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
