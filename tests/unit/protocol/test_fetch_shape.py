"""The tuned way of fetch requests agrees with the codec in every version, and lets through nothing but its shape."""

from __future__ import annotations

import pytest

from tailrace.protocol.fetch_shape import FetchShape
from tailrace.protocol.frame import decode_request, decode_request_header, decode_response, encode_request
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

VERSIONS = range(FetchRequest.VERSIONS[0], FetchRequest.VERSIONS[1] + 1)
TOPIC_ID = bytes(range(16))


def frame(version: int, offset: int = 0, correlation_id: int = 7, partitions: int = 1, **changes: object) -> bytes:
    """A request without its size."""
    parts = [
        FetchPartition(partition=3 + n, fetch_offset=offset, partition_max_bytes=1 << 20) for n in range(partitions)
    ]
    topic = FetchTopic(partitions=parts)
    if version >= 13:
        topic.topic_id = TOPIC_ID
    else:
        topic.topic = "orders"
    values = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 50 << 20, "topics": [topic], **changes}
    return b"".join(encode_request(FetchRequest(**values), version, correlation_id, "client"))[4:]  # type: ignore[arg-type]


def shape_of(data: bytes) -> FetchShape | None:
    header, position = decode_request_header(data)
    request = decode_request(header, data, position)
    assert isinstance(request, FetchRequest)
    return FetchShape.of(header, request, data)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [0, 1, 2**40, 2**63 - 1, -1])
def test_the_offset_is_read(version: int, offset: int) -> None:
    shape = shape_of(frame(version, 17))
    assert shape is not None
    assert shape.match(frame(version, offset, correlation_id=99)) == offset
    assert (shape.index, shape.max_bytes, shape.min_bytes) == (3, 1 << 20, 1)
    assert (shape.topic, shape.topic_id) == (("orders", None) if version < 13 else ("", TOPIC_ID))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 126, 127, 128, 70_000])
def test_the_answer_is_the_codecs(version: int, size: int) -> None:
    shape = shape_of(frame(version))
    assert shape is not None
    head, tail = shape.answer(99, 1234, 1200, 5, size)
    answer = head + b"r" * size + tail
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    correlation_id, response = decode_response(1, version, answer[4:])
    assert correlation_id == 99
    (topic,) = response.responses  # type: ignore[attr-defined]
    assert (topic.topic, topic.topic_id) == (("orders", bytes(16)) if version < 13 else ("", TOPIC_ID))
    (part,) = topic.partitions
    assert (part.partition_index, part.error_code, part.records) == (3, 0, b"r" * size)
    assert (part.high_watermark, part.last_stable_offset) == (1234, 1200)
    assert part.log_start_offset == (5 if version >= 5 else -1)
    assert part.aborted_transactions is None


@pytest.mark.parametrize("version", VERSIONS)
def test_other_requests_have_no_shape_or_another(version: int) -> None:
    assert shape_of(frame(version, isolation_level=1)) is None
    assert shape_of(frame(version, partitions=2)) is None
    assert shape_of(frame(version, topics=[])) is None
    assert shape_of(frame(version) + b"\0") is None, "bytes behind it"
    if version >= 7:
        assert shape_of(frame(version, session_epoch=0)) is None
        assert shape_of(frame(version, session_id=5, session_epoch=3)) is None
    shape = shape_of(frame(version))
    assert shape is not None
    for other in (frame(version, max_wait_ms=1), frame(version, min_bytes=2), frame(version, partitions=2)):
        assert shape.match(other) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_changed_byte_is_seen(version: int) -> None:
    good = frame(version, 17)
    shape = shape_of(good)
    assert shape is not None
    for place in range(8, len(good)):
        changed = bytearray(good)
        changed[place] ^= 1
        found = shape.match(bytes(changed))
        if found is not None:
            assert found == 17 ^ int.from_bytes(bytes(a ^ b for a, b in zip(good, changed, strict=True)), "big") >> (
                8 * (len(good) - shape._offset_at - 8)
            )
