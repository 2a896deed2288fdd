"""Transactional producers: they write, commit or abort, are replaced while they still run, and try again.

A transaction has a number of its own. Its records say who wrote them: `id/transaction/partition/place`. With it goes
the number of the transaction as the committed offset of a group that the transactional id has for itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.stress.simulated.network import FaultyNetwork
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tailrace.record.builder import batch_of

TOPIC = "orders"
TIMEOUT_MS = 60_000
PATIENCE_MS = 5_000
DUPLICATE = 46
TRY_AGAIN = (7, 14, 15, 16, 19, 51)
"""Timed out, loading, not available, elsewhere, too few replicas, concurrent transactions."""


@dataclass
class Transaction:
    """What was asked for, and what the broker has said to it."""

    id: str
    number: int
    producer_id: int
    epoch: int
    is_to_commit: bool
    partitions: list[int]
    has_offset: bool
    written: dict[int, list[str]] = field(default_factory=dict)
    """Values that were acknowledged, by partition."""
    sent: set[str] = field(default_factory=set)
    is_offset_written: bool = False


class TransactionalProducer:
    """One life of a transactional id. Steps follow each other; a step without an answer is repeated as it was."""

    def __init__(
        self,
        transactional_id: str,
        life: int,
        net: FaultyNetwork,
        is_new: bool,
        begin: Callable[[TransactionalProducer], Transaction],
    ) -> None:
        """`is_new` speaks as clients of KIP-890 do: a new epoch for each transaction, nothing announced."""
        self.id = transactional_id
        self.name = f"{transactional_id}.{life}"
        self.net = net
        self.random: random.Random = net.random
        self.is_new = is_new
        self.producer_id = -1
        self.epoch = -1
        self.is_over = False
        self.transaction: Transaction | None = None
        self._begin = begin
        self._steps: list[tuple[Any, int, Callable[[Any], int], bool]] = []
        self._sequences: dict[int, int] = {}
        self._asked_ms: int | None = None
        self._questions = 0

    def __str__(self) -> str:
        return self.name

    def act(self) -> None:
        if self.is_over or (self._asked_ms is not None and self.net.now_ms - self._asked_ms < PATIENCE_MS):
            return
        if self._asked_ms is not None and self.random.random() < 0.3:
            self._lose_patience()
        if not self._steps:
            self._plan()
        request, version, heard, is_exact = self._steps[0]
        self._questions += 1
        number = self._questions
        self._asked_ms = self.net.now_ms

        def answered(response: Any) -> None:
            if number != self._questions or self._asked_ms is None:
                return
            self._asked_ms = None
            code = heard(response)
            if code in (0, DUPLICATE):
                self._steps.pop(0)
            elif code not in TRY_AGAIN:
                self.net.note(f"{self} is over: {code}")
                self.is_over = True

        self.net.post(self, request, version, answered, is_exact=is_exact)

    def _plan(self) -> None:
        if self.producer_id < 0:
            request = InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=TIMEOUT_MS)
            self._steps.append((request, 5, self._began, False))
            return
        done = self.transaction = self._begin(self)
        if not self.is_new:
            topic = AddPartitionsToTxnTopic(name=TOPIC, partitions=done.partitions)
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[topic],
            )
            self._steps.append((request, 3, _worst_of_partitions, True))
        for partition in done.partitions:
            for _ in range(self.random.randrange(1, 3)):
                self._plan_produce(done, partition)
        if done.has_offset:
            self._plan_offset(done)
        self._plan_end(done.is_to_commit)

    def _plan_end(self, is_commit: bool) -> None:
        end = EndTxnRequest(
            transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, committed=is_commit
        )
        # A late second copy could end the next transaction of an old client: what new ones were made for.
        self._steps.append((end, 5 if self.is_new else 4, self._ended, not self.is_new))

    def _lose_patience(self) -> None:
        """Abort, while what was sent may still be under way. Older clients then ask for a new epoch themselves."""
        if self.transaction is None or not isinstance(self._steps[0][0], ProduceRequest):
            return
        self.net.note(f"{self} gives its transaction up")
        self.transaction.is_to_commit = False
        self._steps.clear()
        self._plan_end(is_commit=False)
        if not self.is_new:
            request = InitProducerIdRequest(
                transactional_id=self.id,
                transaction_timeout_ms=TIMEOUT_MS,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
            )
            self._steps.append((request, 5, self._began, False))

    def _plan_produce(self, transaction: Transaction, partition: int) -> None:
        count = self.random.randrange(1, 4)
        place = len(transaction.sent)
        values = [f"{self.id}/{transaction.number}/{partition}/{place + at}" for at in range(count)]
        transaction.sent.update(values)
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + count
        records = batch_of(
            [(self.net.now_ms, None, value.encode()) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=records)])
        request = ProduceRequest(transactional_id=self.id, acks=-1, timeout_ms=1000, topic_data=[data])

        def heard(response: Any) -> int:
            code: int = response.responses[0].partition_responses[0].error_code
            if code in (0, DUPLICATE):
                transaction.written.setdefault(partition, []).extend(values)
            return code

        self._steps.append((request, 12 if self.is_new else 11, heard, False))

    def _plan_offset(self, transaction: Transaction) -> None:
        group = group_of(self.id)
        if not self.is_new:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group
            )
            self._steps.append((request, 4, lambda response: int(response.error_code), True))
        part = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=transaction.number, committed_metadata=""
        )
        commit = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[part])],
        )

        def heard(response: Any) -> int:
            code: int = response.topics[0].partitions[0].error_code
            transaction.is_offset_written = transaction.is_offset_written or not code
            return code

        self._steps.append((commit, 5 if self.is_new else 4, heard, not self.is_new))

    def _began(self, response: Any) -> int:
        if not response.error_code:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self._sequences.clear()
        return int(response.error_code)

    def _ended(self, response: Any) -> int:
        if not response.error_code and self.is_new:
            if (response.producer_id, response.producer_epoch) != (self.producer_id, self.epoch):
                self._sequences.clear()
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return int(response.error_code)


def group_of(transactional_id: str) -> str:
    return f"group of {transactional_id}"


def _worst_of_partitions(response: Any) -> int:
    codes = [
        part.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    ]
    return next((code for code in codes if code), 0)
