"""Requests to an active controller in another process: channels, retries, timeouts, envelopes."""

from __future__ import annotations

import random

import pytest

from suite.seeds import parametrized_seeds
from support.brokers.remote_controllers import (
    FIRST,
    SECOND,
    LinkWorld,
    enveloped,
    versions,
)
from support.brokers.stub import StubController
from tailrace.broker.controller_channel import MAX_QUEUED, MAX_QUEUED_BYTES, SUPERSEDED_MS
from tailrace.env import CloseReason
from tailrace.protocol.apis import APIS
from tailrace.protocol.message import Request
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tailrace.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tailrace.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from tailrace.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from tailrace.protocol.messages.controller_registration import ControllerRegistrationRequest
from tailrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from tailrace.protocol.messages.envelope import EnvelopeRequest
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

NOT_LEADER, TIMED_OUT, UNSUPPORTED_VERSION, NOT_CONTROLLER, INVALID_REQUEST = 6, 7, 35, 41, 42
OWN: list[tuple[type[Request], int | None]] = [
    (BrokerRegistrationRequest, 4_500),
    (BrokerHeartbeatRequest, 4_500),
    (ControllerRegistrationRequest, 5_000),
    (AllocateProducerIdsRequest, 60_000),
    (AssignReplicasToDirsRequest, 60_000),
    (AlterPartitionRequest, None),
]
"""With the time after which the link gives up."""


def topics(name: str = "t") -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def created(name: str = "t", code: int = 0) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=name, error_code=code)])


def elected(**settings: str) -> LinkWorld:
    world = LinkWorld(**settings)
    world.quorum.elect(7, 1, FIRST)
    return world


# Requests of this node


@pytest.mark.parametrize("kind", [kind for kind, _ in OWN])
def test_a_request_of_this_node_goes_as_it_is_in_the_highest_common_version(kind: type[Request]) -> None:
    world, api = elected(), APIS[kind.KEY]
    world.send("a", kind(), api.last_version)
    stream = world.connected()
    assert stream.request() == kind()
    assert (stream.headers[0].request_api_version, stream.headers[0].client_id) == (api.last_version, "1")
    stream.respond(api.response())
    assert world.results == {"a": api.response()}


def test_an_older_controller_gets_an_older_version() -> None:
    world = elected()
    world.send("a", BrokerHeartbeatRequest(broker_id=1), 2)
    stream = world.network.last.agree(versions(BrokerHeartbeat=1))
    assert stream.request() == BrokerHeartbeatRequest(broker_id=1)
    assert stream.headers[0].request_api_version == 1


def test_a_controller_without_the_api_is_reported() -> None:
    world = elected()
    world.send("a", AllocateProducerIdsRequest())
    world.network.last.agree(versions(without=[67]))
    assert world.results["a"].error_code == UNSUPPORTED_VERSION


def test_each_purpose_has_a_connection() -> None:
    world = elected()
    for name, (kind, _) in enumerate(OWN):
        world.send(name, kind())
    world.forward("client", topics(), 7)
    sent = [{type(each) for each in stream.agree(versions()).requests()} for stream in world.network.streams]
    assert sent == [  # the second request of a channel waits for the first
        {BrokerRegistrationRequest},
        {ControllerRegistrationRequest},
        {AllocateProducerIdsRequest},
        {AssignReplicasToDirsRequest},
        {AlterPartitionRequest},
    ]


def test_requests_of_a_channel_keep_their_order_one_at_a_time() -> None:
    world = elected()
    for number in range(3):
        world.send(number, UnregisterBrokerRequest(broker_id=number))
    stream = world.connected()
    for number in range(3):
        assert stream.request() == UnregisterBrokerRequest(broker_id=number)
        stream.respond(UnregisterBrokerResponse(error_code=number))
        assert world.results[number].error_code == number


# Without a controller


@pytest.mark.parametrize(("kind", "timeout_ms"), OWN)
def test_a_request_waits_for_a_controller_and_no_longer_than_its_channel_allows(
    kind: type[Request], timeout_ms: int | None
) -> None:
    world = LinkWorld()
    world.send("a", kind(), APIS[kind.KEY].last_version)
    world.pass_time((timeout_ms or 100_000_000) - 1)
    assert world.results == {}
    assert world.network.streams == []
    if timeout_ms is None:
        world.quorum.elect(7, 1, FIRST)
        assert world.connected().request() == kind()
    else:
        world.pass_time(1)
        assert world.results["a"] == APIS[kind.KEY].response(error_code=TIMED_OUT, **_message(kind, world))
        world.quorum.elect(7, 1, FIRST)
        assert world.network.streams == []


def _message(kind: type[Request], world: LinkWorld) -> dict[str, str]:
    """Whatever the response says beside the code."""
    found = getattr(world.results["a"], "error_message", None)
    return {} if found is None else {"error_message": found}


def test_waiting_requests_leave_when_the_controller_is_known() -> None:
    world = LinkWorld()
    world.forward("a", topics(), 7)
    world.send("b", BrokerHeartbeatRequest())
    world.pass_time(3_000)
    world.quorum.elect(7, 1, FIRST)
    assert len(world.network.open) == 2


def test_clients_get_timeouts_in_the_form_of_their_requests() -> None:
    world = LinkWorld()
    world.forward("topics", topics("x"), 7)
    world.forward("moves", AlterPartitionReassignmentsRequest(), 0)
    world.forward("quorum", DescribeQuorumRequest(), 2)
    world.pass_time(60_000)
    (row,) = world.results["topics"].topics
    assert (row.name, row.error_code) == ("x", TIMED_OUT)
    assert world.results["moves"].error_code == TIMED_OUT
    assert world.results["quorum"].error_code == TIMED_OUT


def test_the_number_of_waiting_requests_is_bounded() -> None:
    world = LinkWorld()
    for number in range(MAX_QUEUED + 2):
        world.forward(number, topics(), 7)
    assert sorted(world.results) == [MAX_QUEUED, MAX_QUEUED + 1]
    assert world.results[MAX_QUEUED].topics[0].error_code == TIMED_OUT
    world.pass_time(60_000)
    assert len(world.results) == MAX_QUEUED + 2
    world.forward("later", topics(), 7)
    assert "later" not in world.results


def test_the_bytes_of_waiting_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_QUEUED_BYTES >= 100 << 20, "a broker takes requests of 100 MB"
    monkeypatch.setattr("tailrace.broker.controller_channel.MAX_QUEUED_BYTES", 1000)
    world = LinkWorld()
    world.forward("large", topics("x" * 2000), 7)
    world.forward("small", topics(), 7)
    assert list(world.results) == ["small"]
    world.quorum.elect(7, 1, FIRST)
    for number in range(8):
        world.forward(number, topics("y" * 200), 7)
    assert sorted(map(str, world.results)) == ["4", "5", "6", "7", "small"]


def test_a_request_that_is_too_large_for_the_controller_listener_is_not_forwarded() -> None:
    world = elected(**{"socket.request.max.bytes": "5000"})
    world.forward("large", topics("x" * 4000), 7)
    world.forward("small", topics("y" * 3900), 7)
    assert [row.error_code for row in world.results["large"].topics] == [INVALID_REQUEST]
    forwarded = world.connected().request()
    assert isinstance(forwarded, EnvelopeRequest)
    assert 3_900 < len(forwarded.request_data) < 5_000
    assert "small" not in world.results


# Retries


def test_a_node_that_is_not_the_controller_is_asked_again_after_a_pause() -> None:
    world = elected()
    world.send("a", AllocateProducerIdsRequest(broker_id=1))
    stream = world.connected()
    for _ in range(3):
        assert stream.request() == AllocateProducerIdsRequest(broker_id=1)
        stream.respond(AllocateProducerIdsResponse(error_code=NOT_CONTROLLER))
        world.pass_time(49)
        assert stream.requests() == []
        world.pass_time(1)
    stream.request()
    stream.respond(AllocateProducerIdsResponse(producer_id_start=5))
    assert world.results["a"].producer_id_start == 5


def test_the_next_controller_is_asked_at_once() -> None:
    world = elected()
    world.send("a", BrokerHeartbeatRequest(broker_id=1))
    stream = world.connected()
    stream.request()
    stream.respond(BrokerHeartbeatResponse(error_code=NOT_CONTROLLER))
    world.quorum.lose()
    world.pass_time(200)
    assert stream.requests() == []
    world.quorum.elect(8, 2, SECOND)
    stream = world.connected(SECOND)
    assert stream.request() == BrokerHeartbeatRequest(broker_id=1)
    stream.respond(BrokerHeartbeatResponse(is_caught_up=True))
    assert world.results["a"].is_caught_up


@pytest.mark.parametrize("reason", list(CloseReason))
def test_a_request_survives_failed_connections(reason: CloseReason) -> None:
    world = elected()
    world.send("a", UnregisterBrokerRequest(broker_id=3))
    world.send("b", UnregisterBrokerRequest(broker_id=4))
    world.network.last.end(reason)
    world.pass_time(200)
    stream = world.connected()
    stream.request()
    stream.end(CloseReason.RESET)  # the request may have been decided
    world.pass_time(200)
    stream = world.connected()
    for number in (3, 4):
        assert stream.request() == UnregisterBrokerRequest(broker_id=number)
        stream.respond(UnregisterBrokerResponse())
    assert set(world.results) == {"a", "b"}


def test_attempts_end_with_the_time_of_the_request() -> None:
    world = elected()
    world.send("a", BrokerHeartbeatRequest())
    for _ in range(200):
        for stream in world.network.open:
            stream.end(CloseReason.REFUSED)
        world.pass_time(22)
    assert world.results == {}
    world.pass_time(200)
    assert world.results["a"].error_code == TIMED_OUT
    assert 40 < len(world.network.streams) < 120


def test_a_silent_controller_times_out() -> None:
    world = elected()
    world.send("a", BrokerHeartbeatRequest())
    world.connected().request()
    world.pass_time(4_499)
    assert world.results == {}
    world.pass_time(1)
    assert world.results["a"].error_code == TIMED_OUT
    assert world.network.open == []


def test_a_silent_controller_is_asked_again_after_the_request_timeout() -> None:
    world = elected(controller_socket_timeout_ms="1000")
    world.send("a", UnregisterBrokerRequest())
    for _ in range(3):
        world.connected().request()
        world.pass_time(1_200)
    assert world.results == {}


def test_a_superseded_controller_gets_a_moment_to_respond() -> None:
    world = elected()
    world.send("a", UnregisterBrokerRequest(broker_id=3))
    stream = world.connected()
    stream.request()
    world.quorum.elect(8, 2, SECOND)
    world.pass_time(SUPERSEDED_MS - 1)
    stream.respond(UnregisterBrokerResponse(error_code=102))
    assert world.results["a"].error_code == 102


def test_a_paused_controller_does_not_hold_up_requests_to_its_successor() -> None:
    world = elected()
    world.send("a", UnregisterBrokerRequest(broker_id=3))
    old = world.connected()
    old.request()
    world.quorum.elect(8, 2, SECOND)
    world.pass_time(SUPERSEDED_MS)
    assert old.is_closed
    stream = world.connected(SECOND)
    assert stream.request() == UnregisterBrokerRequest(broker_id=3)
    stream.respond(UnregisterBrokerResponse())
    assert world.results == {"a": UnregisterBrokerResponse()}


def test_garbage_ends_the_connection_and_not_the_request() -> None:
    world = elected()
    world.send("a", UnregisterBrokerRequest())
    stream = world.connected()
    stream.request()
    stream.feed(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert stream.is_closed
    assert world.results == {}
    world.pass_time(200)
    stream = world.connected()
    stream.request()
    stream.respond(UnregisterBrokerResponse())
    assert world.results == {"a": UnregisterBrokerResponse()}


def test_partition_changes_have_no_deadline() -> None:
    world = elected()
    world.send("a", AlterPartitionRequest(), 3)
    for _ in range(10):
        world.connected().request()
        world.pass_time(30_200)
    stream = world.connected()
    stream.request()
    stream.respond(AlterPartitionResponse())
    assert world.results == {"a": AlterPartitionResponse()}


# The controller of this process


def test_the_controller_of_this_process_is_asked_directly() -> None:
    local = StubController()
    world = LinkWorld(local=local)
    world.quorum.elect(1, 1, FIRST)
    world.send("own", BrokerHeartbeatRequest(), 2)
    world.forward("a", topics(), 7)
    world.forward("b", DescribeQuorumRequest(), 1)
    assert local.sent == [(BrokerHeartbeatRequest(), 2), (topics(), 7), (DescribeQuorumRequest(), 1)]
    for response in (BrokerHeartbeatResponse(), created(), DescribeQuorumResponse()):
        local.answer(response)
    assert world.results == {"own": BrokerHeartbeatResponse(), "a": created(), "b": DescribeQuorumResponse()}
    assert world.network.streams == []


def test_a_local_controller_that_resigns_hands_over_to_the_next() -> None:
    local = StubController()
    world = LinkWorld(local=local)
    world.quorum.elect(1, 1, FIRST)
    world.send("own", BrokerHeartbeatRequest(), 2)
    world.forward("a", DescribeQuorumRequest(), 2)
    local.answer(BrokerHeartbeatResponse(error_code=NOT_CONTROLLER))
    local.answer(DescribeQuorumResponse(error_code=NOT_LEADER))
    assert world.results == {}
    world.quorum.elect(8, 2, SECOND)
    forwarding, heartbeats = (stream.agree(versions()) for stream in world.network.streams)
    assert heartbeats.request() == BrokerHeartbeatRequest()
    forwarding.request()
    forwarding.respond(enveloped(DescribeQuorumResponse(error_message=None), 2))
    assert world.results["a"].error_code == 0


def test_a_local_controller_that_is_not_active_yet_is_asked_again() -> None:
    local = StubController()
    world = LinkWorld(local=local)
    world.quorum.elect(1, 1, FIRST)
    world.send("own", BrokerRegistrationRequest(), 4)
    for _ in range(3):
        local.answer(BrokerRegistrationResponse(error_code=NOT_CONTROLLER))
        world.pass_time(50)
    local.answer(BrokerRegistrationResponse(broker_epoch=9))
    assert world.results["own"].broker_epoch == 9
    assert len(local.sent) == 4


# The end


def test_closing_ends_every_request() -> None:
    world = elected()
    for number in range(3):
        world.send(number, UnregisterBrokerRequest())
    world.connected().request()
    world.link.close()
    world.send("later", UnregisterBrokerRequest())
    assert {name: each.error_code for name, each in world.results.items()} == dict.fromkeys(
        [0, 1, 2, "later"], TIMED_OUT
    )
    world.quorum.elect(8, 2, SECOND)
    world.pass_time(100_000)
    assert world.network.open == []


@parametrized_seeds(20, 10)
def test_each_request_ends_once_whatever_controllers_do(seed: int) -> None:
    rng, world = random.Random(seed), LinkWorld(seed)
    agreed: set[int] = set()
    for step in range(150):
        chance = rng.random()
        if chance < 0.3:
            kind = rng.choice([BrokerHeartbeatRequest, UnregisterBrokerRequest, AllocateProducerIdsRequest])
            world.send(step, kind())
        elif chance < 0.4:
            world.forward(step, DescribeQuorumRequest(), 2)
        elif chance < 0.6:
            world.pass_time(rng.choice([1, 20, 50, 600, 5_000]))
        elif chance < 0.65:
            world.quorum.elect(rng.choice([7, 8]), step, rng.choice([FIRST, SECOND]))
        elif chance < 0.67:
            world.quorum.lose()
        elif world.network.open:
            stream = rng.choice(world.network.open)
            if rng.random() < 0.2:
                stream.end(rng.choice(list(CloseReason)))
            elif id(stream) not in agreed:
                agreed.add(id(stream))
                stream.agree(versions())
            else:
                stream.requests()
                if stream.headers:
                    api = APIS[stream.headers[0].request_api_key]
                    code = rng.choice([0, NOT_CONTROLLER, 77])
                    stream.respond(api.response(error_code=code))
    world.quorum.lose()
    world.pass_time(61_000)
    assert len(world.results) == world.sent
