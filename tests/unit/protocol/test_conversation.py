"""The client's side of a connection as a state machine: no sockets, no clock."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.model.errors import UnencodableMessageError, UnsupportedVersionError
from tailrace.model.invariant import InvariantError
from tailrace.protocol import conversation as conversations
from tailrace.protocol.conversation import Conversation, Event, ResponseReceived, State, VersionsAgreed
from tailrace.protocol.conversation_errors import (
    ConversationError,
    CorrelationError,
    NegotiationError,
    ResponseFormatError,
    ResponseSizeError,
    ResponseTimeoutError,
)
from tailrace.protocol.frame import decode_request, decode_request_header, encode_response
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.protocol.peer_versions import PeerVersions
from tailrace.protocol.response_frames import ResponseFrames

METADATA, FETCH, API_VERSIONS = MetadataRequest.KEY, FetchRequest.KEY, ApiVersionsRequest.KEY
MAX_BYTES = 1 << 20
TRUSTED_BYTES = 64


def talk(max_bytes: int = MAX_BYTES, *, discovers: bool = True, **options: int) -> Conversation:
    frames = ResponseFrames(max_bytes, TRUSTED_BYTES)
    return Conversation("test", "the broker", frames, discovers=discovers, **options)


def sent(conversation: Conversation) -> list[tuple[RequestHeader, Request]]:
    """The requests in the output, decoded."""
    data = memoryview(b"".join(bytes(part) for part in conversation.take_output()))
    requests = []
    while data:
        size = int.from_bytes(data[:4], "big")
        frame, data = data[4 : 4 + size], data[4 + size :]
        header, position = decode_request_header(frame)
        requests.append((header, decode_request(header, frame, position)))
    return requests


def response(correlation_id: int, message: Response, version: int) -> bytes:
    header = RequestHeader(
        request_api_key=message.KEY, request_api_version=version, correlation_id=correlation_id, client_id="test"
    )
    return b"".join(bytes(part) for part in encode_response(header, message))


def versions(*ranges: tuple[int, int, int], error_code: int = 0) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=key, min_version=first, max_version=last) for key, first, last in ranges]
    return ApiVersionsResponse(error_code=error_code, api_keys=keys)


ALL = versions((METADATA, 0, 9), (FETCH, 4, 12), (0, 3, 9), (API_VERSIONS, 0, 4))


def ready(**options: int) -> Conversation:
    """Its next correlation id is 2."""
    conversation = talk(**options)
    conversation.begin()
    conversation.take_output()
    assert list(conversation.receive(response(1, ALL, 4))) == [VersionsAgreed(ALL)]
    return conversation


# Versions


def test_api_versions_is_asked_in_the_newest_version_and_its_ranges_are_used() -> None:
    conversation = talk()
    assert not conversation.can_send
    conversation.begin()
    ((header, request),) = sent(conversation)
    assert (header.request_api_key, header.request_api_version, header.client_id) == (API_VERSIONS, 4, "test")
    assert isinstance(request, ApiVersionsRequest)
    assert request.client_software_name == "tailrace"
    assert not conversation.can_send
    assert list(conversation.receive(response(1, ALL, 4))) == [VersionsAgreed(ALL)]
    assert conversation.can_send
    conversation.send(MetadataRequest())
    conversation.send(MetadataRequest(), newest=5)
    conversation.send(MetadataRequest(), 7)
    assert [header.request_api_version for header, _ in sent(conversation)] == [9, 5, 7]


@pytest.mark.parametrize(("theirs", "asked_again"), [(3, 3), (2, 2), (0, 0), (4, 3), (9, 3)])
def test_a_broker_that_refuses_the_version_is_asked_in_its_own(theirs: int, asked_again: int) -> None:
    conversation = talk()
    conversation.begin(deadline_ms=77)
    conversation.take_output()
    refusal = response(1, versions((API_VERSIONS, 0, theirs), error_code=35), 0)
    assert list(conversation.receive(refusal)) == []
    ((header, _),) = sent(conversation)
    assert (header.request_api_version, header.correlation_id) == (asked_again, 2)
    assert conversation.due_ms == 77
    agreed = versions((METADATA, 0, 1))
    assert list(conversation.receive(response(2, agreed, asked_again))) == [VersionsAgreed(agreed)]


def test_a_broker_that_names_no_version_is_asked_in_version_0() -> None:
    conversation = talk()
    conversation.begin()
    conversation.take_output()
    list(conversation.receive(response(1, versions(error_code=35), 0)))
    assert [header.request_api_version for header, _ in sent(conversation)] == [0]


def test_a_broker_that_refuses_every_version_ends_the_conversation() -> None:
    conversation = talk()
    conversation.begin()
    for correlation_id in range(1, 5):
        list(conversation.receive(response(correlation_id, versions((API_VERSIONS, 0, 9), error_code=35), 0)))
    with pytest.raises(NegotiationError, match="error code 35"):
        list(conversation.receive(response(5, versions((API_VERSIONS, 0, 9), error_code=35), 0)))
    assert [header.request_api_version for header, _ in sent(conversation)] == [4, 3, 2, 1, 0]
    assert conversation.state is State.BROKEN


def test_another_refusal_ends_the_conversation() -> None:
    conversation = talk()
    conversation.begin()
    with pytest.raises(NegotiationError) as caught:
        list(conversation.receive(response(1, versions(error_code=31), 4)))
    assert caught.value.error_code == 31
    assert not conversation.can_send


def test_without_discovery_the_caller_gives_the_version() -> None:
    conversation = talk(discovers=False)
    conversation.begin()
    assert conversation.take_output() == []
    conversation.send(FetchRequest(), 12)
    ((header, _),) = sent(conversation)
    assert (header.request_api_key, header.request_api_version, header.correlation_id) == (FETCH, 12, 1)
    assert list(conversation.receive(response(1, FetchResponse(), 12))) == [ResponseReceived(1, FetchResponse())]


@pytest.mark.parametrize("key", [22, METADATA])
def test_an_api_without_a_common_version_costs_only_the_request(key: int) -> None:
    conversation = talk()
    conversation.begin()
    conversation.take_output()
    list(conversation.receive(response(1, versions((METADATA, 90, 99), (FETCH, 4, 12)), 4)))
    assert conversation.versions is not None
    assert not conversation.versions.has_api(key)
    with pytest.raises(UnsupportedVersionError, match=r"but the broker (does not have it|has versions 90 to 99)"):
        conversation.versions.version_for(key)
    with pytest.raises(UnsupportedVersionError):
        conversation.send(MetadataRequest())
    assert (conversation.take_output(), conversation.in_flight) == ([], 0)
    assert conversation.send(FetchRequest()) == 2


@pytest.mark.parametrize(
    ("theirs", "newest", "version"),
    [
        ((0, 99), None, 18),
        ((18, 20), None, 18),
        ((19, 20), None, None),
        ((0, 4), None, 4),
        ((0, 3), None, None),
        ((0, 99), 7, 7),
        ((8, 99), 7, None),
        ((0, 99), 3, None),
        ((9, 5), None, None),
    ],
)
def test_the_version_of_fetch(theirs: tuple[int, int], newest: int | None, version: int | None) -> None:
    """Ours are 4 to 18."""
    known = PeerVersions(versions((FETCH, *theirs)), "the broker")
    if version is not None:
        assert known.version_for(FETCH, newest) == version
    else:
        with pytest.raises(UnsupportedVersionError, match=f"from 4 to {newest or 18}, but the broker has versions"):
            known.version_for(FETCH, newest)


def test_a_request_that_cannot_be_encoded_changes_nothing() -> None:
    conversation = ready()
    with pytest.raises(UnencodableMessageError):
        conversation.send(FetchRequest(max_wait_ms=1 << 40))
    with pytest.raises(UnsupportedVersionError):
        conversation.send(MetadataRequest(), 99)
    assert (conversation.take_output(), conversation.in_flight) == ([], 0)
    assert conversation.send(FetchRequest()) == 2


# Responses


def topics(*names: str) -> MetadataResponse:
    return MetadataResponse(topics=[MetadataResponseTopic(name=name) for name in names])


def three_responses() -> tuple[bytes, list[Event]]:
    records = bytes(range(200))  # more than is allocated at once
    fetched = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(partition_index=1, records=records)])]
    )
    messages: list[tuple[int, Response, int]] = [(2, topics("a"), 9), (3, fetched, 12), (4, topics("b", "c"), 9)]
    data = response(1, ALL, 4) + b"".join(response(*each) for each in messages)
    events: list[Event] = [VersionsAgreed(ALL)]
    return data, events + [ResponseReceived(each[0], each[1]) for each in messages]


def exchange(pieces: list[bytes]) -> list[Event]:
    conversation = talk()
    conversation.begin()
    events: list[Event] = []
    for piece in pieces:
        for event in conversation.receive(piece):
            events.append(event)
            if isinstance(event, VersionsAgreed):
                for request in (MetadataRequest(), FetchRequest(), MetadataRequest()):
                    conversation.send(request)
    assert conversation.in_flight == 0
    return events


def test_responses_may_be_split_at_every_byte() -> None:
    data, events = three_responses()
    assert exchange([data]) == events
    assert exchange([data[at : at + 1] for at in range(len(data))]) == events
    for at in range(len(data)):
        assert exchange([data[:at], data[at:]]) == events


@given(st.lists(st.integers(0, 700), max_size=12))
@settings(max_examples=examples(60))
def test_responses_may_be_split_anywhere(cuts: list[int]) -> None:
    data, events = three_responses()
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert exchange([data[first:end] for first, end in pairwise(bounds)]) == events


def test_a_response_does_not_share_memory_with_what_was_received() -> None:
    conversation = ready()
    conversation.send(FetchRequest())
    partition = PartitionData(records=b"0123456789" * 30)
    data = bytearray(
        response(2, FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])]), 12)
    )
    (event,) = conversation.receive(data)
    data[:] = bytes(len(data))
    assert isinstance(event, ResponseReceived)
    assert isinstance(event.response, FetchResponse)
    assert bytes(event.response.responses[0].partitions[0].records) == partition.records


def test_a_request_without_a_response_is_not_waited_for() -> None:
    conversation = ready()
    conversation.send(ProduceRequest(acks=0), is_answered=False)
    assert conversation.in_flight == 0
    conversation.send(MetadataRequest())
    assert list(conversation.receive(response(3, topics(), 9))) == [ResponseReceived(3, topics())]


def test_the_number_of_requests_in_flight_is_limited() -> None:
    conversation = ready(max_in_flight=2)
    conversation.send(MetadataRequest())
    conversation.send(MetadataRequest())
    assert not conversation.can_send
    with pytest.raises(InvariantError, match="2 in flight"):
        conversation.send(MetadataRequest())
    list(conversation.receive(response(2, topics(), 9)))
    assert conversation.can_send


def test_correlation_ids_wrap_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MAX_CORRELATION_ID", 3)
    conversation = ready()
    assert [conversation.send(MetadataRequest()) for _ in range(3)] == [2, 3, 1]


def broken_by(conversation: Conversation, data: bytes) -> None:
    """Receive without an event, and raise what ends the conversation."""
    try:
        assert list(conversation.receive(data)) == []
    finally:
        assert conversation.state is State.BROKEN
        assert not conversation.can_send


def test_a_response_to_another_request_breaks_the_conversation() -> None:
    conversation = ready()
    conversation.send(MetadataRequest())
    with pytest.raises(CorrelationError, match="request 7 instead of 2"):
        broken_by(conversation, response(7, topics(), 9))


@pytest.mark.parametrize("data", [b"\0", b"HTTP/1.1 400 Bad Request\r\n"])
def test_bytes_without_a_request_break_the_conversation(data: bytes) -> None:
    with pytest.raises(CorrelationError, match="without a request"):
        broken_by(ready(), data)
    with pytest.raises(CorrelationError, match="without a request"):
        broken_by(talk(), data)


def test_a_response_that_precedes_garbage_is_received() -> None:
    conversation = ready()
    conversation.send(MetadataRequest())
    events = conversation.receive(response(2, topics("a"), 9) + b"x")
    assert next(events) == ResponseReceived(2, topics("a"))
    with pytest.raises(CorrelationError):
        next(events)


@pytest.mark.parametrize("size", [-(1 << 31), -1, 0, 3, MAX_BYTES + 1, 0x7FFF_FFFF, int.from_bytes(b"HTTP", "big")])
def test_a_size_that_no_response_has_breaks_the_conversation(size: int) -> None:
    conversation = ready()
    conversation.send(MetadataRequest())
    with pytest.raises(ResponseSizeError, match=f"a response of {size} bytes"):
        broken_by(conversation, struct.pack(">i", size))


def test_truncated_and_trailing_bytes_break_the_conversation() -> None:
    whole = response(2, topics("a", "b"), 9)[4:]
    for size in range(4, len(whole)):
        conversation = ready()
        conversation.send(MetadataRequest())
        with pytest.raises(ResponseFormatError):
            broken_by(conversation, struct.pack(">i", size) + whole[:size])
    conversation = ready()
    conversation.send(MetadataRequest())
    with pytest.raises(ResponseFormatError, match="1 bytes follow it"):
        broken_by(conversation, struct.pack(">i", len(whole) + 1) + whole + b"\0")


def test_the_elements_of_a_response_are_limited() -> None:
    many = response(2, topics(*"abcdefgh"), 9)
    conversation = ready(max_elements=8)
    conversation.send(MetadataRequest())
    assert len(list(conversation.receive(many))) == 1
    conversation = ready(max_elements=7)
    conversation.send(MetadataRequest())
    with pytest.raises(ResponseFormatError, match="may have 7 more"):
        broken_by(conversation, many)


def test_memory_grows_with_what_arrives_and_not_with_what_is_announced() -> None:
    frames = ResponseFrames(1 << 30, TRUSTED_BYTES)
    frames.wanted()[:] = struct.pack(">i", 1 << 30)
    frames.filled(4)
    received = 0
    while received < 10_000:
        room = len(frames.wanted())
        assert 0 < room <= max(TRUSTED_BYTES, received)
        assert frames.filled(min(room, 50)) is None
        received += min(room, 50)


def test_frames_may_share_memory() -> None:
    frames = ResponseFrames(1 << 20, 1 << 20, reuses_memory=True)
    addresses = []
    for size in (500, 300, 500):
        frames.wanted()[:] = struct.pack(">i", size)
        assert frames.filled(4) is None
        frames.wanted()[:] = bytes(size)
        frame = frames.filled(size)
        assert frame is not None
        assert len(frame) == size
        addresses.append(frame.obj)
    assert addresses[0] is addresses[1] is addresses[2]


@given(st.lists(st.binary(max_size=40), max_size=10), st.booleans())
@settings(max_examples=examples(150))
def test_hostile_bytes_end_in_an_error_or_wait_for_more(pieces: list[bytes], is_ready: bool) -> None:
    conversation = ready() if is_ready else talk()
    if is_ready:
        conversation.send(MetadataRequest())
    else:
        conversation.begin()
    try:
        for piece in pieces:
            list(conversation.receive(piece))
    except ConversationError:
        assert conversation.state is State.BROKEN
    else:
        assert conversation.state is not State.BROKEN


@given(st.data())
@settings(max_examples=examples(150))
def test_damaged_responses_never_raise_anything_else(data: st.DataObject) -> None:
    whole = bytearray(three_responses()[0])
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    conversation = talk()
    conversation.begin()
    try:
        for event in conversation.receive(whole):
            if isinstance(event, VersionsAgreed):
                for request in (MetadataRequest(), FetchRequest(), MetadataRequest()):
                    conversation.send(request)
    except (ConversationError, UnsupportedVersionError):
        pass


# Time


def test_an_overdue_response_breaks_the_conversation() -> None:
    conversation = ready()
    assert conversation.due_ms is None
    conversation.tick(1 << 40)
    conversation.send(FetchRequest(), deadline_ms=500)
    conversation.send(MetadataRequest(), deadline_ms=300)
    conversation.send(MetadataRequest())
    assert conversation.due_ms == 300
    conversation.tick(299)
    with pytest.raises(ResponseTimeoutError, match="not responded to Metadata"):
        conversation.tick(300)
    assert conversation.state is State.BROKEN


def test_a_response_in_time_takes_its_deadline_along() -> None:
    conversation = ready()
    conversation.send(MetadataRequest(), deadline_ms=300)
    conversation.send(MetadataRequest())
    conversation.send(MetadataRequest(), deadline_ms=400)
    list(conversation.receive(response(2, topics(), 9)))
    assert conversation.due_ms == 400
    list(conversation.receive(response(3, topics(), 9)))
    assert conversation.due_ms == 400
    list(conversation.receive(response(4, topics(), 9)))
    assert conversation.due_ms is None


def test_negotiation_has_a_deadline() -> None:
    conversation = talk()
    conversation.begin(deadline_ms=100)
    with pytest.raises(ResponseTimeoutError, match="ApiVersions"):
        conversation.tick(100)
