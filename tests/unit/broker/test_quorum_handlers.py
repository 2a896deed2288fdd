"""Requests of the metadata quorum on a whole simulated node: its controller listener, and what brokers forward."""

from __future__ import annotations

from typing import Any

import pytest

from support.brokers.handler_calls import versions_of
from support.brokers.simulated import CONTROLLER, SimBroker, SimClient
from support.logs.builders import batch
from tailrace.model.ids import DirectoryId
from tailrace.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from tailrace.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from tailrace.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tailrace.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from tailrace.protocol.messages.vote import VoteRequest
from tailrace.raft.consensus import ReplicaKey
from tailrace.raft.consensus import messages as ms
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.wire import QuorumAddress, ask
from tailrace.record.shallow import batches

OTHER = ReplicaKey(2, DirectoryId(bytes([2] * 16)))
DUPLICATE_VOTER, VOTER_NOT_FOUND, INVALID_REQUEST, SNAPSHOT_NOT_FOUND, INCONSISTENT_CLUSTER = 126, 127, 42, 98, 104
FENCED_LEADER_EPOCH, INCONSISTENT_VOTER_SET, BROKER_NOT_AVAILABLE, NOT_CONTROLLER = 74, 94, 8, 41


@pytest.fixture
def broker() -> SimBroker:
    return SimBroker().start()


@pytest.fixture
def controllers(broker: SimBroker) -> SimClient:
    return broker.client(CONTROLLER)


def message(broker: SimBroker, request: ms.Request) -> Any:
    return ask(request, QuorumAddress(broker.node.cluster_id, "CONTROLLER"), 1 << 20, 1000)


def fetch(
    broker: SimBroker, offset: int, epoch: int, max_wait_ms: int = 0, replica: ReplicaKey = OTHER
) -> FetchRequest:
    quorum = broker.node.quorum
    request = ms.FetchRequest(replica, quorum.epoch, offset, epoch, max_wait_ms=max_wait_ms)
    found = message(broker, request)
    assert isinstance(found, FetchRequest)
    return found


@pytest.mark.parametrize("version", [17, 18])
def test_an_observer_fetches_the_log(broker: SimBroker, controllers: SimClient, version: int) -> None:
    quorum = broker.node.quorum
    offset, epoch = 0, 0
    while offset < quorum.log_end_offset:
        answer = controllers.ask(fetch(broker, offset, epoch), version)
        (partition,) = answer.responses[0].partitions
        assert (answer.error_code, partition.error_code) == (0, 0)
        assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (1, quorum.epoch)
        assert [node.node_id for node in answer.node_endpoints] == [1]
        for found in batches(bytes(partition.records)):
            assert found.base_offset == offset
            offset, epoch = found.next_offset, found.leader_epoch
    described = quorum.describe(broker.node.env.clock.now_ms())
    assert [observer.node_id for observer in described.observers] == [2]


def test_a_fetch_waits_for_records_and_is_forgotten_with_its_sender(broker: SimBroker) -> None:
    quorum = broker.node.quorum
    first, second = broker.client(CONTROLLER), broker.client(CONTROLLER)
    request = fetch(broker, quorum.log_end_offset, quorum.epoch, max_wait_ms=10_000)
    number = first.post(request, 17)
    third = ReplicaKey(3, DirectoryId(bytes([3] * 16)))
    second.post(fetch(broker, quorum.log_end_offset, quorum.epoch, max_wait_ms=10_000, replica=third), 17)
    broker.run()
    assert first.read() == {}
    second.leave()
    assert broker.client().create_topic("orders").error_code == 0
    broker.run()
    (partition,) = first.read()[number].responses[0].partitions
    assert len(list(batches(bytes(partition.records)))) >= 1


@pytest.mark.parametrize("version", versions_of(VoteRequest))
def test_a_leader_gives_no_vote(broker: SimBroker, controllers: SimClient, version: int) -> None:
    quorum = broker.node.quorum
    request = ms.VoteRequest(quorum.epoch, OTHER, ReplicaKey(1), quorum.epoch - 1, 10**6)
    (partition,) = controllers.ask(message(broker, request), version).topics[0].partitions
    assert (partition.error_code, partition.vote_granted) == (0, False)
    assert (partition.leader_id, partition.leader_epoch) == (1, quorum.epoch)


def test_what_a_leader_knows_of_its_own_epoch_is_no_error(broker: SimBroker, controllers: SimClient) -> None:
    quorum = broker.node.quorum
    (voter,) = quorum.voters
    own = ReplicaKey(1, voter.directory_id)
    requests = (
        ms.BeginQuorumEpochRequest(quorum.epoch, 1, own),
        ms.EndQuorumEpochRequest(quorum.epoch, 1, (own,)),
        ms.VoteRequest(quorum.epoch, own, own, quorum.epoch - 1, 10**6),
    )
    before = quorum.epoch
    for request in requests:
        (partition,) = controllers.ask(message(broker, request), 1).topics[0].partitions
        assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, before)
        assert not getattr(partition, "vote_granted", False)
    assert (quorum.epoch, quorum.is_leader) == (before, True)


@pytest.mark.parametrize("version", versions_of(BeginQuorumEpochRequest))
def test_a_leader_of_an_earlier_epoch_is_fenced(broker: SimBroker, controllers: SimClient, version: int) -> None:
    request = ms.BeginQuorumEpochRequest(0, 2, ReplicaKey(1))
    (partition,) = controllers.ask(message(broker, request), version).topics[0].partitions
    assert partition.error_code == FENCED_LEADER_EPOCH


@pytest.mark.parametrize("version", versions_of(FetchSnapshotRequest))
def test_snapshots_are_fetched_in_chunks(broker: SimBroker, controllers: SimClient, version: int) -> None:
    node = broker.node
    node.quorum.snapshot(node.image.records(), lambda: None)
    broker.run()
    snapshot_id = SnapshotId(node.image.offset + 1, node.image.epoch)
    data = b""
    size = 1
    while len(data) < size:
        request = ms.FetchSnapshotRequest(OTHER, node.quorum.epoch, snapshot_id, len(data), 100)
        (partition,) = controllers.ask(message(broker, request), version).topics[0].partitions
        assert (partition.error_code, partition.position) == (0, len(data))
        size = partition.size
        data += bytes(partition.unaligned_records)
    assert len(data) == size > 100
    missing = ms.FetchSnapshotRequest(OTHER, node.quorum.epoch, SnapshotId(10**6, 1), 0, 100)
    (partition,) = controllers.ask(message(broker, missing), version).topics[0].partitions
    assert partition.error_code == SNAPSHOT_NOT_FOUND


def test_voters_are_changed_by_the_leader_of_the_quorum(broker: SimBroker, controllers: SimClient) -> None:
    (voter,) = broker.node.quorum.voters
    listener = Listener(name="CONTROLLER", host="two", port=9093)
    add = AddRaftVoterRequest(cluster_id=None, voter_id=1, voter_directory_id=voter.directory_id, listeners=[listener])
    remove = RemoveRaftVoterRequest(cluster_id=None, voter_id=1, voter_directory_id=voter.directory_id)
    for client in (controllers, broker.client()):
        assert client.ask(add, 1).error_code == DUPLICATE_VOTER
        answer = client.ask(remove, 0)
        assert (answer.error_code, answer.error_message) == (VOTER_NOT_FOUND, "the last voter cannot be removed")
        foreign = RemoveRaftVoterRequest(cluster_id="another", voter_id=1)
        assert client.ask(foreign, 0).error_code == INCONSISTENT_CLUSTER
    update = UpdateRaftVoterRequest(cluster_id="another", current_leader_epoch=1, voter_id=1)
    assert controllers.ask(update, 0).error_code == INCONSISTENT_CLUSTER


def test_a_fetch_about_another_topic_is_refused(broker: SimBroker, controllers: SimClient) -> None:
    request = fetch(broker, 0, 0)
    request.topics[0].topic_id = bytes(16)
    assert controllers.ask(request, 17).error_code == INVALID_REQUEST


@pytest.mark.parametrize("epoch", [1, 2**30])
def test_no_client_takes_the_leadership_of_a_single_node_away(
    broker: SimBroker, controllers: SimClient, epoch: int
) -> None:
    quorum = broker.node.quorum
    before = quorum.epoch
    requests = (
        ms.VoteRequest(before + epoch, OTHER, ReplicaKey(1), before, 10**6),
        ms.BeginQuorumEpochRequest(before + epoch, 2, ReplicaKey(1)),
        ms.EndQuorumEpochRequest(before + epoch, 2, (ReplicaKey(1),)),
    )
    for request in requests:
        (partition,) = controllers.ask(message(broker, request), 1).topics[0].partitions
        assert (partition.error_code, partition.leader_epoch) == (INCONSISTENT_VOTER_SET, before)
    assert (quorum.epoch, quorum.is_leader) == (before, True)
    broker.client().create_topic("orders")


@pytest.mark.parametrize("version", [4, 17])
def test_no_fetch_of_a_controller_listener_reads_a_topic(
    broker: SimBroker, controllers: SimClient, version: int
) -> None:
    """A connection remembers the last fetch, and responds to similar ones faster; but not here."""
    client = broker.client()
    client.create_topic("orders")
    assert client.produce("orders", batch(1, 100)).error_code == 0
    topic_id = broker.node.image.topics["orders"].id
    for _ in range(3):
        request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20)
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request.topics = [FetchTopic(topic="orders", topic_id=topic_id, partitions=[partition])]
        assert controllers.ask(request, version).responses == []


def test_replicas_and_administrators_get_their_own_error_before_the_log_is_loaded(
    broker: SimBroker, controllers: SimClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's replicas log every error but BROKER_NOT_AVAILABLE as unexpected."""
    fetching, voting = fetch(broker, 0, 0), message(broker, ms.VoteRequest(1, OTHER, OTHER, 1, 1))
    monkeypatch.setattr(type(broker.node.quorum), "_is_live", False)
    assert controllers.ask(fetching, 18).error_code == BROKER_NOT_AVAILABLE
    assert controllers.ask(voting, 2).error_code == BROKER_NOT_AVAILABLE
    for request in (AddRaftVoterRequest(), RemoveRaftVoterRequest()):
        assert controllers.ask(request, 0).error_code == NOT_CONTROLLER
