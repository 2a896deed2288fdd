"""What a broker counts while it works, under Kafka's names: topics, requests, connections, its own state.

Who counts does it on plain int attributes (`topic.bytes_in += n`), once for all requests of a read where it can: that
is all the request's path pays. Names and tags are put on when somebody reads.

    topic = metrics.topic("orders")         kept with the partition, not looked up for each request
    topic.bytes_in += 65_536
    metrics.produced(topic, bytes, records) the same for all that a successful append counts

    api = metrics.api(request.key)          one a kind of request; `metrics.fetch(is_follower)` for Fetch
    api.requests[version] += 1
    api.total_time_us.record(elapsed_us)
    api.answered(response)                  for the errors in it, or api.failed(code) for one

Who may call: the node's thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from operator import add, attrgetter
from typing import Final

from tailrace.broker.answer_errors import error_codes
from tailrace.broker.byte_budget import ByteBudget
from tailrace.metrics.count import Count
from tailrace.metrics.distribution import Distribution
from tailrace.metrics.gauge import Gauge
from tailrace.metrics.histogram import Histogram
from tailrace.metrics.metrics import Sample
from tailrace.metrics.row import Columns, Row
from tailrace.model.error_names import error_name
from tailrace.model.errors import (
    CorruptMessageError,
    InvalidDataError,
    MessageTooLargeError,
    ProducerError,
    RecordListTooLargeError,
    TailraceError,
)
from tailrace.model.record_rules import NO_KEY
from tailrace.protocol.apis import APIS, FETCH
from tailrace.protocol.message import Response

SERVER: Final = "server"
NETWORK: Final = "network"
TOPICS: Final = "BrokerTopicMetrics"
REQUESTS: Final = "RequestMetrics"
SOCKETS: Final = "socket-server-metrics"
SOCKET_SERVER: Final = "SocketServer"

VERSIONS: Final = 1 + max(api.last_version for api in APIS.values())

# Attribute of TopicMetrics → Kafka's meter.
TOPIC_METERS: Final = {
    "messages_in": "MessagesInPerSec",
    "bytes_in": "BytesInPerSec",
    "bytes_out": "BytesOutPerSec",
    "bytes_rejected": "BytesRejectedPerSec",
    "produce_requests": "TotalProduceRequestsPerSec",
    "fetch_requests": "TotalFetchRequestsPerSec",
    "failed_produce_requests": "FailedProduceRequestsPerSec",
    "failed_fetch_requests": "FailedFetchRequestsPerSec",
    "produce_conversions": "ProduceMessageConversionsPerSec",
    "no_key_records": "NoKeyCompactedTopicRecordsPerSec",
    "invalid_magic_records": "InvalidMagicNumberRecordsPerSec",
    "invalid_crc_records": "InvalidMessageCrcRecordsPerSec",
    "invalid_offset_records": "InvalidOffsetOrSequenceRecordsPerSec",
}
# Attribute of BrokerMetrics → Kafka's meter, for what is not counted by topic.
BROKER_METERS: Final = {
    "replication_bytes_in": "ReplicationBytesInPerSec",
    "replication_bytes_out": "ReplicationBytesOutPerSec",
    "reassignment_bytes_in": "ReassignmentBytesInPerSec",
    "reassignment_bytes_out": "ReassignmentBytesOutPerSec",
}
# Attribute of ListenerMetrics → attribute of Kafka's socket-server-metrics. Refused ones Kafka does not count.
LISTENER_METERS: Final = {
    "connections_opened": "connection-creation-total",
    "connections_closed": "connection-close-total",
    "connections_refused": "connection-refused-total",
}
_BY_TOPIC: Final = Columns(SERVER, TOPICS, tuple(TOPIC_METERS.values()), ("topic",), are_counts=True)
_topic_counts = attrgetter(*TOPIC_METERS)


class BrokerState(IntEnum):
    """As Kafka counts them, leaving out 4 and 5."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class TopicMetrics:
    """One topic's counts since the broker started. `bytes_in` and `messages_in` are of what was appended."""

    __slots__ = ("name", *TOPIC_METERS)

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0  # to consumers; to followers they are replication_bytes_out
        self.bytes_rejected = 0
        self.produce_requests = 0
        self.fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0
        self.produce_conversions = 0
        self.no_key_records = 0
        self.invalid_magic_records = 0
        self.invalid_crc_records = 0
        self.invalid_offset_records = 0

    def refused(self, error: TailraceError, size: int) -> None:
        """A set of `size` bytes was not appended."""
        self.failed_produce_requests += 1
        if isinstance(error, MessageTooLargeError | RecordListTooLargeError):
            self.bytes_rejected += size
        elif isinstance(error, CorruptMessageError):
            self.invalid_crc_records += 1
        elif isinstance(error, ProducerError):
            self.invalid_offset_records += 1
        elif isinstance(error, InvalidDataError) and error.rejected is not None:
            self.no_key_records += error.rejected.count_of(NO_KEY)


class ApiMetrics:
    """One kind of request. `requests` has a place a version; `errors` counts by Kafka's error code, without NONE."""

    __slots__ = ("errors", "name", "requests", "total_time_us")

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = [0] * VERSIONS
        self.errors: dict[int, int] = {}
        self.total_time_us = Histogram()  # from the last byte of the request to the first of the answer handed on

    def failed(self, code: int) -> None:
        if code:
            self.errors[code] = self.errors.get(code, 0) + 1

    def answered(self, response: Response) -> None:
        """Counts the errors in it."""
        for code in error_codes(response):
            self.failed(code)

    def add(self, other: ApiMetrics) -> None:
        self.requests = [mine + more for mine, more in zip(self.requests, other.requests, strict=True)]
        for code, count in other.errors.items():
            self.errors[code] = self.errors.get(code, 0) + count
        self.total_time_us.add(other.total_time_us)

    def read(self) -> Iterator[Sample]:
        """ErrorsPerSec has the error NONE too: the requests that are left when each error has one."""
        asked = sum(self.requests)
        if not asked:
            return
        request = ("request", self.name)
        for version, count in enumerate(self.requests):
            if count:
                yield Count(NETWORK, REQUESTS, "RequestsPerSec", count, (request, ("version", str(version))))
        errors = {0: max(asked - sum(self.errors.values()), 0), **self.errors}
        for code, count in errors.items():
            yield Count(NETWORK, REQUESTS, "ErrorsPerSec", count, (request, ("error", error_name(code))))
        time_us = self.total_time_us
        yield Distribution(NETWORK, REQUESTS, "TotalTimeMs", tuple(time_us.counts), time_us.total, (request,))


class ListenerMetrics:
    """The connections of one listener. `connections` is how many are open now, the others only grow."""

    __slots__ = ("connections", "name", *LISTENER_METERS)

    def __init__(self, name: str) -> None:
        self.name = name
        self.connections = 0
        self.connections_opened = 0
        self.connections_closed = 0
        self.connections_refused = 0  # over a limit


class BrokerMetrics:
    def __init__(self) -> None:
        self._topics: dict[str, TopicMetrics] = {}
        self._gone = TopicMetrics("")  # what topics had counted that are deleted: totals never fall
        self.fetch_consumer = ApiMetrics("FetchConsumer")
        self.fetch_follower = ApiMetrics("FetchFollower")
        self._apis = {FETCH: self.fetch_consumer}
        self._listeners: dict[str, ListenerMetrics] = {}
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.reassignment_bytes_in = 0
        self.reassignment_bytes_out = 0
        self.broker_state = BrokerState.NOT_RUNNING
        self.budget: ByteBudget | None = None  # the server's, for large requests
        self.expired_connections = 0  # closed after `connections.max.idle.ms`

    def topic(self, name: str) -> TopicMetrics:
        return self._topics.get(name) or self._topics.setdefault(name, TopicMetrics(name))

    def forget_topic(self, name: str) -> None:
        """It is deleted. Again is fine."""
        gone = self._topics.pop(name, None)
        if gone is not None:
            for attribute in TOPIC_METERS:
                setattr(self._gone, attribute, getattr(self._gone, attribute) + getattr(gone, attribute))

    def api(self, key: int) -> ApiMetrics:
        """A Fetch counts as a consumer's; who knows better asks `fetch`."""
        return self._apis.get(key) or self._apis.setdefault(key, ApiMetrics(APIS[key].name))

    def fetch(self, is_follower: bool) -> ApiMetrics:
        return self.fetch_follower if is_follower else self.fetch_consumer

    def listener(self, name: str) -> ListenerMetrics:
        return self._listeners.get(name) or self._listeners.setdefault(name, ListenerMetrics(name))

    def produced(self, topic: TopicMetrics, appended_bytes: int, records: int) -> None:
        """One partition of one produce request was appended."""
        topic.produce_requests += 1
        topic.bytes_in += appended_bytes
        topic.messages_in += records

    def produce_failed(self, topic: TopicMetrics) -> None:
        topic.produce_requests += 1
        topic.failed_produce_requests += 1

    def fetched(self, topic: TopicMetrics, sent_bytes: int) -> None:
        """One partition of one consumer's fetch was answered."""
        topic.fetch_requests += 1
        topic.bytes_out += sent_bytes

    def fetch_failed(self, topic: TopicMetrics) -> None:
        topic.fetch_requests += 1
        topic.failed_fetch_requests += 1

    def read(self) -> Iterator[Sample]:
        """All of it; a source for Metrics. What a topic or a request has never met is left out, as in Kafka."""
        yield Gauge(SERVER, "KafkaServer", "BrokerState", self.broker_state)
        yield from self._read_topics()
        yield from self._read_requests()
        yield from self._read_connections()

    def _read_topics(self) -> Iterator[Sample]:
        totals = list(_topic_counts(self._gone))
        for topic in list(self._topics.values()):
            counts = _topic_counts(topic)
            totals = list(map(add, totals, counts))
            yield Row(_BY_TOPIC, (topic.name,), counts)
        for name, total in zip(_BY_TOPIC.names, totals, strict=True):
            yield Count(SERVER, TOPICS, name, total)
        for attribute, name in BROKER_METERS.items():
            yield Count(SERVER, TOPICS, name, getattr(self, attribute))

    def _read_requests(self) -> Iterator[Sample]:
        fetch = ApiMetrics("Fetch")
        for part in (self.fetch_consumer, self.fetch_follower):
            fetch.add(part)
        for api in (*self._apis.values(), self.fetch_follower, fetch):
            yield from api.read()

    def _read_connections(self) -> Iterator[Sample]:
        """Kafka shows these for each of its network threads; there is one here, number 0."""
        for listener in self._listeners.values():
            tags = (("listener", listener.name), ("networkProcessor", "0"))
            yield Gauge(SERVER, SOCKETS, "connection-count", listener.connections, tags)
            for attribute, name in LISTENER_METERS.items():
                yield Count(SERVER, SOCKETS, name, getattr(listener, attribute), tags)
        yield Gauge(NETWORK, SOCKET_SERVER, "ExpiredConnectionsKilledCount", self.expired_connections)
        if self.budget is not None:
            yield Gauge(NETWORK, SOCKET_SERVER, "MemoryPoolUsed", self.budget.held_bytes)
            yield Gauge(NETWORK, SOCKET_SERVER, "MemoryPoolAvailable", self.budget.left_bytes)
