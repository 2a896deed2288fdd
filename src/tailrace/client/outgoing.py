"""Batches on their way to one partition: the one being filled, those that wait, those under way, in this order of age.

A batch gets its sequence when it is closed, and its producer's stamp when it is sent: after a new identity both are
given anew. Answers come in the order of requests, so the oldest batch under way is the one that is answered. Once one
has to go again, nothing more is sent until all that are under way are answered; those that failed then go first, in
their old order: that keeps sequences, and with them the order of records.

The first batch of an identity goes alone. A broker takes whatever sequence comes first from a producer it does not
know: were the first batch refused and the second one not, the first could never be written again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from tailrace.client.deadline import Deadline
from tailrace.client.errors import NoAnswerError
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.record.batch import CRC_AT, crc_of
from tailrace.record.builder import BatchBuilder

PRODUCER_AT: Final = 43
MAX_SEQUENCE: Final = 0x7FFF_FFFF

_PRODUCER: Final = Struct(">qhi")
_CRC: Final = Struct(">I")


class Identity(NamedTuple):
    producer_id: int
    epoch: int


@dataclass(slots=True, eq=False)
class Outgoing:
    """The `number`-th batch of its partition; `sequence` is that of its first record."""

    number: int
    partition: TopicPartition
    data: bytearray
    record_count: int
    sequence: int
    deadline: Deadline
    stamped: Identity | None = None
    cause: TailraceError | None = None
    """Why it is not written; None before it failed, and for a batch refused only because of another."""

    def stamp(self, identity: Identity) -> None:
        if self.stamped != identity:
            _PRODUCER.pack_into(self.data, PRODUCER_AT, identity.producer_id, identity.epoch, self.sequence)
            _CRC.pack_into(self.data, CRC_AT, crc_of(self.data, 0, len(self.data)))
            self.stamped = identity

    def failed(self, error: TailraceError) -> None:
        """A timeout says less than the error before it, and may only come from the deadline."""
        if self.cause is None or not isinstance(error, NoAnswerError):
            self.cause = error


def _number(batch: Outgoing) -> int:
    return batch.number


class Lane:
    """Of one partition."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.open: BatchBuilder | None = None
        self.waiting: deque[Outgoing] = deque()
        self.under_way: deque[Outgoing] = deque()
        self.failed: list[Outgoing] = []
        self._next_sequence = 0
        self._closed = 0
        self._is_known = False
        """The broker has written a batch of this identity."""

    def close(self, deadline: Deadline) -> Outgoing | None:
        """The batch that was being filled, now waiting; None when there was none."""
        builder, self.open = self.open, None
        return None if builder is None else self.add(builder.build(), builder.record_count, deadline)

    def add(self, data: bytearray, record_count: int, deadline: Deadline) -> Outgoing:
        """A whole batch, now waiting behind those that do. None is being filled: it would be overtaken."""
        assert self.open is None, "a batch is being filled"
        self._closed += 1
        batch = Outgoing(self._closed, self.partition, data, record_count, self._next_sequence, deadline)
        self._advance(batch)
        self.waiting.append(batch)
        return batch

    def next(self, max_under_way: int) -> Outgoing | None:
        """What may be sent now."""
        most = max_under_way if self._is_known else 1
        if self.failed or not self.waiting or len(self.under_way) >= most:
            return None
        return self.waiting[0]

    def sent(self) -> Outgoing:
        batch = self.waiting.popleft()
        self.under_way.append(batch)
        return batch

    def is_oldest(self, batch: Outgoing) -> bool:
        """Whether everything before it is acknowledged."""
        return not self.failed and bool(self.under_way) and self.under_way[0] is batch

    @property
    def oldest(self) -> Outgoing | None:
        """The first closed batch that is not acknowledged."""
        return min([*self.under_way, *self.failed, *islice(self.waiting, 1)], key=_number, default=None)

    @property
    def cause(self) -> TailraceError | None:
        """Why batches sent after the failed ones are out of order."""
        return next((batch.cause for batch in self.failed if batch.cause is not None), None)

    def acknowledged(self, batch: Outgoing) -> None:
        self._is_known = True
        self.under_way.remove(batch)
        self._settle()

    def must_go_again(self, batch: Outgoing) -> None:
        self.under_way.remove(batch)
        self.failed.append(batch)
        self._settle()

    def _settle(self) -> None:
        if self.failed and not self.under_way:
            self.waiting.extendleft(sorted(self.failed, key=_number, reverse=True))
            self.failed.clear()

    @property
    def is_settled(self) -> bool:
        """Whether everything that has a sequence is acknowledged."""
        return not (self.waiting or self.under_way or self.failed)

    def discard(self) -> None:
        """Whatever is not acknowledged."""
        self.open = None
        self.waiting.clear()
        self.under_way.clear()
        self.failed.clear()

    def restart_sequences(self) -> None:
        """For a new identity; nothing is under way."""
        self._next_sequence, self._is_known = 0, False
        for batch in self.waiting:
            batch.sequence, batch.stamped = self._next_sequence, None
            self._advance(batch)

    def _advance(self, batch: Outgoing) -> None:
        self._next_sequence = self._next_sequence + batch.record_count & MAX_SEQUENCE
