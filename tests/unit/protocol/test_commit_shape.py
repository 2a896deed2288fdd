"""What offset commits of one member have in common, in every version."""

from __future__ import annotations

import pytest

from tailrace.protocol.commit_shape import CommitShape
from tailrace.protocol.frame import decode_request, decode_request_header, decode_response, encode_request
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

VERSIONS = range(2, 11)
MARK = 0x5A5B5C5D5E5F6061


def request(*offsets: int, member: str = "m", note: str | None = "n", retention_ms: int = -1) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(
            name=f"topic-{number}",
            topic_id=bytes([number]) * 16,
            partitions=[
                OffsetCommitRequestPartition(partition_index=number, committed_offset=offset, committed_metadata=note)
            ],
        )
        for number, offset in enumerate(offsets)
    ]
    return OffsetCommitRequest(
        group_id="readers",
        member_id=member,
        generation_id_or_member_epoch=3,
        retention_time_ms=retention_ms,
        topics=topics,
    )


def frame(asked: OffsetCommitRequest, version: int, correlation_id: int = 1) -> bytes:
    return b"".join(encode_request(asked, version, correlation_id, "client"))[4:]


def shape(asked: OffsetCommitRequest, version: int) -> CommitShape | None:
    data = frame(asked, version)
    header, position = decode_request_header(data)
    decoded = decode_request(header, data, position)
    assert isinstance(decoded, OffsetCommitRequest)
    found = CommitShape.of(header, decoded, data)
    assert decoded == decode_request(header, data, position), "the request is as it was"
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_offsets_may_differ(version: int) -> None:
    found = shape(request(1, 2, 3), version)
    assert found is not None
    assert found.match(frame(request(1, 2, 3), version)) == (1, 2, 3)
    assert found.match(frame(request(7, -1, (1 << 63) - 1), version, 99)) == (7, -1, (1 << 63) - 1)
    others = [request(1, 2), request(1, 2, 3, member="o"), request(1, 2, 3, note="o"), request(1, 2, 3, note=None)]
    assert [found.match(frame(other, version)) for other in others] == [None] * 4


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_are_those_of_the_handler(version: int) -> None:
    found = shape(request(1, 2), version)
    assert found is not None
    for code, data in ((0, found.answer(77)), (15, found.refusal(77, 15))):
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        correlation_id, response = decode_response(8, version, data[4:])
        assert correlation_id == 77
        topics = response.topics  # type: ignore[attr-defined]
        assert [row.error_code for topic in topics for row in topic.partitions] == [code, code]


def test_what_has_no_shape() -> None:
    assert shape(request(), 8) is None
    assert shape(request(1, retention_ms=5), 2) is None
    text = MARK.to_bytes(8, "big").decode("ascii")
    assert shape(request(1, note=text), 8) is None
