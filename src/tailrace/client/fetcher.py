"""Bytes of partitions from their leaders: Fetch requests, and what came back as it is.

A request asks one leader for all its partitions and may wait there for more to come; one to each leader may be under
way. `submit` asks, `receive` gives what has arrived; `fetch` is both. Errors of a partition are in its `Fetched`: the
caller knows what to do about them.

One thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.connection import Connection, wait_for
from tailrace.client.deadline import Deadline
from tailrace.client.errors import NONE, error_of
from tailrace.client.offsets import CONSUMER, READ_UNCOMMITTED
from tailrace.env.files import Buffer
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

LAST_BY_NAME: Final = 12  # from version 13 on, Fetch speaks of topics by id
MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 50 << 20
PARTITION_MAX_BYTES: Final = 1 << 20


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class Fetched(NamedTuple):
    """`records` is a view of whole batches, and maybe the beginning of another; they may begin before `offset`."""

    partition: TopicPartition
    offset: int
    """That was asked for."""
    records: Buffer
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]
    error: TailraceError | None


class _UnderWay(NamedTuple):
    connection: Connection
    asked: Mapping[TopicPartition, int]
    names: Mapping[bytes, str]
    since_s: float


class Fetcher:
    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation: int = READ_UNCOMMITTED,
        max_wait_ms: int = MAX_WAIT_MS,
        min_bytes: int = 1,
        max_bytes: int = MAX_BYTES,
        partition_max_bytes: int = PARTITION_MAX_BYTES,
        rack: str = "",
        reuses_memory: bool = False,
    ) -> None:
        """With `reuses_memory`, records of a leader are good until its next answer is received."""
        self._cluster = cluster
        self.isolation = isolation
        self.max_wait_ms = max_wait_ms
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._rack = rack
        self._reuses_memory = reuses_memory
        self._links: dict[int, Connection] = {}
        self._under_way: dict[int, _UnderWay] = {}

    @property
    def is_waiting(self) -> bool:
        return bool(self._under_way)

    @property
    def waited_s(self) -> float:
        """How long the oldest unanswered request has waited; 0 if all are answered."""
        now_s = self._cluster.clock()
        return max((now_s - under_way.since_s for under_way in self._under_way.values()), default=0.0)

    def submit(
        self,
        positions: Mapping[TopicPartition, int],
        max_wait_ms: int | None = None,
        partition_max_bytes: int | None = None,
    ) -> None:
        """Ask for these from these offsets on; leaders that still owe an answer are left out."""
        wait_ms = self.max_wait_ms if max_wait_ms is None else max_wait_ms
        part_bytes = self._partition_max_bytes if partition_max_bytes is None else partition_max_bytes
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition, offset in positions.items():
            leader = self._cluster.leader(partition).leader
            if leader not in self._under_way:
                by_leader.setdefault(leader, {})[partition] = offset
        for node_id, asked in by_leader.items():
            connection = self._link(node_id)
            request = self._request(asked, wait_ms, part_bytes)
            names = {topic.topic_id: topic.topic for topic in request.topics}
            newest = None if self._cluster.knows_ids({each.topic for each in asked}) else LAST_BY_NAME
            connection.submit(request, self._cluster.timeout_s, newest=newest)
            self._under_way[node_id] = _UnderWay(connection, asked, names, self._cluster.clock())

    def receive(self, timeout_s: float) -> list[Fetched]:
        """From the leaders that have answered; nothing when none has in time. After an error, `abandon`."""
        links = {under_way.connection: node_id for node_id, under_way in self._under_way.items()}
        ready = wait_for(links, timeout_s) if links else []
        fetched: list[Fetched] = []
        for connection in ready:
            under_way = self._under_way.pop(links[connection])
            try:
                _, response = connection.receive(self._cluster.timeout_s)
            except TailraceError:
                connection.close()  # half an answer may be there: the next one must not be taken for it
                raise
            assert isinstance(response, FetchResponse)
            if response.error_code != NONE:
                raise error_of(response.error_code, f"fetching from {connection.address}")
            fetched += _taken(response, under_way)
        return fetched

    def fetch(
        self,
        positions: Mapping[TopicPartition, int],
        max_wait_ms: int | None = None,
        partition_max_bytes: int | None = None,
    ) -> list[Fetched]:
        """Ask, and wait until every leader has answered."""
        deadline = Deadline(self._cluster.timeout_s)
        fetched: list[Fetched] = []
        try:
            self.submit(positions, max_wait_ms, partition_max_bytes)
            while self._under_way:
                fetched += self.receive(deadline.check("fetching"))
        except TailraceError:
            self.abandon()
            raise
        return fetched

    def abandon(self) -> None:
        """Give up what is under way: its answers have nobody who waits for them."""
        for under_way in self._under_way.values():
            under_way.connection.close()
        self._under_way.clear()

    def close_lost(self) -> None:
        """For who goes on after a long pause: see `Connection.close_if_lost`."""
        for connection in self._links.values():
            connection.close_if_lost()

    def close(self) -> None:
        self._under_way.clear()
        for connection in self._links.values():
            connection.close()

    def _link(self, node_id: int) -> Connection:
        connection = self._links.get(node_id)
        if connection is None or connection.is_closed:
            connection = self._links[node_id] = self._cluster.new_connection(node_id, reuses_memory=self._reuses_memory)
        return connection

    def _request(self, asked: Mapping[TopicPartition, int], max_wait_ms: int, partition_max_bytes: int) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for partition, offset in asked.items():
            topic = topics.get(partition.topic)
            if topic is None:
                topic_id = self._cluster.topic(partition.topic).id
                topic = topics[partition.topic] = FetchTopic(topic=partition.topic, topic_id=topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=self._cluster.leader(partition).leader_epoch,
                    fetch_offset=offset,
                    partition_max_bytes=partition_max_bytes,
                )
            )
        return FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=self.isolation,
            topics=list(topics.values()),
            rack_id=self._rack,
        )


def _taken(response: FetchResponse, under_way: _UnderWay) -> Sequence[Fetched]:
    fetched = []
    for topic in response.responses:
        name = topic.topic or under_way.names.get(topic.topic_id, "")
        for each in topic.partitions:
            partition = TopicPartition(name, each.partition_index)
            if partition in under_way.asked:  # a broker that answers what nobody asked is not heard
                fetched.append(_fetched(partition, under_way.asked[partition], each))
    return fetched


def _fetched(partition: TopicPartition, offset: int, data: PartitionData) -> Fetched:
    error = None
    if data.error_code != NONE:
        error = error_of(data.error_code, f"fetching {partition} from offset {offset}")
    return Fetched(
        partition,
        offset,
        b"" if data.records is None else data.records,
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
        tuple(AbortedTransaction(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()),
        error,
    )
