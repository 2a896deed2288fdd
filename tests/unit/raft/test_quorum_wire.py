"""Messages of the quorum as values and back, in every version, and what is refused before the core."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace.model.errors import InvalidDataError
from tailrace.model.ids import DirectoryId
from tailrace.protocol.codec import decode, encode
from tailrace.protocol.message import Message
from tailrace.protocol.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote
from tailrace.protocol.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from tailrace.raft.consensus import ErrorCode, ReplicaKey
from tailrace.raft.consensus import messages as ms
from tailrace.raft.snapshot import SnapshotId
from tailrace.raft.voters import QuorumEndpoint, Voter
from tailrace.raft.wire import QuorumAddress, RefusedRequestError, accept, ask, read, respond
from tailrace.raft.wire.fetches import fetched_chunk, fetched_records, max_bytes_of

ADDRESS = QuorumAddress("cluster", "CONTROLLER")
ONE, TWO = DirectoryId(bytes([1] * 16)), DirectoryId(bytes([2] * 16))
ENDPOINTS = (QuorumEndpoint("CONTROLLER", "host1", 9093), QuorumEndpoint("OTHER", "host1", 9094))
LEADER = ms.Leadership(1, 7, ENDPOINTS[:1])
OWN, OTHER = ReplicaKey(1, ONE), ReplicaKey(2, TWO)
VOTER = Voter(2, TWO, ENDPOINTS)

REQUESTS: list[tuple[ms.InboundRequest, int]] = [
    (ms.VoteRequest(7, OWN, OTHER, 6, 100, True), 2),
    (ms.VoteRequest(7, OWN, OTHER, 6, 100, False), 1),
    (ms.BeginQuorumEpochRequest(7, 1, OTHER, ENDPOINTS), 1),
    (ms.EndQuorumEpochRequest(7, 1, (OTHER, ReplicaKey(3, ONE)), ENDPOINTS), 1),
    (ms.FetchRequest(OTHER, 7, 100, 6, 90, 500), 18),
    (ms.FetchRequest(OTHER, 7, 100, 6, ms.UNKNOWN_HIGH_WATERMARK, 500), 17),
    (ms.FetchSnapshotRequest(OTHER, 7, SnapshotId(50, 3), 4096, 1 << 20), 1),
    (ms.FetchSnapshotRequest(ReplicaKey(2), 7, SnapshotId(50, 3), 4096, 1 << 20), 0),
    (ms.AddRaftVoterRequest(VOTER, False), 1),
    (ms.AddRaftVoterRequest(VOTER, True), 0),
    (ms.RemoveRaftVoterRequest(OTHER), 0),
    (ms.UpdateRaftVoterRequest(7, VOTER, 0, 1), 0),
]
RESPONSES: list[tuple[ms.InboundRequest, ms.Response, int]] = [
    (REQUESTS[0][0], ms.VoteResponse(ErrorCode.NONE, LEADER, True), 2),
    (REQUESTS[0][0], ms.VoteResponse(ErrorCode.FENCED_LEADER_EPOCH, ms.Leadership(-1, 9)), 0),
    (REQUESTS[2][0], ms.BeginQuorumEpochResponse(ErrorCode.INVALID_VOTER_KEY, LEADER), 1),
    (REQUESTS[3][0], ms.EndQuorumEpochResponse(ErrorCode.NONE, LEADER), 1),
    (REQUESTS[4][0], ms.FetchResponse(ErrorCode.NONE, LEADER, 90, 10), 18),
    (REQUESTS[4][0], ms.FetchResponse(ErrorCode.NONE, LEADER, 90, 10, ms.EndOffset(5, 70)), 17),
    (REQUESTS[4][0], ms.FetchResponse(ErrorCode.NONE, LEADER, 90, 10, None, SnapshotId(50, 3)), 18),
    (REQUESTS[4][0], ms.FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, ms.Leadership(-1, 8)), 18),
    (REQUESTS[6][0], ms.FetchSnapshotResponse(ErrorCode.NONE, LEADER, SnapshotId(50, 3), 9000, 4096, 5), 1),
    (REQUESTS[8][0], ms.VoterChangeResponse(ErrorCode.DUPLICATE_VOTER, "a voter already"), 1),
    (REQUESTS[10][0], ms.VoterChangeResponse(), 0),
    (REQUESTS[11][0], ms.UpdateRaftVoterResponse(ErrorCode.NONE, LEADER), 0),
    (REQUESTS[11][0], ms.UpdateRaftVoterResponse(ErrorCode.VOTER_NOT_FOUND, ms.Leadership(-1, 9)), 0),
]


def on_the_wire(message: Any, version: int) -> Any:
    """The message as the other side reads it."""
    assert isinstance(message, Message)
    return decode(type(message), version, encode(message, version))


def sent(request: ms.Request, version: int) -> Any:
    return on_the_wire(ask(request, ADDRESS, 1 << 20, 2000), version)


@pytest.mark.parametrize(("request_", "version"), REQUESTS)
def test_requests_come_back_from_the_wire(request_: ms.InboundRequest, version: int) -> None:
    assert accept(sent(request_, version), version, ADDRESS) == request_


@pytest.mark.parametrize(("request_", "response", "version"), RESPONSES)
def test_responses_come_back_from_the_wire(request_: ms.InboundRequest, response: ms.Response, version: int) -> None:
    payload = b"12345" if isinstance(response, ms.FetchResponse | ms.FetchSnapshotResponse) else b""
    message = ask(request_, ADDRESS, 1 << 20, 2000)
    arrived = on_the_wire(respond(message, response, version, "CONTROLLER", payload), version)
    assert read(request_, arrived, ADDRESS) == response
    if isinstance(arrived, fetch.FetchResponse):
        assert fetched_records(arrived) == payload
    elif isinstance(arrived, fetch_snapshot.FetchSnapshotResponse):
        assert fetched_chunk(arrived) == payload


def test_old_versions_lack_fields() -> None:
    """What a version does not have gets the default, and is left out of responses."""
    begin = sent(REQUESTS[2][0], 0)
    assert accept(begin, 0, ADDRESS) == ms.BeginQuorumEpochRequest(7, 1, None, ())
    end = sent(REQUESTS[3][0], 0)
    assert accept(end, 0, ADDRESS) == ms.EndQuorumEpochRequest(7, 1, (ReplicaKey(2), ReplicaKey(3)), ())
    first_vote = sent(REQUESTS[1][0], 0)
    assert accept(first_vote, 0, ADDRESS) == ms.VoteRequest(7, ReplicaKey(1), None, 6, 100, False)
    arrived = on_the_wire(respond(first_vote, ms.VoteResponse(ErrorCode.NONE, LEADER), 0, "CONTROLLER"), 0)
    assert read(REQUESTS[0][0], arrived, ADDRESS) == ms.VoteResponse(ErrorCode.NONE, ms.Leadership(1, 7))


@pytest.mark.parametrize("version", range(4, 13))
def test_fetch_without_a_topic_id_is_refused_as_in_kafka(version: int) -> None:
    topic = fetch.FetchTopic(topic="__cluster_metadata", partitions=[fetch.FetchPartition(partition_max_bytes=1000)])
    message = fetch.FetchRequest(max_wait_ms=500, replica_id=2, topics=[topic])
    with pytest.raises(RefusedRequestError) as refused:
        accept(on_the_wire(message, version), version, ADDRESS)
    assert refused.value.response.error_code == ErrorCode.INVALID_REQUEST  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", range(13, 19))
def test_fetch_in_every_version_with_topic_ids(version: int) -> None:
    partition = fetch.FetchPartition(
        fetch_offset=100, partition_max_bytes=1000, current_leader_epoch=7, last_fetched_epoch=6
    )
    topic = fetch.FetchTopic(topic="__cluster_metadata", topic_id=bytes(15) + b"\x01", partitions=[partition])
    message = fetch.FetchRequest(max_wait_ms=500, max_bytes=2000, topics=[topic])
    if version >= 15:
        message.replica_state = fetch.ReplicaState(replica_id=2)
    else:
        message.replica_id = 2
    arrived = on_the_wire(message, version)
    value = accept(arrived, version, ADDRESS)
    assert isinstance(value, ms.FetchRequest)
    assert value.replica.node_id == 2
    assert (value.offset, value.max_wait_ms) == (100, 500)
    assert value.epoch == 7
    assert value.high_watermark == ms.UNKNOWN_HIGH_WATERMARK
    assert max_bytes_of(arrived) == 1000
    response = ms.FetchResponse(ErrorCode.NONE, LEADER, 90, 10)
    answer = on_the_wire(respond(arrived, response, version, "OTHER", b"xyz"), version)
    assert bytes(answer.responses[0].partitions[0].records) == b"xyz"
    assert bool(answer.node_endpoints) == (version >= 17)


FOREIGN = "of another cluster"


@pytest.mark.parametrize(("request_", "version"), REQUESTS)
def test_another_cluster_is_refused(request_: ms.InboundRequest, version: int) -> None:
    message = sent(request_, version)
    message.cluster_id = FOREIGN
    with pytest.raises(RefusedRequestError) as refused:
        accept(message, version, ADDRESS)
    assert refused.value.response.error_code == 104  # type: ignore[attr-defined]
    on_the_wire(refused.value.response, version)
    message.cluster_id = None
    assert accept(message, version, ADDRESS) == request_


@pytest.mark.parametrize(("request_", "version"), [each for each in REQUESTS[:8] if each[1]])
@pytest.mark.parametrize("damage", ["no topic", "two topics", "no partition", "two partitions", "name", "index"])
def test_only_the_metadata_partition_is_accepted(request_: ms.InboundRequest, version: int, damage: str) -> None:
    message = sent(request_, version)
    (topic,) = message.topics
    if damage == "no topic":
        message.topics = []
    elif damage == "two topics":
        message.topics = [topic, topic]
    elif damage == "no partition":
        topic.partitions = []
    elif damage == "two partitions":
        topic.partitions *= 2
    elif damage == "name":
        for name in ("topic_name", "name", "topic"):
            if name in type(topic).__slots__:
                setattr(topic, name, "orders")
        if "topic_id" in type(topic).__slots__:
            topic.topic_id = bytes(16)
    else:
        field = "partition_index" if "partition_index" in type(topic.partitions[0]).__slots__ else "partition"
        setattr(topic.partitions[0], field, 1)
    with pytest.raises(RefusedRequestError) as refused:
        accept(message, version, ADDRESS)
    response = on_the_wire(refused.value.response, version)
    is_partition_error = isinstance(response, fetch_snapshot.FetchSnapshotResponse) and damage in ("name", "index")
    if is_partition_error:
        assert response.topics[0].partitions[0].error_code == 3
    else:
        assert response.error_code == 42


def test_responses_about_something_else_are_refused() -> None:
    with pytest.raises(InvalidDataError):
        read(REQUESTS[0][0], vote.VoteResponse(), ADDRESS)
    with pytest.raises(InvalidDataError):
        read(REQUESTS[2][0], begin_quorum_epoch.BeginQuorumEpochResponse(), ADDRESS)
    with pytest.raises(InvalidDataError):
        read(REQUESTS[4][0], fetch.FetchResponse(), ADDRESS)
    refused = end_quorum_epoch.EndQuorumEpochResponse(error_code=104)
    assert read(REQUESTS[3][0], refused, ADDRESS) == ms.EndQuorumEpochResponse(104)
    assert fetched_records(fetch.FetchResponse(error_code=104)) == b""


@pytest.mark.parametrize("port", [-1, 0, 2**16])
def test_an_impossible_port_of_a_leader_is_no_endpoint(port: int) -> None:
    """Fetch has 32 bits for it. Other responses, in which this node would name the leader, have 16."""
    request, response, version = RESPONSES[4]
    message = respond(ask(request, ADDRESS, 0, 0), response, version, "CONTROLLER")
    assert isinstance(message, fetch.FetchResponse)
    message.node_endpoints[0].port = port
    assert read(request, message, ADDRESS).leadership == LEADER._replace(endpoints=())


def test_the_versions_of_a_new_voter() -> None:
    request = ms.KRaftVersionsRequest()
    assert ask(request, ADDRESS, 0, 0).KEY == 18
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    found = read(request, ApiVersionsResponse(supported_features=[feature]), ADDRESS)
    assert found == ms.KRaftVersionsResponse(0, 0, 1)
    assert read(request, ApiVersionsResponse(error_code=35), ADDRESS) == ms.KRaftVersionsResponse(35, 0, 0)
