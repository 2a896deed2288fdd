"""The produce requests of one read of a connection, appended together: one write for each log they go to.

The records are views of the receive buffer. They are checked, patched and written before `finish` returns; nothing
holds on to them.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from tailrace.broker.produce_request import Produce, Share
from tailrace.broker.produce_rules import refusal
from tailrace.broker.purgatory import LONGEST_WAIT_MS, Operation, Watched
from tailrace.broker.record_errors import MAX_UNANSWERED, record_errors, with_record_errors
from tailrace.broker.transactional_produce import ACKS, TransactionalProduces
from tailrace.model.errors import (
    InvalidDataError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    TailraceError,
)
from tailrace.model.internal_topics import INTERNAL_TOPICS
from tailrace.protocol.apis import APIS, PRODUCE
from tailrace.protocol.frame import decode_request, decode_request_header, encode_response
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tailrace.protocol.produce_shape import ProduceShape
from tailrace.record.kernels import take_frames
from tailrace.storage.append import AppendResult
from tailrace.storage.origin import Origin
from tailrace.storage.verification import NO_GUARD, VerificationGuard

if TYPE_CHECKING:
    from tailrace.broker.channel import Channel
    from tailrace.broker.context import Slot
    from tailrace.replication.partition import Partition

NO_ANSWER: Final = 0
_ANSWERED: Final = (-1, 1)
_TOPIC_ID_FROM: Final = 13
_NOT_LEADER: Final = 6
_WITHOUT_LOG_START: Final = (
    2,
    3,
    6,
    10,
    18,
    56,
)  # what Kafka reckons with; with other errors it says where a log begins
_LEADER_FROM: Final = 10
_FIRST_VERSION, _LAST_VERSION = APIS[0].first_version, APIS[0].last_version


class ProduceRun:
    """Belongs to one channel."""

    __slots__ = (
        "_channel",
        "_counters",
        "_lane",
        "_lane_partition",
        "_lane_sets",
        "_node",
        "_record_errors_left",
        "_replicas",
        "_shape",
        "_shape_version",
        "_transactional",
        "items",
    )

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._node = channel.node
        self._replicas = channel.node.replicas
        self._counters = channel.node.counters.api(PRODUCE)
        self._record_errors_left = MAX_UNANSWERED
        self._shape: ProduceShape | None = None
        self._shape_version = -1
        # Most runs are one shape to one partition. As long as this one is, its requests are not made objects of.
        self._lane: list[tuple[int, int]] = []  # correlation id, partition index
        self._lane_sets: list[memoryview] = []
        self._lane_partition: Partition | None = None
        self.items: list[Produce] = []
        self._transactional = TransactionalProduces(self, channel)

    @property
    def is_empty(self) -> bool:
        return not self._lane and not self.items

    # In

    def add_alike(self, buffer: memoryview, begin: int, end: int, longest: int) -> int:
        """All requests from `begin` on that are like those before them, and go to one partition.

        Returns the position behind them: `begin` where the first is another.
        """
        shape, lane = self._shape, self._lane
        if shape is None or self.items or shape.acks not in _ANSWERED:
            return begin
        version, is_flexible = self._shape_version, shape.is_flexible
        index, behind, taken = take_frames(buffer, begin, end, shape.same, version, is_flexible, longest)
        if not taken or (index != lane[0][1] if lane else not self._enter_lane(shape, index)):
            return begin
        sets = self._lane_sets
        for correlation_id, records, records_end in taken:
            lane.append((correlation_id, index))
            sets.append(buffer[records:records_end])
        return behind

    def _enter_lane(self, shape: ProduceShape, index: int) -> bool:
        """Whether there is a partition that clients may write to."""
        try:
            self._lane_partition = self._partition(shape.topic, shape.topic_id, index)
        except TailraceError:
            return False
        return True

    def add(self, buffer: memoryview, begin: int, end: int, version: int, correlation_id: int) -> None:
        """The request, without its size, that stands from `begin` to `end`."""
        shape = self._shape
        self._leave_lane()
        if shape is not None and version == self._shape_version:
            found = shape.match(buffer, begin, end)
            if found is not None:
                self.items.append(self._shaped(shape, correlation_id, *found))
                return
        item = self._decoded(buffer[begin:end], version)
        if item.transactional_id is None or not self._transactional.take(item):
            self.items.append(item)

    def _leave_lane(self) -> None:
        """Something else has come: what is in the lane goes the general way."""
        shape = self._shape
        if self._lane and shape is not None:
            for (correlation_id, index), records in zip(self._lane, self._lane_sets, strict=True):
                self.items.append(self._shaped(shape, correlation_id, index, records))
            self._clear_lane()

    def _clear_lane(self) -> None:
        self._lane = []
        self._lane_sets = []
        self._lane_partition = None

    def _shaped(self, shape: ProduceShape, correlation_id: int, index: int, records: memoryview | None) -> Produce:
        share = Share(0, index, records)
        self._find(share, shape.topic, shape.topic_id)
        return Produce(correlation_id, shape.acks, shape.timeout_ms, [share], shape.header, shape=shape)

    def _decoded(self, frame: memoryview, version: int) -> Produce:
        header, position = decode_request_header(frame)
        if not _FIRST_VERSION <= version <= _LAST_VERSION:
            raise InvalidRequestError(f"Produce has versions {_FIRST_VERSION} to {_LAST_VERSION}, not {version}")
        request = decode_request(header, frame, position)
        assert isinstance(request, ProduceRequest)
        self._shape = ProduceShape.of(header, request, frame)
        self._shape_version = version
        shares = []
        for place, topic in enumerate(request.topic_data):
            topic_id = topic.topic_id if version >= _TOPIC_ID_FROM else None
            for part in topic.partition_data:
                share = Share(place, part.index, part.records)
                self._find(share, topic.name, topic_id)
                shares.append(share)
        topics = [(topic.name, topic.topic_id) for topic in request.topic_data]
        return Produce(
            header.correlation_id,
            request.acks,
            request.timeout_ms,
            shares,
            header,
            topics=topics,
            transactional_id=request.transactional_id,
        )

    def _find(self, share: Share, topic: str, topic_id: bytes | None) -> None:
        try:
            share.partition = self._partition(topic, topic_id, share.index)
        except TailraceError as error:
            share.error = error.with_traceback(None)  # which holds the share, and so the records

    def _partition(self, topic: str, topic_id: bytes | None, index: int) -> Partition:
        """One that clients may write to."""
        if topic_id is None:
            found = self._replicas.partition(topic, index)
        else:
            found = self._replicas.partition_by_id(topic_id, index)
        if found.topic in INTERNAL_TOPICS:
            raise InvalidTopicError(f"{found.topic} belongs to its coordinators: clients do not write to it")
        return found

    # Through

    def finish(self) -> None:
        """Append everything, and answer what can be answered."""
        began_ns, counters = perf_counter_ns(), self._counters
        self._renew_record_errors()
        if self._lane:
            asked = len(self._lane)
            counters.requests[self._shape_version] += asked
            items = self._finish_lane()
        else:
            asked = len(self.items)
            items, self.items = self.items, []
            for item in items:
                counters.requests[item.version] += 1
            self._append(items)
        waiting = self._answer_all(items, began_ns) if items else 0
        self._renew_record_errors()
        if asked > waiting:
            counters.total_time_us.record_many((perf_counter_ns() - began_ns) // 1000, asked - waiting)

    def _finish_lane(self) -> list[Produce]:
        """Requests that are not answered yet come back, with what has become of them."""
        partition, lane, sets, shape = self._lane_partition, self._lane, self._lane_sets, self._shape
        assert partition is not None
        assert shape is not None
        self._clear_lane()
        try:
            results = self._append_to(partition, sets, shape.acks)
        except TailraceError as error:
            return self._out_of_lane(shape, partition, lane, None, error.with_traceback(None))
        answers: list[bytes] = []
        greatest = -1  # not that of the last set: one that is a duplicate has an old offset
        for (correlation_id, index), result in zip(lane, results, strict=True):
            first_offset, last_offset, append_time_ms, log_start, refused, _ = result
            if refused is not None:
                return self._out_of_lane(shape, partition, lane, results, None)
            if last_offset > greatest:
                greatest = last_offset
            answers.append(shape.answer(correlation_id, index, first_offset, append_time_ms, log_start))
        is_done, problem = partition.acknowledgement(greatest, shape.acks)
        channel = self._channel
        if not is_done or problem is not None or channel.is_waiting:
            return self._out_of_lane(shape, partition, lane, results, None)
        channel.send_soon(b"".join(answers))
        return []

    def _out_of_lane(
        self,
        shape: ProduceShape,
        partition: Partition,
        lane: list[tuple[int, int]],
        results: list[AppendResult] | None,
        error: TailraceError | None,
    ) -> list[Produce]:
        items = []
        for place, (correlation_id, index) in enumerate(lane):
            item = self._shaped(shape, correlation_id, index, None)
            share = item.shares[0]
            share.partition = partition
            share.result = results[place] if results is not None else None
            share.error = error if share.result is None else share.result.error
            items.append(item)
        return items

    def _answer_all(self, items: list[Produce], began_ns: int) -> int:
        """How many have to wait."""
        channel = self._channel
        ready: list[bytes] = []
        waiting = 0
        for item in items:
            if item.acks == NO_ANSWER:
                error = item.error
                if error is not None:  # closing the connection is the only way to tell the producer
                    channel.send(ready)
                    ready = []
                    channel.fail(error)
            elif not item.is_settled():
                if ready:
                    channel.send(ready)
                    ready = []
                self._wait(item, began_ns, channel.new_slot())
                waiting += 1
            elif channel.is_waiting:
                channel.answer(channel.new_slot(), [self._answer(item)])
            else:
                ready.append(self._answer(item))
        if ready:
            channel.send(ready)
        return waiting

    def _append(self, items: list[Produce]) -> None:
        """Sets of one partition that follow each other with one kind of acknowledgement go together."""
        groups: list[tuple[Partition, int, list[Share]]] = []
        latest: dict[Partition, tuple[int, list[Share]]] = {}
        for item in items:
            acks = item.acks
            for share in item.shares:
                partition = share.partition
                if acks not in ACKS:
                    share.error = InvalidRequiredAcksError(f"acks={acks}: it is -1, 0 or 1")
                elif partition is not None:
                    share.error = refusal(share.records, item.version, item.transactional_id is not None)
                    if share.error is not None:
                        share.records = None
                        continue
                    group = latest.get(partition)
                    if group is None or group[0] != acks:
                        group = latest[partition] = (acks, [])
                        groups.append((partition, *group))
                    group[1].append(share)
        for partition, acks, shares in groups:
            self.append_shares(partition, shares, acks)

    def append_shares(
        self, partition: Partition, shares: list[Share], acks: int, guard: VerificationGuard = NO_GUARD
    ) -> None:
        """All of one partition; each has a result or an error then."""
        try:
            results = self._append_to(partition, [share.records for share in shares], acks, guard)  # type: ignore[misc]
        except TailraceError as error:
            for share in shares:
                share.error = error.with_traceback(None)
                share.records = None
            return
        for share, result in zip(shares, results, strict=True):
            share.result = result
            share.error = result.error
            share.records = None

    def _append_to(
        self, partition: Partition, sets: list[memoryview], acks: int, guard: VerificationGuard = NO_GUARD
    ) -> list[AppendResult]:
        topic = self._node.counters.topic(partition.topic)
        topic.produce_requests += len(sets)
        try:
            results = partition.append(sets, acks, Origin.CLIENT, guard)
        except TailraceError:
            topic.failed_produce_requests += len(sets)
            raise
        size = count = 0
        is_refused = False
        for records, (first_offset, last_offset, _, _, error, _) in zip(sets, results, strict=True):
            if error is None:
                size += len(records)
                count += last_offset - first_offset + 1
            else:
                is_refused = True
        topic.bytes_in += size
        topic.messages_in += count
        return self._with_refusals(partition, sets, results, acks) if is_refused else results

    def _with_refusals(
        self, partition: Partition, sets: list[memoryview], results: list[AppendResult], acks: int
    ) -> list[AppendResult]:
        """The results with record errors where batches were refused for single records."""
        topic, name = self._node.counters.topic(partition.topic), str(partition.id)
        for place, (records, result) in enumerate(zip(sets, results, strict=True)):
            error = result.error
            if error is None:
                continue
            if acks != NO_ANSWER:
                error = with_record_errors(error, records, name, self._record_errors_left)
                results[place] = result._replace(error=error)
                if isinstance(error, InvalidDataError) and error.rejected is not None:
                    self._record_errors_left -= len(error.rejected)
            topic.refused(error, len(records))
        return results

    def _renew_record_errors(self) -> None:
        """Not while responses wait: their lists are still in memory."""
        if not self._channel.is_waiting:
            self._record_errors_left = MAX_UNANSWERED

    # Out

    def finish_verified(self, item: Produce, began_ns: int, slot: Slot | None) -> None:
        """Answer a request that was appended by itself; `slot` where it was held until its turn."""
        self._counters.requests[item.version] += 1
        if slot is None:
            if not self._answer_all([item], began_ns):
                self._counters.total_time_us.record((perf_counter_ns() - began_ns) // 1000)
        elif item.acks != NO_ANSWER:
            self._wait(item, began_ns, slot)
        elif item.error is not None:
            self._channel.fail(item.error)
        else:
            self._channel.answer(slot, [])
        self._renew_record_errors()

    def _wait(self, item: Produce, began_ns: int, slot: Slot) -> None:
        operation = DelayedProduce(self, item, slot, began_ns)
        slot.when_dropped = lambda: self._node.purgatory.abandon(operation)
        self.wait(operation, item, item.timeout_ms)

    def wait(self, operation: DelayedProduce, item: Produce, timeout_ms: int) -> None:
        watched = [share.partition for share in item.shares if share.partition is not None]
        self._node.purgatory.wait(operation, watched, timeout_ms)

    def answer_later(self, slot: Slot, item: Produce, began_ns: int) -> None:
        self._counters.total_time_us.record((perf_counter_ns() - began_ns) // 1000)
        self._channel.answer(slot, [self._answer(item)])

    def _answer(self, item: Produce) -> bytes:
        shape = item.shape
        if shape is not None:
            share = item.shares[0]
            result = share.result
            if share.error is None and result is not None:
                return shape.answer(
                    item.correlation_id,
                    share.index,
                    result.first_offset,
                    result.log_append_time_ms,
                    result.log_start_offset,
                )
            topics = [TopicProduceResponse(name=shape.topic, topic_id=shape.topic_id or bytes(16))]
        else:
            topics = [TopicProduceResponse(name=name, topic_id=topic_id) for name, topic_id in item.topics]
        endpoints: dict[int, NodeEndpoint] = {}
        for share in item.shares:
            topics[share.topic_place].partition_responses.append(self._partition_answer(share, item.header, endpoints))
        header = RequestHeader(
            request_api_key=0,
            request_api_version=item.version,
            correlation_id=item.correlation_id,
        )
        response = ProduceResponse(responses=topics, node_endpoints=list(endpoints.values()))
        if item.version < _LEADER_FROM:
            response.node_endpoints = []
        return b"".join(encode_response(header, response))

    def _partition_answer(
        self, share: Share, header: RequestHeader, endpoints: dict[int, NodeEndpoint]
    ) -> PartitionProduceResponse:
        error, result = share.error, share.result
        if error is None and result is not None:
            return PartitionProduceResponse(
                index=share.index,
                base_offset=result.first_offset,
                log_append_time_ms=result.log_append_time_ms,
                log_start_offset=result.log_start_offset,
            )
        assert error is not None
        self._counters.failed(error.code)
        answer = PartitionProduceResponse(index=share.index, error_code=error.code, base_offset=-1)
        if result is not None and result.error is None:  # it is written, and not acknowledged
            answer.base_offset = result.first_offset
            answer.log_append_time_ms = result.log_append_time_ms
            answer.log_start_offset = result.log_start_offset
        elif result is not None and error.code not in _WITHOUT_LOG_START:
            answer.log_start_offset = result.log_start_offset
        if isinstance(error, InvalidDataError) and error.rejected is not None and share.partition is not None:
            answer.record_errors = list(record_errors(error.rejected, str(share.partition.id)))
        if share.partition is not None:  # a name that somebody made up is not repeated for each of its partitions
            answer.error_message = str(error)
        if error.code == _NOT_LEADER and header.request_api_version >= _LEADER_FROM and share.partition is not None:
            leader = self._node.leader_of(share.partition, self._channel.listener)
            if leader is not None:
                endpoint, epoch = leader
                answer.current_leader = LeaderIdAndEpoch(leader_id=endpoint.node_id, leader_epoch=epoch)
                endpoints[endpoint.node_id] = NodeEndpoint(
                    node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack
                )
        return answer


class DelayedProduce(Operation):
    """Waits until every share is on enough replicas, and on the disk where that was asked for."""

    kind = "Produce"

    def __init__(self, run: ProduceRun, item: Produce, slot: Slot, began_ns: int) -> None:
        self._run = run
        self._item = item
        self._slot = slot
        self._began_ns = began_ns
        self._is_late = False

    def try_complete(self, moved: Watched | None) -> bool:
        if self._is_late:
            self._item.time_out()
        if not self._item.is_settled():
            return False
        self._run.answer_later(self._slot, self._item, self._began_ns)
        return True

    def expire(self) -> None:
        """From now on it only waits for flushes: there is no second timeout."""
        self._is_late = True
        self.is_over = False
        self._run.wait(self, self._item, LONGEST_WAIT_MS)
