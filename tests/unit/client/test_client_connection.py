from __future__ import annotations

import socket
import struct

import pytest

from support.brokers.scripted import HANG_UP, NO_ANSWER, ScriptedBroker
from tailrace.client.address import Address, addresses
from tailrace.client.connection import Connection, wait_for
from tailrace.client.deadline import Deadline
from tailrace.client.errors import BadAddressError, BrokerUnreachableError, ConnectionLostError, NoAnswerError
from tailrace.model.errors import UnsupportedVersionError
from tailrace.protocol.frame import encode_response
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.messages.list_offsets import ListOffsetsRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

METADATA = MetadataRequest.KEY


def opened(broker: ScriptedBroker, **options: int) -> Connection:
    return Connection.open(Address.parse(broker.address), timeout_s=10, **options)


def negotiated(ours: socket.socket, theirs: socket.socket) -> Connection:
    """A connection over a pair of sockets whose other end has Metadata v0 and nothing else."""
    header = RequestHeader(request_api_key=18, request_api_version=4, correlation_id=1)
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=METADATA)])
    theirs.sendall(b"".join(bytes(part) for part in encode_response(header, response)))
    connection = Connection(ours, Address("pair", 1), "test")
    connection.negotiate(Deadline(10))
    return connection


def test_the_highest_version_that_both_sides_have_is_spoken(broker: ScriptedBroker) -> None:
    broker.versions[METADATA] = (4, 7)
    broker.versions[ListOffsetsRequest.KEY] = (1, 99)
    with opened(broker) as connection:
        assert connection.version_for(METADATA) == 7
        assert connection.version_for(METADATA, newest=5) == 5
        assert connection.version_for(ListOffsetsRequest.KEY) == 11
        connection.call(MetadataRequest(topics=None), 10)
    assert broker.seen_versions[METADATA] == {7}


def test_a_version_that_may_still_change_is_not_spoken(broker: ScriptedBroker) -> None:
    broker.versions[22] = (0, 6)
    with opened(broker) as connection:
        assert connection.version_for(22) == 5


def test_a_broker_that_is_too_old_for_our_first_question_is_asked_again(broker: ScriptedBroker) -> None:
    broker.versions[18] = (0, 2)
    with opened(broker) as connection:
        assert connection.has_api(METADATA)
    assert broker.seen_versions[18] == {4, 2}


def test_an_api_that_the_broker_lacks(broker: ScriptedBroker) -> None:
    del broker.versions[METADATA]
    broker.versions[2] = (99, 100)
    with opened(broker) as connection:
        assert not connection.has_api(METADATA)
        with pytest.raises(UnsupportedVersionError, match="does not have it"):
            connection.call(MetadataRequest(), 10)
        with pytest.raises(UnsupportedVersionError, match="versions 99 to 100"):
            connection.version_for(2)


def test_requests_follow_each_other_and_answers_come_in_their_order(broker: ScriptedBroker) -> None:
    for name in ("a", "b", "c"):
        broker.add_topic(name)
    with opened(broker) as connection:
        sent = [connection.submit(_asking(name), 10) for name in ("a", "b", "c")]
        assert connection.awaited == 3
        received = [connection.receive(10) for _ in sent]
    assert [correlation_id for correlation_id, _ in received] == sent
    assert [answer.topics[0].name for _, answer in received if isinstance(answer, MetadataResponse)] == ["a", "b", "c"]


def _asking(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def test_a_request_without_an_answer_is_not_waited_for(broker: ScriptedBroker) -> None:
    broker.answers[ListOffsetsRequest] = lambda _: NO_ANSWER
    with opened(broker) as connection:
        connection.submit(ListOffsetsRequest(), 10, is_answered=False)
        assert connection.awaited == 0
        connection.call(MetadataRequest(), 10)
        with pytest.raises(ConnectionLostError, match="waits for a response"):
            connection.receive(0.01)


def test_a_call_in_the_midst_of_others_is_refused(broker: ScriptedBroker) -> None:
    with opened(broker) as connection:
        connection.submit(MetadataRequest(), 10)
        with pytest.raises(ConnectionLostError, match="still to come"):
            connection.call(MetadataRequest(), 10)


def test_an_answer_that_does_not_come_ends_a_call_and_its_connection(broker: ScriptedBroker) -> None:
    broker.answers[MetadataRequest] = lambda _: NO_ANSWER
    with opened(broker) as connection:
        with pytest.raises(NoAnswerError, match=r"no response of 127\.0\.0\.1"):
            connection.call(MetadataRequest(), 0.05)
        assert connection.is_closed
        with pytest.raises(ConnectionLostError, match="is closed"):
            connection.submit(MetadataRequest(), 10)
        with pytest.raises(ConnectionLostError, match="is closed"):
            connection.receive(10)


def test_a_broker_that_hangs_up(broker: ScriptedBroker) -> None:
    broker.answers[MetadataRequest] = lambda _: HANG_UP
    with opened(broker) as connection, pytest.raises(ConnectionLostError, match="it closed"):
        connection.call(MetadataRequest(), 10)


@pytest.mark.parametrize("size", [-1, 0, 3, 1 << 20, 0x7FFF_FFFF])
def test_a_size_that_no_answer_has_is_not_believed(broker: ScriptedBroker, size: int) -> None:
    broker.answers[MetadataRequest] = lambda _: struct.pack(">i", size)
    with (
        opened(broker, max_response_bytes=1 << 16) as connection,
        pytest.raises(ConnectionLostError, match=f"a response of {size} bytes"),
    ):
        connection.call(MetadataRequest(), 10)


def test_an_answer_to_another_question_closes() -> None:
    ours, theirs = socket.socketpair()
    with theirs, negotiated(ours, theirs) as connection:
        correlation_id = connection.submit(MetadataRequest(), 10)
        theirs.sendall(struct.pack(">iiii", 12, correlation_id + 1, 0, 0))
        with pytest.raises(ConnectionLostError, match=f"to request {correlation_id + 1} instead of {correlation_id}"):
            connection.receive(10)
        assert connection.is_closed


def test_garbage_for_an_answer_closes(broker: ScriptedBroker) -> None:
    broker.answers[MetadataRequest] = lambda _: struct.pack(">ii", 12, 2) + b"\xff" * 8
    with opened(broker) as connection, pytest.raises(ConnectionLostError, match="does not end"):
        connection.call(MetadataRequest(), 10)


def test_a_deadline_in_the_middle_of_an_answer_loses_nothing() -> None:
    ours, theirs = socket.socketpair()
    with theirs, negotiated(ours, theirs) as connection:
        correlation_id = connection.submit(MetadataRequest(), 10)
        answer = struct.pack(">iiii", 12, correlation_id, 0, 0)
        for piece in (answer[:2], answer[2:9], answer[9:]):
            with pytest.raises(NoAnswerError):
                connection.receive(0.001)
            theirs.sendall(piece)
        assert connection.receive(10) == (correlation_id, MetadataResponse())


def test_a_large_request_is_written_whole(broker: ScriptedBroker) -> None:
    payloads = [bytes([at % 256]) * 3000 for at in range(2000)]
    data = [PartitionProduceData(index=at, records=payload) for at, payload in enumerate(payloads)]
    got: list[list[bytes]] = []

    def keep(request: ProduceRequest) -> object:
        got.append([bytes(each.records) for each in request.topic_data[0].partition_data])
        return NO_ANSWER

    broker.answers[ProduceRequest] = keep
    with opened(broker) as connection:
        connection.submit(
            ProduceRequest(acks=0, topic_data=[TopicProduceData(partition_data=data)]), 10, is_answered=False
        )
        connection.call(MetadataRequest(), 10)
    assert got == [payloads]


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BrokerUnreachableError, match=f"no broker at 127.0.0.1:{port}: Connection refused"):
        Connection.open(Address("127.0.0.1", port), timeout_s=5)


def test_somebody_there_who_is_no_broker(broker: ScriptedBroker) -> None:
    broker.answers[ApiVersionsRequest] = lambda _: b"SSH-2.0-OpenSSH_9.2\r\n"
    with pytest.raises(ConnectionLostError):
        opened(broker)


def test_which_of_several_has_an_answer(broker: ScriptedBroker) -> None:
    with opened(broker) as one, opened(broker) as other:
        other.submit(MetadataRequest(), 10)
        assert wait_for([one, other], 10) == [other]
        assert other.has_answer()
        assert not one.has_answer()


@pytest.mark.parametrize(
    ("text", "address"),
    [("localhost:9092", ("localhost", 9092)), (" [::1]:1 ", ("::1", 1)), ("10.0.0.1:65535", ("10.0.0.1", 65535))],
)
def test_addresses_are_read(text: str, address: tuple[str, int]) -> None:
    parsed = Address.parse(text)
    assert parsed == address
    assert Address.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    "text", ["", "localhost", "localhost:", ":9092", "host:0", "host:65536", "::1:9", "a b:1", ","]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(BadAddressError):
        addresses(text)


def test_several_addresses() -> None:
    assert addresses("a:1, b:2") == addresses(["a:1", "b:2"]) == [("a", 1), ("b", 2)]


def test_a_deadline_ends() -> None:
    now = [10.0]
    deadline = Deadline(2, lambda: now[0])
    assert deadline.check("it") == 2
    now[0] = 12.0
    assert deadline.is_over
    assert deadline.left_s == 0
    with pytest.raises(NoAnswerError, match="it took longer than 2 s"):
        deadline.check("it")


def test_a_connection_that_the_broker_closed_is_found_closed(broker: ScriptedBroker) -> None:
    with opened(broker) as connection:
        connection.close_if_lost()
        assert not connection.is_closed
        connection.submit(MetadataRequest(), 10)
        wait_for([connection], 10)
        connection.close_if_lost()  # what is there is an answer
        assert not connection.is_closed
        connection.receive(10)
        broker.hang_up()
        wait_for([connection], 10)
        connection.close_if_lost()
        assert connection.is_closed


class SlowLink:
    """A socket that takes one byte each second."""

    now_s = 0.0

    def settimeout(self, _: float) -> None:
        pass

    def sendmsg(self, _: object) -> int:
        self.now_s += 1
        return 1

    def close(self) -> None:
        pass


def test_a_connection_that_took_part_of_a_request_is_closed() -> None:
    """The next request would be read as the rest of this one."""
    link = SlowLink()
    connection = Connection(link, Address("localhost", 9092), "test")  # type: ignore[arg-type]
    with pytest.raises(NoAnswerError, match="localhost:9092 took no request for 3 s"):
        connection.negotiate(Deadline(3, lambda: link.now_s))
    assert connection.is_closed
