"""Fetch requests of one connection that are alike, answered without making objects of them.

Only what can be answered at once with records goes this way. Everything else (nothing to read, an error, a wait) goes
to the handler, which is given the request as if it had been decoded.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from tailrace.broker.file_range import FileRange
from tailrace.model.errors import TailraceError
from tailrace.protocol.apis import FETCH
from tailrace.protocol.fetch_shape import FetchShape
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.message import Request
from tailrace.protocol.messages.fetch import FetchRequest
from tailrace.protocol.schema import Payload
from tailrace.storage.fetch import Isolation

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_FOLLOWERS_FROM: Final = 11
_VAIN_LESSONS: Final = 8  # after so many shapes in a row that never came again, no more are learnt


class FetchLane:
    __slots__ = ("_node", "_shape", "_vain")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._shape: FetchShape | None = None
        self._vain = 0

    def learn(self, header: RequestHeader, request: Request, frame: bytes) -> None:
        """The request was decoded: the next one may be like it."""
        if self._vain < _VAIN_LESSONS and isinstance(request, FetchRequest):
            self._vain += 1
            self._shape = FetchShape.of(header, request, frame)

    def answer(self, frame: bytes, version: int, correlation_id: int) -> list[Payload] | None:
        """The whole answer, if it is such a request and can be answered with records now."""
        shape = self._shape
        if shape is None or version != shape.version:
            return None
        offset = shape.match(frame)
        if offset is None:
            return None
        self._vain = 0
        began_ns, node = perf_counter_ns(), self._node
        part = shape.request.topics[0].partitions[0]
        try:
            if shape.topic_id is None:
                partition = node.replicas.partition(shape.topic, shape.index)
            else:
                partition = node.replicas.partition_by_id(shape.topic_id, shape.index)
            data, high_watermark, last_stable, log_start, diverging = partition.read(
                offset,
                min(shape.max_bytes, node.config.fetch_max_bytes),
                Isolation.HIGH_WATERMARK,
                current_leader_epoch=part.current_leader_epoch,
                last_fetched_epoch=part.last_fetched_epoch,
                leader_only=version < _FOLLOWERS_FROM,
            )
        except TailraceError:
            return None
        records = data.records
        if records is None or diverging is not None or records.size < shape.min_bytes:
            return None
        head, tail = shape.answer(correlation_id, high_watermark, last_stable, log_start, records.size)
        counters = node.counters
        topic = counters.topic(partition.topic)
        topic.fetch_requests += 1
        topic.bytes_out += records.size
        consumers = counters.api(FETCH)
        consumers.requests[version] += 1
        consumers.total_time_us.record((perf_counter_ns() - began_ns) // 1000)
        return [head, FileRange(records), tail]
