"""Produce requests that may begin a transaction in a partition: appended when its coordinator knows of it.

A request whose partitions all have its transaction open already is one like any other. Any other request is verified
first (`txn_verification`) and then appended by itself. If the coordinator answers at once, as it does on this broker
as a rule, nothing has changed for the connection. If not, the connection is held: the request keeps its records as a
copy and nothing behind it is taken before it is answered, so that no batch overtakes another.

Belongs to one `ProduceRun`.
"""

from __future__ import annotations

import struct
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.broker.produce_request import Produce, Share
from tailrace.broker.produce_rules import refusal
from tailrace.broker.txn_verification import Ability, TransactionalProducer, Verified
from tailrace.model.errors import InvalidProducerIdMappingError, InvalidRequiredAcksError
from tailrace.storage.verification import NO_GUARD

if TYPE_CHECKING:
    from tailrace.broker.channel import Channel
    from tailrace.broker.context import Slot
    from tailrace.broker.produce_run import ProduceRun
    from tailrace.replication.partition import Partition

ACKS: Final = (-1, 0, 1)
_TRANSACTIONAL: Final = 0x10
_HEADER: Final = struct.Struct(">21xh20xqhi4x")  # attributes, producer id, epoch, first sequence


class _First(NamedTuple):
    """A transactional batch, by its header."""

    partition: Partition
    producer_id: int
    epoch: int
    sequence: int


class TransactionalProduces:
    __slots__ = ("_channel", "_run", "_verification")

    def __init__(self, run: ProduceRun, channel: Channel) -> None:
        self._run = run
        self._channel = channel
        self._verification = channel.node.txn_verification

    def take(self, item: Produce) -> bool:
        """False when the request needs nothing from here. Otherwise it is dealt with, now or later."""
        batches = [first for share in item.shares if (first := _first_batch(share, item.version)) is not None]
        if all(each.partition.is_in_transaction(each.producer_id, each.epoch) for each in batches):
            return False
        run, channel = self._run, self._channel
        if not run.is_empty:
            run.finish()  # what was sent before comes before
            if channel.is_failed:
                return True
        began_ns = perf_counter_ns()
        producers = {(each.producer_id, each.epoch) for each in batches}
        if len(producers) > 1:
            error = InvalidProducerIdMappingError("the transactional batches of a request are of several producers")
            for share in item.shares:
                share.error, share.records = error, None
            run.finish_verified(item, began_ns, None)
            return True
        assert item.transactional_id is not None
        producer = TransactionalProducer(item.transactional_id, *producers.pop())
        waiting = _Waiting(self, item, began_ns)
        wanted = [(each.partition, each.sequence) for each in batches]
        self._verification.of_produce(producer, wanted, Ability.of_produce(item.version), waiting.answered)
        if not waiting.is_answered:
            for share in item.shares:
                if share.records is not None:
                    share.records = memoryview(bytearray(share.records))  # the buffer belongs to others soon
            waiting.slot = channel.hold()
        return True

    def go_on(self, item: Produce, verified: Verified, began_ns: int, slot: Slot | None) -> None:
        run, acks = self._run, item.acks
        for share in item.shares:
            partition = share.partition
            if partition is None:
                continue
            share.error = refusal(share.records, item.version, has_transaction=True) or verified.errors.get(partition)
            if share.error is None and acks not in ACKS:
                share.error = InvalidRequiredAcksError(f"acks={acks}: it is -1, 0 or 1")
            if share.error is None:
                run.append_shares(partition, [share], acks, verified.guards.get(partition, NO_GUARD))
            share.records = None
        run.finish_verified(item, began_ns, slot)


class _Waiting:
    """A request between its question and the answer, which comes while the question is asked or later."""

    __slots__ = ("_began_ns", "_item", "_produces", "is_answered", "slot")

    def __init__(self, produces: TransactionalProduces, item: Produce, began_ns: int) -> None:
        self._produces = produces
        self._item = item
        self._began_ns = began_ns
        self.is_answered = False
        self.slot: Slot | None = None

    def answered(self, verified: Verified) -> None:
        self.is_answered = True
        self._produces.go_on(self._item, verified, self._began_ns, self.slot)


def _first_batch(share: Share, version: int) -> _First | None:
    """None where there is no transactional batch of a producer, or none that would be taken."""
    partition, records = share.partition, share.records
    if partition is None or records is None or len(records) < _HEADER.size:
        return None
    attributes, producer_id, epoch, sequence = _HEADER.unpack_from(records)
    if not attributes & _TRANSACTIONAL or producer_id < 0:
        return None
    if refusal(records, version, has_transaction=True) is not None:
        return None
    return _First(partition, producer_id, epoch, sequence)
