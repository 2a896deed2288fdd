"""What the tests ask of every client library, in one vocabulary: records, offsets, topics, groups, transactions.

A driver wraps one library and hides only its spelling. What the server refuses comes out as `RefusedError` with
Kafka's error code, whatever class the library made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

Headers = tuple[tuple[str, bytes], ...]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 20
LARGEST_RECORD_BYTES = 8 << 20  # what writers and readers are set up for
DRIVERS = {  # where the driver of each library is
    "confluent-kafka": ("confluent_driver", "ConfluentDriver"),
    "kafka-python": ("kafka_python_driver", "KafkaPythonDriver"),
    "aiokafka": ("aiokafka_driver", "AioKafkaDriver"),
    "kafkajs": ("kafkajs_driver", "KafkaJsDriver"),
}


class Message(NamedTuple):
    """A record to send."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = 1_700_000_000_000
    headers: Headers = ()


class Stored(NamedTuple):
    """A record as it was read."""

    offset: int
    value: bytes | None
    key: bytes | None
    timestamp_ms: int
    headers: Headers


class RefusedError(Exception):
    """The server's answer was an error."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(f"error {code}: {text}")
        self.code = code


class FencedError(RefusedError):
    """Another producer has taken over, or the coordinator has given this one up."""


INVALID_PRODUCER_EPOCH = 47
PRODUCER_FENCED = 90
FENCED = {INVALID_PRODUCER_EPOCH, PRODUCER_FENCED}


def refusal(code: int, text: str = "") -> RefusedError:
    return (FencedError if code in FENCED else RefusedError)(code, text)


class Driver(Protocol):
    name: str

    def __init__(self, address: str) -> None: ...

    def close(self) -> None: ...


class Writer(Driver, Protocol):
    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        idempotent: bool = False,
        acks: int = -1,
        partition: int | None = 0,
    ) -> list[int]:
        """Their offsets, which are not known without an answer (acks=0). Without a partition the library chooses it."""
        ...


class Reader(Driver, Protocol):
    def read(self, topic: str, count: int, *, offset: int = 0) -> list[Stored]:
        """The first `count` records of partition 0 from `offset` on, by assignment."""
        ...

    def read_at_each(self, topic: str, offsets: Sequence[int]) -> list[Stored]:
        """The record at each offset, by seeking within one assignment."""
        ...

    def read_partitions(self, topic: str, partitions: int, count: int) -> dict[int, list[Stored]]:
        """The first `count` records that come of all partitions together, from their beginnings."""
        ...

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        """Of the first record of partition 0 that is not older."""
        ...

    def bounds(self, topic: str) -> tuple[int, int]:
        """Log start and end of partition 0."""
        ...


class Admin(Driver, Protocol):
    def create_topic(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def topics(self) -> dict[str, int]:
        """Names, and how many partitions each has."""
        ...

    def settings(self, topic: str) -> dict[str, str]: ...

    def set(self, topic: str, settings: Mapping[str, str]) -> None: ...

    def broker_settings(self) -> dict[str, str]: ...

    def delete_records(self, topic: str, before_offset: int) -> None: ...

    def cluster(self) -> tuple[str | None, list[str]]:
        """Its id, where the library tells it, and the addresses of its brokers."""
        ...


class CommittedReader(Driver, Protocol):
    def read_until(self, topic: str, last: bytes, *, committed: bool = True, partition: int = 0) -> list[bytes]:
        """The values from the beginning up to `last`. Unless `committed`, those of transactions that are not, too."""
        ...


class GroupAdmin(Driver, Protocol):
    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The group's offsets by partition, where it has one."""
        ...

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Without being a member."""
        ...

    def groups(self) -> set[str]: ...

    def group_state(self, group: str) -> tuple[str, int]:
        """Its state in capitals, and how many members it has."""
        ...


class TransactionalWriter(Protocol):
    """One producer with a transactional id, from which those before it with the same id are fenced."""

    def begin(self) -> None: ...

    def produce(self, topic: str, messages: Sequence[Message], partition: int = 0) -> None: ...

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Transactor(GroupAdmin, Protocol):
    def transactional(self, transactional_id: str, timeout_ms: int = 60_000) -> TransactionalWriter: ...


def as_pairs(headers: object) -> Headers:
    """Whatever a library calls no headers, and whatever it calls a pair."""
    return tuple((name, bytes(value)) for name, value in headers or ())  # type: ignore[attr-defined]
