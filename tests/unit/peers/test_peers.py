"""Requests to other nodes on a scripted network: how each can end, and how connections come and go."""

from __future__ import annotations

import struct

import pytest

from support.peers.scripted_network import A, B, PeerWorld, ScriptedStream
from tailrace.config.voters import Address
from tailrace.env import CloseReason
from tailrace.model.invariant import InvariantError
from tailrace.peers import PeerFailure, ProbeOutcome, ProbeResult
from tailrace.protocol.message import Response
from tailrace.protocol.messages.api_versions import ApiVersionsResponse
from tailrace.protocol.messages.fetch import FetchRequest, FetchResponse
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.protocol.messages.vote import VoteRequest, VoteResponse

REFUSED, UNREACHABLE = CloseReason.REFUSED, CloseReason.UNREACHABLE
CLOSED, RESET = CloseReason.CLOSED, CloseReason.RESET


def connected(world: PeerWorld) -> ScriptedStream:
    """After a first request and its response."""
    world.send("first", VoteRequest())
    stream = world.network.last.agree()
    stream.request()
    stream.respond(VoteResponse())
    assert world.results.pop("first") == VoteResponse()
    return stream


# Responses


def test_a_request_connects_agrees_on_versions_and_gets_its_response() -> None:
    world = PeerWorld()
    world.send("vote", VoteRequest(cluster_id="c"))
    (stream,) = world.network.streams
    assert (stream.address, stream.timeout_ms) == (A, 10_000)
    assert not world.peers.is_connected(A)
    stream.agree()
    assert world.peers.is_connected(A)
    assert stream.request() == VoteRequest(cluster_id="c")
    assert (stream.headers[0].request_api_version, stream.headers[0].client_id) == (2, "test")
    stream.respond(VoteResponse(error_code=74))
    assert world.results == {"vote": VoteResponse(error_code=74)}
    assert world.kinds == ["CONNECTED"]
    world.send("again", VoteRequest())
    stream.request()
    stream.respond(VoteResponse())
    assert world.results["again"] == VoteResponse()
    assert len(world.network.streams) == 1


def test_nodes_have_separate_connections() -> None:
    world = PeerWorld()
    world.send("a", VoteRequest())
    world.send("b", VoteRequest(), address=B)
    assert [stream.address for stream in world.network.streams] == [A, B]
    world.network.streams[0].end(REFUSED)
    stream = world.network.streams[1].agree()
    stream.request()
    stream.respond(VoteResponse())
    assert world.failure("a") == ("REFUSED", False)
    assert world.results["b"] == VoteResponse()


def test_requests_are_sent_in_order_as_far_as_the_limit_allows() -> None:
    world = PeerWorld(max_in_flight=2)
    for number in range(4):
        world.send(number, FetchRequest(max_wait_ms=number))
    stream = world.network.last.agree()
    requests = stream.requests()
    assert [request.max_wait_ms for request in requests if isinstance(request, FetchRequest)] == [0, 1]
    stream.respond(FetchResponse(throttle_time_ms=0))
    assert stream.request() == FetchRequest(max_wait_ms=2)
    stream.respond(FetchResponse(throttle_time_ms=1))
    stream.request()
    stream.respond(FetchResponse(throttle_time_ms=2))
    stream.respond(FetchResponse(throttle_time_ms=3))
    assert [world.results[number] for number in range(4)] == [FetchResponse(throttle_time_ms=at) for at in range(4)]


def test_a_version_may_be_given() -> None:
    world = PeerWorld()
    world.send("old", FetchRequest(), version=12)
    stream = world.network.last.agree()
    stream.request()
    assert stream.headers[0].request_api_version == 12


def test_without_discovery_the_first_bytes_are_the_request() -> None:
    world = PeerWorld(discovers=False)
    world.send("fetch", FetchRequest(), version=17)
    stream = world.network.last.accept()
    assert stream.request() == FetchRequest()
    assert stream.headers[0].request_api_version == 17
    stream.respond(FetchResponse())
    assert world.results["fetch"] == FetchResponse()
    with pytest.raises(InvariantError, match="gives its version"):
        world.send("none", FetchRequest())


# Failures


@pytest.mark.parametrize("reason", [REFUSED, UNREACHABLE])
def test_requests_fail_with_the_attempt_to_connect(reason: CloseReason) -> None:
    world = PeerWorld()
    world.send("one", VoteRequest())
    world.send("two", VoteRequest())
    world.network.last.end(reason)
    assert world.failure("one") == world.failure("two") == (reason.name, False)
    assert world.kinds == [reason.name]
    assert str(world.results["one"]) == f"a.example:9093: {reason.value} before the request was sent: scripted"


@pytest.mark.parametrize("reason", [CLOSED, RESET])
def test_requests_fail_if_the_connection_ends_before_versions_are_known(reason: CloseReason) -> None:
    world = PeerWorld()
    world.send("vote", VoteRequest())
    world.network.last.accept().end(reason)
    assert world.failure("vote") == ("DISCONNECTED", False)
    assert world.kinds == ["CONNECTED", reason.name]


@pytest.mark.parametrize("reason", [CLOSED, RESET, UNREACHABLE])
def test_a_lost_connection_fails_what_was_sent_and_keeps_what_waits(reason: CloseReason) -> None:
    world = PeerWorld(max_in_flight=2)
    for name in ("one", "two", "three"):
        world.send(name, VoteRequest())
    stream = world.network.last.agree()
    assert len(stream.requests()) == 2
    stream.end(reason)
    assert world.failure("one") == world.failure("two") == ("DISCONNECTED", True)
    assert "three" not in world.results
    assert not world.peers.is_connected(A)
    world.pass_time(100)
    stream = world.network.last.agree()
    stream.request()
    stream.respond(VoteResponse())
    assert world.results["three"] == VoteResponse()
    assert world.kinds == ["CONNECTED", reason.name, "CONNECTED"]


def test_a_node_that_accepts_and_never_responds() -> None:
    world = PeerWorld(connect_timeout_ms=5_000)
    world.send("vote", VoteRequest(), timeout_ms=2_000)
    stream = world.network.last.accept()
    world.pass_time(1_999)
    assert world.results == {}
    world.pass_time(1)
    assert world.failure("vote") == ("TIMEOUT", False)
    assert world.kinds == ["CONNECTED"]
    world.send("late", VoteRequest(), timeout_ms=60_000)
    world.pass_time(3_000)
    assert world.failure("late") == ("TIMEOUT", False)  # negotiation has its own time
    assert world.kinds == ["CONNECTED", "DROPPED"]
    assert stream.is_closed


def test_the_time_for_versions_begins_with_the_connection() -> None:
    world = PeerWorld(connect_timeout_ms=5_000)
    world.send("vote", VoteRequest(), timeout_ms=60_000)
    world.pass_time(4_000)
    stream = world.network.last.accept()
    world.pass_time(4_999)
    assert not stream.is_closed
    world.pass_time(1)
    assert stream.is_closed
    assert world.failure("vote") == ("TIMEOUT", False)


def test_a_response_that_does_not_arrive_drops_the_connection() -> None:
    world = PeerWorld(max_in_flight=3)
    stream = connected(world)
    world.send("slow", FetchRequest(), timeout_ms=3_000)
    world.send("fast", VoteRequest(), timeout_ms=500)
    world.pass_time(499)
    assert world.results == {}
    world.pass_time(1)
    assert world.failure("fast") == ("TIMEOUT", True)
    assert world.failure("slow") == ("DISCONNECTED", True)
    assert stream.is_closed
    assert world.kinds == ["CONNECTED", "DROPPED"]
    assert world.events[-1].detail == "it has not responded to Vote in time"


def test_a_request_that_waits_for_earlier_ones_has_its_deadline() -> None:
    world = PeerWorld()
    stream = connected(world)
    world.send("poll", FetchRequest(), timeout_ms=3_000)
    world.send("vote", VoteRequest(), timeout_ms=100)
    world.pass_time(100)
    assert world.failure("vote") == ("TIMEOUT", False)
    stream.request()
    stream.respond(FetchResponse())
    assert world.results["poll"] == FetchResponse()
    assert not stream.is_closed


def test_an_unsupported_version_costs_only_its_request() -> None:
    world = PeerWorld()
    world.send("produce", ProduceRequest())
    world.send("vote", VoteRequest())
    stream = world.network.last.agree()
    assert world.failure("produce") == ("UNSUPPORTED_VERSION", False)
    assert isinstance(stream.request(), VoteRequest)
    world.send("again", ProduceRequest())
    world.send("metadata", MetadataRequest(), version=99)
    world.send("fetch", FetchRequest(max_wait_ms=1 << 40))
    stream.respond(VoteResponse())
    assert world.failure("again") == ("UNSUPPORTED_VERSION", False)
    assert world.failure("metadata") == ("UNSUPPORTED_VERSION", False)
    assert world.failure("fetch") == ("NOT_ENCODABLE", False)
    assert not stream.is_closed


def test_a_request_that_fails_at_once_is_reported_by_a_job() -> None:
    world = PeerWorld()
    connected(world)
    world.send("produce", ProduceRequest())
    assert world.results == {}
    world.pass_time(0)
    assert world.failure("produce") == ("UNSUPPORTED_VERSION", False)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        struct.pack(">i", -1),
        struct.pack(">i", 4_097),
        struct.pack(">ii", 8, 2) + b"\xff" * 4,
        struct.pack(">iihih", 12, 99, 0, 0, 0),
    ],
)
def test_garbage_drops_the_connection(data: bytes) -> None:
    world = PeerWorld(max_in_flight=2, max_response_bytes=4_096)
    stream = connected(world)
    for name in ("one", "two", "three"):
        world.send(name, VoteRequest())
    stream.feed(data)
    assert world.failure("one") == ("BAD_RESPONSE", True)
    assert world.failure("two") == ("DISCONNECTED", True)
    assert stream.is_closed
    assert world.kinds == ["CONNECTED", "DROPPED"]
    world.pass_time(100)
    world.network.last.agree()
    assert "three" not in world.results


def test_bytes_without_a_request_drop_the_connection() -> None:
    world = PeerWorld()
    stream = connected(world)
    stream.feed(b"\0")
    assert stream.is_closed
    assert world.kinds == ["CONNECTED", "DROPPED"]


@pytest.mark.parametrize("response", [ApiVersionsResponse(error_code=58), None])
def test_a_node_that_does_not_negotiate(response: ApiVersionsResponse | None) -> None:
    world = PeerWorld()
    world.send("vote", VoteRequest())
    stream = world.network.last.accept()
    stream.request()
    if response is None:
        stream.feed(b"220 mail.example ESMTP\r\n")
    else:
        stream.respond(response)
    assert world.failure("vote") == ("BAD_RESPONSE", False)
    assert stream.is_closed


def test_an_older_node_is_asked_for_its_versions_again() -> None:
    world = PeerWorld()
    world.send("vote", VoteRequest())
    stream = world.network.last.accept()
    stream.request()
    stream.respond(ApiVersionsResponse(error_code=35), version=0)
    assert stream.request().KEY == 18
    assert stream.headers[0].request_api_version == 0


def test_the_queue_of_a_node_is_bounded() -> None:
    world = PeerWorld(max_queued=3)
    for number in range(5):
        world.send(number, VoteRequest())
    world.send("b", VoteRequest(), address=B)
    world.pass_time(0)
    assert world.failure(3) == world.failure(4) == ("QUEUE_FULL", False)
    assert set(world.results) == {3, 4}


def test_what_ends_a_connection_is_logged_with_the_next_step_but_not_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    world = PeerWorld()
    for attempt in range(3):
        world.send(attempt, VoteRequest(), timeout_ms=60_000)
        world.pass_time(200)
        world.network.last.accept().feed(b"HTTP/1.1")
    assert [(record.levelname, record.getMessage().split(":")[0]) for record in caplog.records] == [
        ("WARNING", "connection dropped address=a.example")
    ]
    assert "next step: check that the address is a listener" in caplog.text
    world.pass_time(60_000)
    connected(world).end()
    assert caplog.records[-1].getMessage() == "closed by the other side address=a.example:9093: scripted"
    assert len(caplog.records) == 2


# Reconnecting


def attempts(world: PeerWorld, count: int) -> list[int]:
    """The times between attempts to connect while requests keep coming and all are refused."""
    waits = []
    for number in range(count):
        world.send(("attempt", number), VoteRequest(), timeout_ms=60_000)
        began_ms, streams = world.world.clock.monotonic_ms(), len(world.network.streams)
        while not world.network.open:
            world.pass_time(1)
        waits.append(world.world.clock.monotonic_ms() - began_ms)
        assert len(world.network.streams) <= streams + 1
        world.network.last.end(REFUSED)
        assert world.failure(("attempt", number)) == ("REFUSED", False)
    return waits


def test_attempts_to_connect_back_off_exponentially_with_jitter() -> None:
    waits = attempts(PeerWorld(), 9)
    assert waits[0] == 0
    for wait_ms, base_ms in zip(waits[1:6], (50, 100, 200, 400, 800), strict=True):
        assert 0.8 * base_ms <= wait_ms <= 1.2 * base_ms
    assert all(800 <= wait_ms <= 1_000 for wait_ms in waits[6:])
    assert waits != attempts(PeerWorld(seed=1), 9)


def test_the_backoff_is_a_setting() -> None:
    waits = attempts(PeerWorld(reconnect_backoff_ms=20, reconnect_backoff_max_ms=20), 4)
    assert all(16 <= wait_ms <= 20 for wait_ms in waits[1:])


def test_a_response_resets_the_backoff() -> None:
    world = PeerWorld()
    attempts(world, 6)
    world.pass_time(1_000)
    connected(world).end()
    world.send("next", VoteRequest())
    world.pass_time(60)
    assert len(world.network.open) == 1


def test_a_node_that_accepts_and_closes_is_backed_off_from() -> None:
    world = PeerWorld(discovers=False)
    for number in range(6):
        world.send(number, FetchRequest(), timeout_ms=60_000, version=17)
        while not world.network.open:
            world.pass_time(1)
        world.network.last.accept().end()
        assert world.failure(number) == ("DISCONNECTED", True)
    began_ms = world.world.clock.monotonic_ms()
    world.send("last", FetchRequest(), timeout_ms=60_000, version=17)
    while not world.network.open:
        world.pass_time(1)
    assert world.world.clock.monotonic_ms() - began_ms >= 800


def test_a_request_may_time_out_during_the_backoff() -> None:
    world = PeerWorld()
    attempts(world, 6)
    world.send("vote", VoteRequest(), timeout_ms=100)
    world.pass_time(100)
    assert world.failure("vote") == ("TIMEOUT", False)
    world.pass_time(2_000)
    assert not world.network.open  # no request waits


# Idle connections, timers


def test_an_idle_connection_is_closed_and_forgotten() -> None:
    world = PeerWorld(idle_ms=10_000)
    stream = connected(world)
    world.pass_time(6_000)
    world.send("vote", VoteRequest())
    world.pass_time(1_000)
    stream.request()
    stream.respond(VoteResponse())
    world.pass_time(9_999)
    assert not stream.is_closed
    world.pass_time(1)
    assert stream.is_closed
    assert world.kinds == ["CONNECTED", "DROPPED"]
    assert world.events[-1].detail == "idle"
    assert world.peers._links == {}
    connected(world)


def test_a_node_that_nothing_was_sent_to_for_long_is_not_idle_when_a_request_times_out() -> None:
    """Forgetting it would forget its backoff."""
    world = PeerWorld(idle_ms=10_000)
    attempts(world, 6)
    world.send("vote", VoteRequest(), timeout_ms=100)
    world.pass_time(100)
    assert list(world.peers._links) == [A]
    world.pass_time(9_800)
    assert list(world.peers._links) == [A]
    world.pass_time(100)
    assert world.peers._links == {}


def test_a_long_poll_is_not_idle() -> None:
    world = PeerWorld(idle_ms=1_000)
    stream = connected(world)
    world.send("poll", FetchRequest(), timeout_ms=30_000)
    world.pass_time(29_000)
    assert not stream.is_closed
    stream.request()
    stream.respond(FetchResponse())
    assert world.results["poll"] == FetchResponse()


def test_a_node_that_is_gone_is_forgotten() -> None:
    world = PeerWorld(idle_ms=10_000)
    for number in range(20):
        world.send(number, VoteRequest(), address=Address(f"host-{number}", 1))
        world.network.last.end(REFUSED)
    world.pass_time(10_000)
    assert world.peers._links == {}
    world.pass_time(60_000)
    assert world.world.jobs.waiting == []


def test_timers_do_not_accumulate() -> None:
    world = PeerWorld()
    stream = connected(world)
    for number in range(300):
        world.send(number, VoteRequest(), timeout_ms=2_000)
        stream.request()
        stream.respond(VoteResponse())
        world.pass_time(10)
        assert len(world.world.jobs.waiting) <= 3


# Callbacks


def test_a_callback_may_send_and_close() -> None:
    world = PeerWorld()
    results: list[Response | PeerFailure] = []

    def repeat(result: Response | PeerFailure) -> None:
        results.append(result)
        if len(results) < 3:
            world.peers.send(A, VoteRequest(), repeat, 1_000)
        else:
            world.peers.close()

    world.peers.send(A, VoteRequest(), repeat, 1_000)
    stream = world.network.last.agree()
    for _ in range(3):
        stream.request()
        stream.respond(VoteResponse())
    assert results == [VoteResponse()] * 3
    assert stream.is_closed


def test_a_callback_that_repeats_a_failing_request_does_not_keep_the_thread() -> None:
    world = PeerWorld()
    stream = connected(world)
    failures = []

    def repeat(result: Response | PeerFailure) -> None:
        failures.append(result)
        if len(failures) < 1_000:
            world.peers.send(A, ProduceRequest(), repeat, 1_000)

    world.send("vote", VoteRequest())
    world.peers.send(A, ProduceRequest(), repeat, 1_000)
    stream.request()
    stream.respond(VoteResponse())
    assert len(failures) == 1
    assert [name for name, _ in world.world.jobs.waiting].count("peer-callbacks") == 1
    world.pass_time(0)
    assert len(failures) == 1_000
    assert set(world.results) == {"vote"}


def test_failures_of_several_requests_take_one_job() -> None:
    world = PeerWorld()
    connected(world)
    for number in range(5):
        world.send(number, ProduceRequest())
    assert [name for name, _ in world.world.jobs.waiting].count("peer-callbacks") == 1
    world.pass_time(0)
    assert len(world.results) == 5


def test_events_come_before_the_failures_that_they_cause() -> None:
    world = PeerWorld()
    order: list[str] = []
    world.peers.on_event.add(lambda event: order.append(event.kind.name))
    world.peers.send(A, VoteRequest(), lambda _: order.append("done"), 1_000)
    world.network.last.end(REFUSED)
    assert order == ["REFUSED", "done"]


def test_the_end_fails_everything_once() -> None:
    world = PeerWorld()
    connected(world)
    world.send("sent", VoteRequest())
    world.send("waits", VoteRequest())
    world.send("other", VoteRequest(), address=B)
    world.peers.probe(B, 1_000, world.probes.append)
    world.peers.close()
    assert world.failure("sent") == ("CLOSED", True)
    assert world.failure("waits") == world.failure("other") == ("CLOSED", False)
    assert [result.outcome for result in world.probes] == [ProbeOutcome.UNREACHABLE]
    assert world.network.open == []
    assert not world.peers.is_connected(A)
    world.peers.probe(A, 1_000, world.probes.append)
    assert len(world.probes) == 1
    world.pass_time(0)
    world.send("late", VoteRequest())
    world.pass_time(60_000)
    assert world.failure("late") == ("CLOSED", False)
    assert [result.outcome for result in world.probes] == [ProbeOutcome.UNREACHABLE] * 2
    assert len(world.network.streams) == 3


# Probes


def test_a_probe_connects_and_closes() -> None:
    world = PeerWorld()
    connected(world)
    for _ in range(3):
        world.peers.probe(A, 250, world.probes.append)
    assert [(stream.address, stream.timeout_ms) for stream in world.network.streams[1:]] == [(A, 250)] * 3
    accepted, refused, unreachable = world.network.streams[1:]
    accepted.accept()
    assert accepted.is_closed
    refused.end(REFUSED)
    unreachable.end(UNREACHABLE)
    assert world.probes == [
        ProbeResult(A, ProbeOutcome.ACCEPTED, ""),
        ProbeResult(A, ProbeOutcome.REFUSED, "scripted"),
        ProbeResult(A, ProbeOutcome.UNREACHABLE, "scripted"),
    ]
    assert world.peers.is_connected(A)
    assert world.kinds == ["CONNECTED"]


def test_a_probe_does_not_wait_for_the_backoff() -> None:
    world = PeerWorld()
    attempts(world, 6)
    world.peers.probe(A, 250, world.probes.append)
    world.network.last.end(REFUSED)
    assert [result.outcome for result in world.probes] == [ProbeOutcome.REFUSED]
