"""The tuned way of an offset commit: a member's differs from the one before in nothing but the offsets.

As with `fetch_shape`: a request is decoded as any other and remembered, the next ones are compared with it byte for
byte, and only the offsets and the correlation id are read. The answer of a success is the same for all of them.
"""

from __future__ import annotations

import struct
from typing import Final

from tailrace.protocol.codec import encode
from tailrace.protocol.frame import encode_response
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

MOST_PARTITIONS: Final = 1_000
_FRONT: Final = 8  # api key, version and correlation id
_ANSWER_FRONT: Final = 8  # size and correlation id
_DEFAULT_RETENTION: Final = -1
_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_MARK: Final = 0x5A5B5C5D5E5F6061  # an offset that is found again in sample bytes


class CommitShape:
    __slots__ = ("_answer_begin", "_answer_end", "_header", "_offsets", "_same", "_size", "request", "version")

    def __init__(self, header: RequestHeader, request: OffsetCommitRequest, frame: bytes, places: list[int]) -> None:
        """`places` are those of the offsets in the frame, in order."""
        self.version = header.request_api_version
        self.request = request
        self._header = header
        self._size = len(frame)
        begins = [_FRONT, *(at + _INT64.size for at in places)]
        ends = [*places, len(frame)]
        self._same = tuple((slice(*each), frame[slice(*each)]) for each in zip(begins, ends, strict=True))
        gaps = (end - begin for begin, end in zip((0, *begins[1:]), places, strict=False))
        self._offsets = struct.Struct(">" + "".join(f"{gap}xq" for gap in gaps))
        answer = b"".join(encode_response(header, _response(request, 0)))
        self._answer_begin = answer[: _INT32.size]
        self._answer_end = answer[_ANSWER_FRONT:]

    @classmethod
    def of(cls, header: RequestHeader, request: OffsetCommitRequest, frame: bytes) -> CommitShape | None:
        """What further requests may have in common with this one; None for other kinds."""
        rows = [row for topic in request.topics for row in topic.partitions]
        if not 0 < len(rows) <= MOST_PARTITIONS or request.retention_time_ms != _DEFAULT_RETENTION:
            return None
        version = header.request_api_version
        plain = encode(request, version)
        offsets = [row.committed_offset for row in rows]
        for row in rows:
            row.committed_offset = _MARK
        marked = encode(request, version)
        for row, offset in zip(rows, offsets, strict=True):
            row.committed_offset = offset
        places = _found(marked)
        if not frame.endswith(plain) or len(marked) != len(plain) or len(places) != len(rows):
            return None  # it is written otherwise than we would, or has marks of its own
        begin = len(frame) - len(plain)
        return cls(header, request, frame, [begin + place for place in places])

    def match(self, frame: bytes) -> tuple[int, ...] | None:
        """The offsets of such a request, without its size; None when it is of another shape."""
        if len(frame) != self._size:
            return None
        for part, expected in self._same:
            if frame[part] != expected:
                return None
        return self._offsets.unpack_from(frame)

    def answer(self, correlation_id: int) -> bytes:
        """The whole frame of a success."""
        return self._answer_begin + _INT32.pack(correlation_id) + self._answer_end

    def refusal(self, correlation_id: int, code: int) -> bytes:
        """The whole frame when none of it was committed."""
        answer = b"".join(encode_response(self._header, _response(self.request, code)))
        return answer[: _INT32.size] + _INT32.pack(correlation_id) + answer[_ANSWER_FRONT:]


def _found(marked: bytes) -> list[int]:
    mark, places = _INT64.pack(_MARK), []
    place = marked.find(mark)
    while place >= 0:
        places.append(place)
        place = marked.find(mark, place + len(mark))
    return places


def _response(request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                for row in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics)
