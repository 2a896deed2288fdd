"""A connection of a producer's own to one broker: Produce requests in a row, and what their answers say of each batch.

A connection that is lost, or gives no answer in time, is an answer too: of every batch under way it is not known
whether it was written. The next request opens another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.connection import Connection
from tailrace.client.errors import NONE, ConnectionLostError, NoAnswerError
from tailrace.client.outgoing import Outgoing
from tailrace.model.errors import TailraceError
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

LAST_BY_NAME: Final = 12  # from version 13 on, Produce speaks of topics by id
LAST_BY_ID: Final = ProduceRequest.VERSIONS[1]
NETWORK_EXCEPTION: Final = 13


class Answer(NamedTuple):
    batch: Outgoing
    error_code: int
    message: str | None = None
    base_offset: int = -1
    log_append_time_ms: int = -1
    error: TailraceError | None = None
    """In place of the code, where it is not the broker that says it."""


class _UnderWay(NamedTuple):
    batches: Sequence[Outgoing]
    names: dict[bytes, str]
    """Of the topics, by id: the answer may know them by that only."""


class ProduceLink:
    def __init__(
        self, cluster: Cluster, node_id: int, *, transactional_id: str | None = None, newest: int | None = None
    ) -> None:
        """`newest` is the newest version of Produce to be used, where not every one means the same."""
        self._cluster = cluster
        self._node_id = node_id
        self._transactional_id = transactional_id
        self._newest = LAST_BY_ID if newest is None else newest
        self._connection: Connection | None = None
        self._under_way: deque[_UnderWay] = deque()

    @property
    def awaited(self) -> int:
        return len(self._under_way)

    def has_answer(self) -> bool:
        return bool(self._under_way) and self._connection is not None and self._connection.has_answer()

    def submit(self, batches: Sequence[Outgoing], acks: int, timeout_s: float) -> Sequence[Answer] | None:
        """None when answers are to come; else what is known at once: all is well (acks=0), or nobody is there."""
        try:
            connection = self._open()
            ids_known = self._cluster.knows_ids({batch.partition.topic for batch in batches})
            request = self._request(batches, acks, timeout_s)
            newest = self._newest if ids_known else min(self._newest, LAST_BY_NAME)
            connection.submit(request, timeout_s, newest=newest, is_answered=acks != 0)
        except TailraceError as error:
            return [*self._lost(error), *_unknown(batches, error)]
        if acks == 0:
            return [Answer(batch, NONE) for batch in batches]
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        self._under_way.append(_UnderWay(batches, names))
        return None

    def receive(self, timeout_s: float) -> Sequence[Answer]:
        """The answers to the oldest request, or to all of them when the connection is lost."""
        assert self._connection is not None, "nothing is under way"
        try:
            _, response = self._connection.receive(timeout_s)
        except (ConnectionLostError, NoAnswerError) as error:
            return self._lost(error)
        assert isinstance(response, ProduceResponse)
        batches, names = self._under_way.popleft()
        said = {
            (topic.name or names.get(topic.topic_id), each.index): each
            for topic in response.responses
            for each in topic.partition_responses
        }
        return [_answer(batch, said.get((batch.partition.topic, batch.partition.partition))) for batch in batches]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _open(self) -> Connection:
        if self._connection is None or self._connection.is_closed:
            self._connection = self._cluster.new_connection(self._node_id)
        return self._connection

    def _lost(self, error: TailraceError) -> list[Answer]:
        self.close()
        batches = [batch for request in self._under_way for batch in request.batches]
        self._under_way.clear()
        return _unknown(batches, error)

    def _request(self, batches: Sequence[Outgoing], acks: int, timeout_s: float) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name = batch.partition.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = TopicProduceData(name=name, topic_id=self._cluster.topic(name).id)
            data = PartitionProduceData(index=batch.partition.partition, records=batch.data)
            topic.partition_data.append(data)
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=acks,
            timeout_ms=int(timeout_s * 1000),
            topic_data=list(topics.values()),
        )


def _answer(batch: Outgoing, said: PartitionProduceResponse | None) -> Answer:
    if said is None:
        error = ConnectionLostError(f"the broker says nothing about {batch.partition}")
        return Answer(batch, NETWORK_EXCEPTION, error=error)
    message = said.error_message
    if said.record_errors:
        first, more = said.record_errors[0], len(said.record_errors) - 1
        message = f"record {first.batch_index}: {first.batch_index_error_message or message}"
        message += f" (and {more} more)" if more else ""
    return Answer(batch, said.error_code, message, said.base_offset, said.log_append_time_ms)


def _unknown(batches: Sequence[Outgoing], error: TailraceError) -> list[Answer]:
    return [Answer(batch, NETWORK_EXCEPTION, error=error) for batch in batches]
