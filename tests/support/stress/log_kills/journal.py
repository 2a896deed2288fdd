"""The journal of a process that is going to be killed, and the orders that it gets at its start.

The journal is a file of JSON lines, each written by one call, so that a killed process leaves all it has written. What
is about to be done stands there before it is done, what has succeeded after it:

    ["try", number, partition, producer id, epoch, sequence, kind, codec, records, crc, size]   about to be appended
    ["again", number]                                                       about to be sent again, the same bytes
    ["ack", number, first offset, last offset, is a duplicate, base of the active segment, now]       it was appended
    ["refused", number, error]
    ["forget", partition, offset]          everything below the offset is about to be deleted on demand
    ["start", partition, offset]           the log start that is durable
    ["probe", number, is the producer's newest, outcome, offset]   an acknowledged batch was sent once more
    ["fenced", partition, producer id, outcome]                      of a batch of an epoch that is over
    ["cleaned", partition, records read, records kept]
    ["uncleanable", partition, reason]

A last line without its end was not written: a kill may cut a write short.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tailrace.record.batch import BatchHeader
from tailrace.record.builder import batch_of
from tailrace.record.control import ABORT, COMMIT, end_txn_marker

PLAIN: Final = "plain"
TRANSACTIONAL: Final = "transactional"
COMMITTED: Final = "commit"
ABORTED: Final = "abort"
NO_PRODUCER: Final = -1


class Sent(NamedTuple):
    """A record as a client sends it. Text stands for its Latin-1 bytes."""

    timestamp: int
    key: str | None
    value: str | None
    header: str | None = None


@dataclass
class Attempt:
    """One batch that a client, or the coordinator, wants in the log."""

    number: int
    partition: str
    producer_id: int
    epoch: int
    sequence: int
    kind: str
    codec: int
    records: list[Sent]
    crc: int = 0
    size: int = 0

    @property
    def is_marker(self) -> bool:
        return self.kind in (COMMITTED, ABORTED)

    def batch(self) -> bytearray:
        """Its bytes, the same each time."""
        if self.is_marker:
            return end_txn_marker(
                COMMIT if self.kind == COMMITTED else ABORT,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                coordinator_epoch=0,
                timestamp=self.records[0].timestamp,
            )
        fields: dict[str, Any] = {"codec": self.codec, "transactional": self.kind == TRANSACTIONAL}
        if self.producer_id != NO_PRODUCER:
            fields |= {"producer_id": self.producer_id, "producer_epoch": self.epoch, "base_sequence": self.sequence}
        return batch_of([_as_bytes(record) for record in self.records], **fields)

    def line(self) -> list[Any]:
        batch = self.batch()
        self.crc, self.size = BatchHeader.at(batch).crc, len(batch)
        return ["try", *vars(self).values()]

    @classmethod
    def of(cls, values: list[Any]) -> Attempt:
        attempt = cls(*values)
        attempt.records = [Sent(*record) for record in attempt.records]
        return attempt


def _as_bytes(record: Sent) -> tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]:
    headers = () if record.header is None else (("h", record.header.encode("latin-1")),)
    return record.timestamp, _encoded(record.key), _encoded(record.value), headers


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


@dataclass
class Producer:
    """What a client knows of itself: the sequence to go on with, its last batches, newest last."""

    epoch: int = 0
    sequence: int = 0
    is_in_transaction: bool = False
    recent: list[Attempt] = field(default_factory=list)


@dataclass
class Orders:
    """What clients know when the broker comes back; producers by partition and id. `waiting`: not answered yet."""

    root: str
    run: int
    seed: int
    next_number: int
    producers: dict[str, dict[int, Producer]]
    waiting: list[Attempt]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Orders:
        told = json.loads(path.read_text())
        told["waiting"] = [Attempt.of(list(each.values())) for each in told["waiting"]]
        told["producers"] = {
            name: {int(producer_id): _producer_of(each) for producer_id, each in producers.items()}
            for name, producers in told["producers"].items()
        }
        return cls(**told)


def _producer_of(told: dict[str, Any]) -> Producer:
    told["recent"] = [Attempt.of(list(each.values())) for each in told["recent"]]
    return Producer(**told)


class Journal:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *values: Any) -> None:
        os.write(self._descriptor, json.dumps(values, separators=(",", ":")).encode() + b"\n")


def lines_of(path: Path) -> Iterator[list[Any]]:
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)
