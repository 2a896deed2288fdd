"""What everything that sends requests to a cluster has in common: connections by address, timeouts and retries.

`Cluster` reaches brokers, `Controllers` reaches the controllers of the metadata quorum.

`retry` is how everything in this package tries again: after errors that Kafka calls retriable, with growing pauses and
fresh metadata, until the time given is over; then the last error is raised. Operations inside the attempt share that
time (`within`): a metadata request late in an attempt cannot double it. A topic that does not exist is not waited for
unless asked: it is more often a wrong name than a new topic.

One thread.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Self, TypeVar

from tailrace.client.address import Address, addresses
from tailrace.client.connection import MAX_RESPONSE_BYTES, SOFTWARE_NAME, Connection
from tailrace.client.deadline import Backoff, Deadline
from tailrace.client.errors import (
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerUnreachableError,
    ConnectionLostError,
    NoAnswerError,
)
from tailrace.model.errors import TailraceError
from tailrace.protocol.message import Request

DEFAULT_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 10.0
MIN_TIMEOUT_S: Final = 0.001  # a socket takes 0 for "do not block"
NO_LEADER: Final = -1

T = TypeVar("T")


class Broker(NamedTuple):
    """A broker, or a controller with its controller listener."""

    node_id: int
    address: Address
    rack: str | None


class Caller(ABC):
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
        self._connections: dict[Address, Connection] = {}

    # Connections

    @abstractmethod
    def learn_nodes(self) -> None:
        """Ask a node that can be reached which nodes there are: sets `brokers`, `controller_id` and `cluster_id`."""

    def any_connection(self) -> Connection:
        """To a node that responds to requests without a node id."""
        return self._reachable()

    def _reachable(self) -> Connection:
        """To any node that can be reached: an open one, else of those known, else by the bootstrap addresses."""
        known = [broker.address for broker in self.brokers.values()]
        for address in known:
            connection = self._connections.get(address)
            if connection is not None and not connection.is_closed:
                return connection
        last: TailraceError = BrokerUnreachableError("no broker is known")
        for address in dict.fromkeys([*known, *self.bootstrap]):
            try:
                return self._connection_to(address)
            except (BrokerUnreachableError, ConnectionLostError, NoAnswerError) as error:
                last = error  # a proxy accepts connections for a node that is down, and so does a paused one
        raise last

    def connection(self, node_id: int) -> Connection:
        return self._connection_to(self._broker(node_id).address)

    def new_connection(self, node_id: int, *, reuses_memory: bool = False) -> Connection:
        """A separate one, for requests that wait long or follow each other; the caller closes it."""
        return self._open(self._broker(node_id).address, reuses_memory=reuses_memory)

    def _broker(self, node_id: int) -> Broker:
        if node_id not in self.brokers:
            self.learn_nodes()
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
                    self.controller_id = NO_LEADER  # it may be another one now
                    backoff.wait(deadline)
                    if deadline.is_over:
                        raise

    def _may_pass(self, error: TailraceError, waits_for_topics: bool) -> bool:
        if error.code in (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID) and not waits_for_topics:
            return False
        is_first_contact = isinstance(error, BrokerUnreachableError) and not self.brokers
        return error.retriable and not is_first_contact
