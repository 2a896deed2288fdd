"""The tuned way of a produce request: most are like the one before, but for their records.

A client's requests to one partition of one topic differ in the correlation id, the partition's number and the records.
All else stands in front, byte for byte the same, and reading the same bytes gives the same values. So the first such
request is decoded as any other, and `ProduceShape` remembers what was in front; the next one is compared with it, and
only what may differ is read. Its answer is put together the same way.

    int16 0, int16 version | int32 correlation id | client id … array of 1 topic, its name or id, array of 1 partition |
    int32 partition | length, records | nothing, or three empty rows of tagged fields

What does not look exactly like that has no shape, and goes the general way.
"""

from __future__ import annotations

import struct
from typing import Final

from tailrace.protocol.frame import encode_response
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_FLEXIBLE_FROM: Final = 9
_TOPIC_ID_FROM: Final = 13
_START_OFFSET_FROM: Final = 5
_FRONT: Final = 8  # api key, version and correlation id, which come before what is compared
_NO_TAGS: Final = memoryview(b"\0\0\0")
_INT32: Final = struct.Struct(">i")
_INDEX_AND_LENGTH: Final = struct.Struct(">ii")
_ANSWER_HEAD: Final = struct.Struct(">ii")
_MARK: Final = 0x5A5B5C5D  # a partition number that is found again in a sample answer


class ProduceShape:
    __slots__ = (
        "_answer",
        "_answer_begin",
        "_answer_end",
        "_answer_size",
        "_has_start_offset",
        "_same_end",
        "acks",
        "header",
        "is_flexible",
        "same",
        "timeout_ms",
        "topic",
        "topic_id",
    )

    def __init__(self, header: RequestHeader, request: ProduceRequest, same: bytes) -> None:
        version = header.request_api_version
        topic = request.topic_data[0]
        self.header = header
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.topic = topic.name
        self.topic_id = topic.topic_id if version >= _TOPIC_ID_FROM else None
        self.is_flexible = version >= _FLEXIBLE_FROM
        self.same = same
        """What all such requests have behind their correlation id, up to the partition's number."""
        self._same_end = _FRONT + len(same)
        self._has_start_offset = version >= _START_OFFSET_FROM
        entry_form = "ihqqq" if self._has_start_offset else "ihqq"
        sample = PartitionProduceResponse(index=_MARK)
        answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[sample])
        whole = b"".join(encode_response(header, ProduceResponse(responses=[answer])))
        entry = whole.rindex(_INT32.pack(_MARK))  # the last: a correlation id, a name or an id may look like it
        self._answer_begin = whole[_ANSWER_HEAD.size : entry]
        self._answer_end = whole[entry + struct.calcsize(f">{entry_form}") :]
        self._answer = struct.Struct(f">ii{len(self._answer_begin)}s{entry_form}{len(self._answer_end)}s")
        self._answer_size = len(whole) - _INT32.size

    @classmethod
    def of(cls, header: RequestHeader, request: ProduceRequest, frame: memoryview) -> ProduceShape | None:
        """What further requests may have in common with this one, decoded from `frame`; None for other kinds."""
        if request.transactional_id is not None or len(request.topic_data) != 1:
            return None
        partitions = request.topic_data[0].partition_data
        if len(partitions) != 1 or not partitions[0].records:
            return None
        size = len(partitions[0].records)
        is_flexible = header.request_api_version >= _FLEXIBLE_FROM
        end = len(frame)
        if is_flexible:
            if frame[end - len(_NO_TAGS) :] != _NO_TAGS:
                return None
            end -= len(_NO_TAGS)
        length_bytes = (max((size + 1).bit_length(), 1) + 6) // 7 if is_flexible else _INT32.size
        same_end = end - size - length_bytes - _INT32.size
        shape = cls(header, request, bytes(frame[_FRONT:same_end]))
        found = shape.match(frame, 0, len(frame))
        is_it = found is not None and found[0] == partitions[0].index and len(found[1]) == size
        return shape if is_it else None

    def match(self, buffer: memoryview, begin: int, end: int) -> tuple[int, memoryview] | None:
        """Partition and records of the request, without its size, at `begin`; None when it is of another shape.

        The api key and version were compared by the caller.
        """
        position = begin + self._same_end
        if buffer[begin + _FRONT : position] != self.same:
            return None
        if not self.is_flexible:
            if end - position < _INDEX_AND_LENGTH.size:
                return None
            index, size = _INDEX_AND_LENGTH.unpack_from(buffer, position)
            position += _INDEX_AND_LENGTH.size
            return (index, buffer[position:end]) if size > 0 and position + size == end else None
        if end - position < _INT32.size + 1 + len(_NO_TAGS):
            return None
        (index,) = _INT32.unpack_from(buffer, position)
        position += _INT32.size
        size = buffer[position] & 0x7F
        shift = 7
        while buffer[position] > 0x7F and shift < 28:
            position += 1
            size |= (buffer[position] & 0x7F) << shift
            shift += 7
        if buffer[position] > 0x7F:
            return None
        position += 1
        records_end = end - len(_NO_TAGS)
        if size < 2 or position + size - 1 != records_end or buffer[records_end:end] != _NO_TAGS:
            return None
        return index, buffer[position:records_end]

    def answer(
        self, correlation_id: int, index: int, base_offset: int, append_time_ms: int, log_start_offset: int
    ) -> bytes:
        """The whole frame of a success."""
        if self._has_start_offset:
            return self._answer.pack(
                self._answer_size,
                correlation_id,
                self._answer_begin,
                index,
                0,
                base_offset,
                append_time_ms,
                log_start_offset,
                self._answer_end,
            )
        return self._answer.pack(
            self._answer_size,
            correlation_id,
            self._answer_begin,
            index,
            0,
            base_offset,
            append_time_ms,
            self._answer_end,
        )
