"""The cluster as a client sees it: brokers, topics and leaders, and one connection to each broker it talks to.

It begins with the bootstrap addresses, of which one must answer, and learns the others from Metadata. What it knows of
a topic is kept until somebody finds it wrong (`forget`) or it is older than `METADATA_MAX_AGE_S`.

`retry` is how everything in this package tries again: after errors that Kafka calls retriable, with growing pauses and
fresh metadata, until the time given is over; then the last error is raised. Operations inside the attempt share that
time (`within`): a metadata request late in an attempt cannot double it. A topic that nobody knows is not waited for
unless asked: it is more often a wrong name than a new topic.

One thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

from tailrace.client.address import Address, addresses
from tailrace.client.connection import MAX_RESPONSE_BYTES, SOFTWARE_NAME, Connection
from tailrace.client.deadline import Backoff, Deadline
from tailrace.client.errors import (
    LEADER_NOT_AVAILABLE,
    NONE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerUnreachableError,
    error_of,
)
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.message import Request
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

METADATA_MAX_AGE_S: Final = 300.0
DEFAULT_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 10.0
MIN_TIMEOUT_S: Final = 0.001  # a socket takes 0 for "do not block"
NO_LEADER: Final = -1
NO_ID: Final = bytes(16)

T = TypeVar("T")


class Broker(NamedTuple):
    node_id: int
    address: Address
    rack: str | None


class Partition(NamedTuple):
    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class Topic(NamedTuple):
    name: str
    id: bytes
    """NO_ID where the broker is too old to tell."""
    is_internal: bool
    partitions: Mapping[int, Partition]
    learned_at_s: float


class Cluster:
    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        client_id: str = SOFTWARE_NAME,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout_s` is for one operation with all its attempts, wherever no other is given."""
        self.bootstrap = addresses(bootstrap)
        self.client_id = client_id
        self._timeout_s = timeout_s
        self._limit: Deadline | None = None
        self.cluster_id: str | None = None
        self.controller_id = NO_LEADER
        self.brokers: dict[int, Broker] = {}
        self.clock = clock
        self._pause = pause
        self._max_response_bytes = max_response_bytes
        self._topics: dict[str, Topic] = {}
        self._connections: dict[Address, Connection] = {}

    # Connections

    def any_connection(self) -> Connection:
        """To whichever broker answers: one that is open, else of those known, else by the bootstrap addresses."""
        known = [broker.address for broker in self.brokers.values()]
        for address in known:
            connection = self._connections.get(address)
            if connection is not None and not connection.is_closed:
                return connection
        last: TailraceError = BrokerUnreachableError("no broker is known")
        for address in dict.fromkeys([*known, *self.bootstrap]):
            try:
                return self._connection_to(address)
            except BrokerUnreachableError as error:
                last = error
        raise last

    def connection(self, node_id: int) -> Connection:
        return self._connection_to(self._broker(node_id).address)

    def new_connection(self, node_id: int, *, reuses_memory: bool = False) -> Connection:
        """One of the caller's own, for requests that wait long or follow each other; the caller closes it."""
        return self._open(self._broker(node_id).address, reuses_memory=reuses_memory)

    def _broker(self, node_id: int) -> Broker:
        if node_id not in self.brokers:
            self.refresh(())
        broker = self.brokers.get(node_id)
        if broker is None:
            there = ", ".join(map(str, sorted(self.brokers))) or "none"
            raise BrokerUnreachableError(f"there is no broker {node_id}; there are {there}")
        return broker

    def _connection_to(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = self._connections[address] = self._open(address)
        return connection

    def _open(self, address: Address, *, reuses_memory: bool = False) -> Connection:
        return Connection.open(
            address,
            client_id=self.client_id,
            timeout_s=min(self.timeout_s, CONNECT_TIMEOUT_S),
            max_response_bytes=self._max_response_bytes,
            reuses_memory=reuses_memory,
        )

    def close_lost(self) -> None:
        """For who goes on after a long pause: see `Connection.close_if_lost`."""
        for connection in self._connections.values():
            connection.close_if_lost()

    def call(
        self,
        request: Request,
        *,
        node_id: int | None = None,
        timeout_s: float | None = None,
        newest: int | None = None,
    ) -> Any:
        """One attempt; the answer, whatever errors it tells of."""
        connection = self.any_connection() if node_id is None else self.connection(node_id)
        return connection.call(request, self._allowed_s(timeout_s), newest=newest)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Metadata

    def refresh(self, topics: Iterable[str] | None, *, may_create: bool = False) -> MetadataResponse:
        """Ask for these topics, none at all `()`, or every one (None). Errors of single topics stay in the answer."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=may_create)
        response: MetadataResponse = self.call(request)
        if response.error_code != NONE:
            raise error_of(response.error_code)
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            each.node_id: Broker(each.node_id, Address(each.host, each.port), each.rack) for each in response.brokers
        }
        now_s = self.clock()
        for each in response.topics:
            if each.error_code == NONE and each.name is not None:
                partitions = {
                    part.partition_index: Partition(
                        part.partition_index,
                        part.leader_id,
                        part.leader_epoch,
                        tuple(part.replica_nodes),
                        tuple(part.isr_nodes),
                        tuple(part.offline_replicas),
                    )
                    for part in each.partitions
                }
                in_order = dict(sorted(partitions.items()))
                self._topics[each.name] = Topic(each.name, each.topic_id, each.is_internal, in_order, now_s)
            elif each.name is not None:
                self._topics.pop(each.name, None)
        return response

    def topics(self) -> list[Topic]:
        """All there are, by name."""
        response = self.retry("asking which topics there are", lambda: self.refresh(None))
        names = sorted(each.name for each in response.topics if each.name is not None)
        return [self._topics[name] for name in names if name in self._topics]

    def topic(self, name: str, *, may_create: bool = False, waits: bool = False) -> Topic:
        """UnknownTopicOrPartitionError where it is not there; with `waits`, only when it does not come in time."""
        known = self._topics.get(name)
        if known is not None and self.clock() - known.learned_at_s < METADATA_MAX_AGE_S:
            return known

        def ask() -> Topic:
            (answer,) = self.refresh([name], may_create=may_create).topics
            if answer.error_code != NONE:
                raise error_of(answer.error_code, f"topic {name}: {_WHY.get(answer.error_code, 'not to be had')}")
            return self._topics[name]

        return self.retry(f"asking about topic {name}", ask, waits_for_topics=waits or may_create)

    def leader(self, partition: TopicPartition) -> Partition:
        """With a leader that is there; retriable errors where it has none now."""
        topic = self.topic(partition.topic)
        found = topic.partitions.get(partition.partition)
        if found is None:
            self.forget(partition.topic)
            raise error_of(
                UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {partition.topic} has no partition {partition.partition}, but {_partitions(topic)}",
            )
        if found.leader == NO_LEADER:
            self.forget(partition.topic)
            raise error_of(LEADER_NOT_AVAILABLE, f"{partition} has no leader now; its replicas are {found.replicas}")
        return found

    def knows_ids(self, names: Iterable[str]) -> bool:
        """Whether topics may be spoken of by id, as the newest versions of Produce and Fetch do."""
        return all(self.topic(name).id != NO_ID for name in names)

    def forget(self, topic: str) -> None:
        """What is known of it turned out wrong: ask again before it is used next."""
        self._topics.pop(topic, None)

    # Timeouts, and trying again

    @property
    def timeout_s(self) -> float:
        """For one operation with all its attempts; inside `within`, at most what is left there."""
        return self._allowed_s(None)

    def _allowed_s(self, timeout_s: float | None) -> float:
        wanted_s = self._timeout_s if timeout_s is None else timeout_s
        return wanted_s if self._limit is None else max(min(wanted_s, self._limit.left_s), MIN_TIMEOUT_S)

    @contextmanager
    def within(self, deadline: Deadline | None) -> Iterator[None]:
        """No request or retry of the block outlasts `deadline`, or that of an enclosing block; None adds no limit."""
        outer = self._limit
        if deadline is not None and (outer is None or deadline.left_s < outer.left_s):
            self._limit = deadline
        try:
            yield
        finally:
            self._limit = outer

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        return Deadline(self._timeout_s if timeout_s is None else timeout_s, self.clock)

    def backoff(self) -> Backoff:
        return Backoff(self._pause)

    def retry(
        self,
        doing: str,
        attempt: Callable[[], T],
        *,
        timeout_s: float | None = None,
        waits_for_topics: bool = False,
    ) -> T:
        """What `attempt` gives, in the end. BrokerUnreachableError is not waited out before a first contact."""
        deadline, backoff = self.deadline(self._allowed_s(timeout_s)), self.backoff()
        with self.within(deadline):
            while True:
                try:
                    return attempt()
                except TailraceError as error:
                    if not self._may_pass(error, waits_for_topics):
                        raise
                    backoff.wait(deadline)
                    if deadline.is_over:
                        raise

    def _may_pass(self, error: TailraceError, waits_for_topics: bool) -> bool:
        if error.code in (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID) and not waits_for_topics:
            return False
        is_first_contact = isinstance(error, BrokerUnreachableError) and not self.brokers
        return error.retriable and not is_first_contact


_WHY: Final = {
    UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic",
    LEADER_NOT_AVAILABLE: "it has no leader yet",
    17: "no topic can have this name",
    29: "not allowed",
}


def _partitions(topic: Topic) -> str:
    count = len(topic.partitions)
    return "partition 0 only" if count == 1 else f"partitions 0 to {count - 1}"
