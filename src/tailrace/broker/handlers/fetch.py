"""Fetch: records from the logs' files to a consumer, at once or when enough have come.

An error of one partition is that partition's; the others are served. The records themselves are file ranges, which
the connection sends from the file to the socket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.broker.context import RequestContext
from tailrace.broker.fetch_sessions import FetchPlan, Wanted
from tailrace.broker.file_range import FileRange
from tailrace.broker.purgatory import Operation, Watched
from tailrace.model.errors import InvalidRequestError, TailraceError
from tailrace.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tailrace.replication.partition import Partition
from tailrace.replication.read_result import ReadResult
from tailrace.storage.fetch import FetchData, Isolation

if TYPE_CHECKING:
    from tailrace.broker.node import Node

READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final = (0, READ_COMMITTED)
_ERROR_FROM: Final = 7
_TOPIC_IDS_FROM: Final = 13
_ENDPOINTS_FROM: Final = 16
_FOLLOWERS_FROM: Final = 11  # a consumer that says where it is may read from a follower
_TELLS_LEADER: Final = (6, 74)  # NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH

Reply = Callable[[FetchResponse], None]


def handle(node: Node, context: RequestContext, request: FetchRequest, reply: Reply) -> None:
    if request.isolation_level not in ISOLATION_LEVELS:
        error = InvalidRequestError(f"isolation level {request.isolation_level}: it is 0 or 1")
        reply(_refused(request, context.version, error))
        return
    fetch = Fetch(node, context, request, reply)
    if fetch.plan.error is not None:
        reply(FetchResponse(error_code=fetch.plan.error.code))
        return
    served = fetch.read(is_new=True)
    is_in_haste = request.max_wait_ms <= 0 or not fetch.plan.wanted
    if is_in_haste or served.is_enough(fetch.min_bytes) or any(map(fetch.is_all_of_its_segment, served.parts)):
        fetch.answer(served)
        return
    operation = DelayedFetch(fetch, served)
    context.when_dropped(lambda: node.purgatory.abandon(operation))
    node.purgatory.wait(operation, fetch.partitions(), request.max_wait_ms)


def _refused(request: FetchRequest, version: int, error: TailraceError) -> FetchResponse:
    """Before there were topic ids, an error was told of each partition, too."""
    topics = [
        FetchableTopicResponse(
            topic=topic.topic,
            partitions=[_failed(part.partition, error.code) for part in topic.partitions],
        )
        for topic in request.topics
        if version < _TOPIC_IDS_FROM
    ]
    return FetchResponse(error_code=error.code if version >= _ERROR_FROM else 0, responses=topics)


def _failed(index: int, code: int) -> PartitionData:
    return PartitionData(partition_index=index, error_code=code, high_watermark=-1, records=b"")


class Part(NamedTuple):
    """What was found of one partition."""

    wanted: Wanted
    partition: Partition | None
    found: ReadResult | None
    error: TailraceError | None
    withheld_bytes: int = 0
    """Of a first batch that does not fit: they are not returned, but count towards the minimum, as in Kafka."""

    @property
    def available_bytes(self) -> int:
        return self.size + self.withheld_bytes

    @property
    def size(self) -> int:
        if self.found is None or self.found.data.records is None:
            return 0
        return self.found.data.records.size


class Served:
    """All of them together. `cannot_wait`: something must be told now, whatever the size."""

    __slots__ = ("available_bytes", "cannot_wait", "parts")

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self.available_bytes = 0
        self.cannot_wait = False
        for part in parts:
            self.available_bytes += part.available_bytes
            if part.error is not None or (part.found is not None and part.found.diverging is not None):
                self.cannot_wait = True

    def is_enough(self, min_bytes: int) -> bool:
        return self.cannot_wait or self.available_bytes >= min_bytes


class Fetch:
    """One request on its way."""

    def __init__(self, node: Node, context: RequestContext, request: FetchRequest, reply: Reply) -> None:
        self._node = node
        self._context = context
        self.request = request
        self._reply = reply
        self._uses_ids = context.version >= _TOPIC_IDS_FROM
        state = request.replica_state
        self._replica_id = request.replica_id if state is None else state.replica_id
        self._replica_epoch = -1 if state is None else state.replica_epoch
        is_follower = self._replica_id >= 0
        self._max_bytes = request.max_bytes if is_follower else min(request.max_bytes, node.config.fetch_max_bytes)
        self.min_bytes = min(request.min_bytes, self._max_bytes)
        """A response never has more than its maximum: to wait for more would be to wait for the timeout."""
        if is_follower:
            self._isolation = Isolation.LOG_END
        elif request.isolation_level == READ_COMMITTED:
            self._isolation = Isolation.TXN_COMMITTED
        else:
            self._isolation = Isolation.HIGH_WATERMARK
        self.plan: FetchPlan = node.fetch_sessions.plan(
            request, self._uses_ids, is_follower, node.env.clock.monotonic_ms()
        )

    # Reading

    def read(self, *, is_new: bool) -> Served:
        """Read every partition. `is_new` says that the request has just arrived: only then does a follower's fetch
        count as one, as in Kafka. A look for a request that waits changes nothing that is known of the follower."""
        left = self._max_bytes
        parts = []
        is_first = True
        for wanted in self.plan.wanted:
            part = self.read_one(wanted, min(left, wanted.max_bytes), is_first, is_new=is_new)
            parts.append(part)
            size = part.size
            if size:
                is_first = False
                left = max(left - size, 0)
        return Served(parts)

    def read_one(self, wanted: Wanted, max_bytes: int, is_first: bool, *, is_new: bool) -> Part:
        """A batch larger than `max_bytes` is only returned as the first of a response, so that a consumer progresses.

        A later partition whose first batch does not fit returns nothing: the Java consumer fails on a part of a batch.
        """
        partition = None
        try:
            partition = self._partition(wanted)
            found = self._read_partition(partition, wanted, max(max_bytes, 0), is_first, is_new)
        except TailraceError as error:
            return Part(wanted, partition, None, error.with_traceback(None))  # it would hold on to all of the answer
        part = Part(wanted, partition, found, None)
        if found.data.first_entry_incomplete:
            nothing = found._replace(data=FetchData(found.data.start, None))
            return Part(wanted, partition, nothing, None, withheld_bytes=part.size)
        return part

    def _read_partition(
        self, partition: Partition, wanted: Wanted, max_bytes: int, is_first: bool, is_new: bool
    ) -> ReadResult:
        if self._replica_id >= 0 and not is_new:
            return partition.look_as_follower(
                self._replica_id,
                wanted.offset,
                max_bytes,
                is_first,
                current_leader_epoch=wanted.current_leader_epoch,
                last_fetched_epoch=wanted.last_fetched_epoch,
            )
        if self._replica_id >= 0:
            return partition.read_as_follower(
                self._replica_id,
                wanted.offset,
                max_bytes,
                is_first,
                log_start_offset=wanted.log_start_offset,
                broker_epoch=self._replica_epoch,
                current_leader_epoch=wanted.current_leader_epoch,
                last_fetched_epoch=wanted.last_fetched_epoch,
            )
        return partition.read(
            wanted.offset,
            max_bytes,
            self._isolation,
            is_first,
            current_leader_epoch=wanted.current_leader_epoch,
            last_fetched_epoch=wanted.last_fetched_epoch,
            leader_only=self._context.version < _FOLLOWERS_FROM,
        )

    def _partition(self, wanted: Wanted) -> Partition:
        replicas = self._node.replicas
        if self._uses_ids:
            return replicas.partition_by_id(wanted.topic_id, wanted.index)
        return replicas.partition(wanted.topic, wanted.index)

    def is_all_of_its_segment(self, part: Part) -> bool:
        """Whether the rest is in later segments: an answer never goes beyond one, so waiting would add nothing."""
        if not part.size or part.partition is None or part.found is None:
            return False
        end = part.partition.readable_end(self._isolation)
        return part.found.data.start.segment_base < end.segment_base

    def partitions(self) -> list[Partition]:
        """Those that exist, to be watched."""
        found = []
        for wanted in self.plan.wanted:
            try:
                found.append(self._partition(wanted))
            except TailraceError:
                continue
        return found

    def key(self, wanted: Wanted) -> Partition | None:
        try:
            return self._partition(wanted)
        except TailraceError:
            return None

    # Answering

    def answer(self, served: Served) -> None:
        plan = self.plan
        session = plan.session
        topics: list[FetchableTopicResponse] = []
        endpoints: dict[int, NodeEndpoint] = {}
        for part in served.parts:
            data = self._data(part, endpoints)
            wanted = part.wanted
            if session is not None:
                is_news = _is_news(wanted, data, part.size)
                wanted.told_high_watermark, wanted.told_log_start = data.high_watermark, data.log_start_offset
                if part.size:
                    session.served(wanted)
                if data.error_code:
                    wanted.told_high_watermark = -1  # it is told again when it has recovered
                if plan.is_incremental and not is_news:
                    continue
            self._count(part)
            if not topics or topics[-1].topic != wanted.topic or topics[-1].topic_id != wanted.topic_id:
                topics.append(FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id))
            topics[-1].partitions.append(data)
        response = FetchResponse(session_id=session.id if session is not None else 0, responses=topics)
        if endpoints and self._context.version >= _ENDPOINTS_FROM and self._replica_id < 0:
            response.node_endpoints = list(endpoints.values())
        self._reply(response)

    def _data(self, part: Part, endpoints: dict[int, NodeEndpoint]) -> PartitionData:
        found, error = part.found, part.error
        index = part.wanted.index
        if error is not None or found is None:
            code = error.code if error is not None else -1
            data = _failed(index, code)
            if part.partition is not None:
                data.aborted_transactions = None
                if code in _TELLS_LEADER and self._context.version >= _ENDPOINTS_FROM:
                    self._tell_leader(part.partition, data, endpoints)
            return data
        data = PartitionData(
            partition_index=index,
            high_watermark=found.high_watermark,
            last_stable_offset=found.last_stable_offset,
            log_start_offset=found.log_start_offset,
            records=b"",
        )
        if found.diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=found.diverging[0], end_offset=found.diverging[1])
        elif found.data.records is not None:
            data.records = FileRange(found.data.records)
        if self._isolation is Isolation.TXN_COMMITTED:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset)
                for txn in found.data.aborted or ()
            ]
        else:
            data.aborted_transactions = None
        return data

    def _tell_leader(self, partition: Partition, data: PartitionData, endpoints: dict[int, NodeEndpoint]) -> None:
        leader = self._node.leader_of(partition, self._context.listener)
        if leader is not None:
            endpoint, epoch = leader
            data.current_leader = LeaderIdAndEpoch(leader_id=endpoint.node_id, leader_epoch=epoch)
            endpoints[endpoint.node_id] = NodeEndpoint(
                node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack
            )

    def _count(self, part: Part) -> None:
        if part.partition is None:
            return
        topic = self._node.counters.topic(part.partition.topic)
        topic.fetch_requests += 1
        if part.error is not None:
            topic.failed_fetch_requests += 1
        elif self._replica_id < 0:
            topic.bytes_out += part.size
        else:
            self._node.counters.replication_bytes_out += part.size


def _is_news(wanted: Wanted, data: PartitionData, size: int) -> bool:
    return (
        size > 0
        or data.error_code != 0
        or data.high_watermark != wanted.told_high_watermark
        or data.log_start_offset != wanted.told_log_start
        or data.diverging_epoch is not None
    )


class DelayedFetch(Operation):
    """Waits for `min_bytes`. Only the partition that has moved is looked at again."""

    kind = "Fetch"

    def __init__(self, fetch: Fetch, served: Served) -> None:
        self._fetch = fetch
        self._size = served.available_bytes
        self._sizes: dict[Partition, int] = {}
        self._wanted: dict[Partition, Wanted] = {}
        for part in served.parts:
            if part.partition is not None:
                self._sizes[part.partition] = part.available_bytes
                self._wanted[part.partition] = part.wanted

    def try_complete(self, moved: Watched | None) -> bool:
        if moved is None:
            return False
        assert isinstance(moved, Partition)
        wanted = self._wanted[moved]
        if self._fetch.key(wanted) is not moved:  # deleted, or made anew
            self._answer()
            return True
        part = self._fetch.read_one(wanted, wanted.max_bytes, True, is_new=False)
        self._size += part.available_bytes - self._sizes[moved]
        self._sizes[moved] = part.available_bytes
        is_enough = Served([part]).cannot_wait or self._size >= self._fetch.min_bytes
        if is_enough or self._fetch.is_all_of_its_segment(part):
            self._answer()
            return True
        return False

    def expire(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self._fetch.answer(self._fetch.read(is_new=False))
