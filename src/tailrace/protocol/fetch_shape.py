"""The tuned way of a fetch request: that of a consumer of one partition differs from the one before in its offset.

As with `produce_shape`: the first request is decoded as any other and remembered, the next ones are compared with it
byte for byte, and only the offset and the correlation id are read. The answer of a success is put together from what
all such answers have in common. It is for consumers that read what is written, without a fetch session.
"""

from __future__ import annotations

import struct
from typing import Final

from tailrace.protocol.codec import encode
from tailrace.protocol.frame import encode_response
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tailrace.protocol.wire import UVARINTS

NO_SESSION: Final = -1
READ_UNCOMMITTED: Final = 0
_FRONT: Final = 8  # api key, version and correlation id
_FLEXIBLE_FROM: Final = 12
_TOPIC_ID_FROM: Final = 13
_LOG_START_FROM: Final = 5
_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ii")
_MARK: Final = 0x5A5B5C5D5E5F6061  # an offset that is found again in sample bytes


class FetchShape:
    __slots__ = (
        "_after",
        "_answer_begin",
        "_answer_end",
        "_answer_mid",
        "_answer_offsets",
        "_answer_rest_bytes",
        "_before",
        "_is_flexible",
        "_offset_at",
        "_size",
        "index",
        "max_bytes",
        "min_bytes",
        "request",
        "topic",
        "topic_id",
        "version",
    )

    def __init__(self, header: RequestHeader, request: FetchRequest, frame: bytes, offset_at: int) -> None:
        version = header.request_api_version
        topic = request.topics[0]
        part = topic.partitions[0]
        self.version = version
        self.request = request
        self.topic = topic.topic
        self.topic_id = topic.topic_id if version >= _TOPIC_ID_FROM else None
        self.index = part.partition
        self.max_bytes = min(request.max_bytes, part.partition_max_bytes)
        self.min_bytes = request.min_bytes
        self._size = len(frame)
        self._offset_at = offset_at
        self._before = frame[_FRONT:offset_at]
        self._after = frame[offset_at + _INT64.size :]
        self._is_flexible = version >= _FLEXIBLE_FROM
        self._learn_answer(header, topic.topic, topic.topic_id)

    @classmethod
    def of(cls, header: RequestHeader, request: FetchRequest, frame: bytes) -> FetchShape | None:
        """What further requests may have in common with this one; None for other kinds."""
        if (
            request.session_epoch != NO_SESSION
            or request.session_id
            or request.isolation_level != READ_UNCOMMITTED
            or request.replica_id >= 0
            or request.replica_state is not None
            or request.forgotten_topics_data
            or len(request.topics) != 1
            or len(request.topics[0].partitions) != 1
        ):
            return None
        part, version = request.topics[0].partitions[0], header.request_api_version
        plain = encode(request, version)
        offset, part.fetch_offset = part.fetch_offset, _MARK
        marked = encode(request, version)
        part.fetch_offset = offset
        place = marked.find(_INT64.pack(_MARK))
        if frame[len(frame) - len(plain) :] != plain or len(marked) != len(plain):
            return None  # it is written otherwise than we would
        return cls(header, request, frame, len(frame) - len(plain) + place)

    def _learn_answer(self, header: RequestHeader, topic: str, topic_id: bytes) -> None:
        has_start = header.request_api_version >= _LOG_START_FROM
        sample = PartitionData(
            partition_index=self.index,
            high_watermark=_MARK,
            last_stable_offset=0,
            log_start_offset=0,
            aborted_transactions=None,
            records=b"x",
        )
        answer = FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=[sample])
        parts = encode_response(header, FetchResponse(responses=[answer]))
        first = bytes(parts[0])
        place = first.rindex(_INT64.pack(_MARK))
        length_bytes = 1 if self._is_flexible else _INT32.size
        self._answer_offsets = struct.Struct(">qqq" if has_start else ">qq")
        self._answer_begin = first[_HEAD.size : place]
        self._answer_mid = first[place + self._answer_offsets.size : len(first) - length_bytes]
        self._answer_end = b"".join(parts[2:])
        self._answer_rest_bytes = len(first) - length_bytes - _INT32.size + len(self._answer_end)

    def match(self, frame: bytes) -> int | None:
        """The offset of such a request, without its size; None when it is of another shape."""
        at = self._offset_at
        if len(frame) != self._size or frame[_FRONT:at] != self._before or frame[at + _INT64.size :] != self._after:
            return None
        return int.from_bytes(frame[at : at + _INT64.size], "big", signed=True)

    def answer(
        self, correlation_id: int, high_watermark: int, last_stable: int, log_start: int, size: int
    ) -> tuple[bytes, bytes]:
        """The bytes before and behind `size` bytes of records: the whole frame of a success."""
        length = UVARINTS[size + 1] if self._is_flexible else _INT32.pack(size)
        form = self._answer_offsets
        offsets = (
            form.pack(high_watermark, last_stable, log_start)
            if form.size == 24
            else form.pack(high_watermark, last_stable)
        )
        head = _HEAD.pack(self._answer_rest_bytes + len(length) + size, correlation_id)
        return b"".join((head, self._answer_begin, offsets, self._answer_mid, length)), self._answer_end
