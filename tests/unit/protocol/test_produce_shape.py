"""The tuned way of produce requests agrees with the codec in every version, and lets through nothing but its shape."""

from __future__ import annotations

import pytest

from tailrace.protocol.frame import decode_request, decode_request_header, decode_response, encode_request
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tailrace.protocol.produce_shape import _MARK, ProduceShape

VERSIONS = range(ProduceRequest.VERSIONS[0], ProduceRequest.VERSIONS[1] + 1)
TOPIC_ID = bytes(range(16))


def frame(
    version: int, records: bytes | None, correlation_id: int = 7, index: int = 3, **changes: object
) -> memoryview:
    """A request without its size."""
    part = PartitionProduceData(index=index, records=records)
    topic = TopicProduceData(partition_data=[part])
    if version >= 13:
        topic.topic_id = changes.pop("topic_id", TOPIC_ID)  # type: ignore[assignment]
    else:
        topic.name = changes.pop("name", "orders")  # type: ignore[assignment]
    values = {"acks": -1, "timeout_ms": 1500, "topic_data": [topic], **changes}
    parts = encode_request(ProduceRequest(**values), version, correlation_id, "client")  # type: ignore[arg-type]
    return memoryview(bytearray(b"".join(parts))[4:])


def shape_of(data: memoryview) -> ProduceShape | None:
    header, position = decode_request_header(data)
    request = decode_request(header, data, position)
    assert isinstance(request, ProduceRequest)
    return ProduceShape.of(header, request, data)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 61, 126, 127, 128, 16_382, 16_383, 70_000])
def test_what_differs_is_read(version: int, size: int) -> None:
    shape = shape_of(frame(version, b"first"))
    assert shape is not None
    records = bytes(size)
    again = frame(version, records, correlation_id=99, index=12)
    found = shape.match(again, 0, len(again))
    assert found is not None
    assert found[0] == 12
    assert found[1] == records
    assert (shape.acks, shape.timeout_ms) == (-1, 1500)
    assert (shape.topic, shape.topic_id) == (("orders", None) if version < 13 else ("", TOPIC_ID))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_records_are_a_view_of_the_buffer(version: int) -> None:
    shape = shape_of(frame(version, b"first"))
    assert shape is not None
    again = frame(version, b"second")
    found = shape.match(again, 0, len(again))
    assert found is not None
    found[1][0] = ord("S")
    assert b"Second" in bytes(again)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_is_the_codecs(version: int) -> None:
    shape = shape_of(frame(version, b"first"))
    assert shape is not None
    answer = shape.answer(99, 12, 2**40, 1_700_000_000_000, 17)
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    correlation_id, response = decode_response(0, version, answer[4:])
    assert correlation_id == 99
    (topic,) = response.responses  # type: ignore[attr-defined]
    assert topic.name == ("orders" if version < 13 else "")
    assert topic.topic_id == (bytes(16) if version < 13 else TOPIC_ID)
    start = 17 if version >= 5 else -1
    assert topic.partition_responses == [
        PartitionProduceResponse(
            index=12, base_offset=2**40, log_append_time_ms=1_700_000_000_000, log_start_offset=start
        )
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_correlation_id_is_not_taken_for_anything_else(version: int) -> None:
    """The shape of an answer is found out with a partition number that a client may use for something else."""
    shape = shape_of(frame(version, b"first", correlation_id=_MARK))
    assert shape is not None
    correlation_id, response = decode_response(0, version, shape.answer(99, 12, 5, -1, 0)[4:])
    assert correlation_id == 99
    assert response.responses[0].partition_responses[0].base_offset == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", VERSIONS)
def test_another_request_has_another_shape(version: int) -> None:
    shape = shape_of(frame(version, b"first"))
    assert shape is not None
    other = {"topic_id": bytes(16)} if version >= 13 else {"name": "ORDERS"}
    for changed in (frame(version, b"x", acks=1), frame(version, b"x", timeout_ms=1), frame(version, b"x", **other)):
        assert shape.match(changed, 0, len(changed)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_one_share_of_records_has_no_shape(version: int) -> None:
    assert shape_of(frame(version, None)) is None
    assert shape_of(frame(version, b"")) is None
    assert shape_of(frame(version, b"x", transactional_id="t")) is None
    assert shape_of(frame(version, b"x", topic_data=[])) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_damaged_request_is_not_taken_for_a_good_one(version: int) -> None:
    """Whatever byte is changed: what `match` gives is what the codec reads, or `match` gives nothing."""
    good = frame(version, b"some records")
    shape = shape_of(good)
    assert shape is not None
    for place in range(8, len(good)):
        for flip in (1, 0x80, 0xFF):
            damaged = memoryview(bytearray(good))
            damaged[place] ^= flip
            found = shape.match(damaged, 0, len(damaged))
            if found is not None:
                header, position = decode_request_header(damaged)
                request = decode_request(header, damaged, position)
                assert isinstance(request, ProduceRequest)
                (part,) = request.topic_data[0].partition_data
                assert found == (part.index, part.records)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cut_request_is_not_taken(version: int) -> None:
    good = frame(version, b"some records")
    shape = shape_of(good)
    assert shape is not None
    for end in range(8, len(good)):
        cut = memoryview(bytearray(good[:end]))
        assert shape.match(cut, 0, end) is None
