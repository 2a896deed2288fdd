"""Transactions under faults, and what must hold.

nothing aborted is read       a reader of committed records sees none of a transaction that did not commit
nothing is torn               of a transaction that did, it sees every record, in all partitions, and its offset
nothing twice                 whatever was sent again
nothing hangs                 at the end, every partition is stable to its end
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from support.stress.fault_schedule import BrokerSchedule
from support.stress.simulated.network import Delivery
from support.stress.simulated.producers import TOPIC, Transaction, TransactionalProducer, group_of
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tailrace.record.control import ABORT, control_of
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches

PARTITIONS = 3
IDS = ("a", "b", "c")
COMMITTED, ABORTED, OPEN, UNKNOWN = "committed", "aborted", "open", "unknown"
READ_COMMITTED = 1


class Fates:
    """What the broker has said of each transaction."""

    def __init__(self) -> None:
        self.transactions: dict[tuple[str, int, int], Transaction] = {}
        """By transactional id, producer id and epoch: who ends it. Older clients keep the epoch: the last counts."""
        self.all: list[Transaction] = []
        self.fates: dict[int, str] = {}

    def begun(self, transaction: Transaction) -> None:
        self.all.append(transaction)
        self.transactions[transaction.id, transaction.producer_id, transaction.epoch] = transaction
        self.fates[transaction.number] = OPEN

    def _of(self, delivery: Delivery) -> Transaction | None:
        request = delivery.request
        if not isinstance(request, EndTxnRequest):
            return None
        return self.transactions.get((request.transactional_id, request.producer_id, request.producer_epoch))

    def delivered(self, delivery: Delivery) -> None:
        transaction = self._of(delivery)
        if transaction is not None and self.fates[transaction.number] == OPEN:
            self.fates[transaction.number] = UNKNOWN  # until it has answered

    def answered(self, delivery: Delivery, response: Any) -> None:
        transaction = self._of(delivery)
        if transaction is not None and not response.error_code:
            self.fates[transaction.number] = COMMITTED if transaction.is_to_commit else ABORTED

    def unanswered(self, delivery: Delivery) -> None:
        pass


class TransactionStress(BrokerSchedule):
    clients: list[TransactionalProducer]
    pauses_ms = (0, 0, 20, 200, 3_000)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.fates = Fates()
        settings = {"offsets_topic_num_partitions": "2", "transaction_state_log_num_partitions": "2"}
        self.connect(self.fates, TOPIC, PARTITIONS, **settings)
        for key_type in (0, 1):
            self.net.ask(FindCoordinatorRequest(key="any", key_type=key_type), 3)
        self._lives = 0
        self._number = 0
        self.clients = [self._producer(name) for name in IDS]

    def _producer(self, name: str) -> TransactionalProducer:
        self._lives += 1
        return TransactionalProducer(name, self._lives, self.net, self.random.random() < 0.6, self._begin)

    def _begin(self, producer: TransactionalProducer) -> Transaction:
        chance = self.random
        self._number += 1
        transaction = Transaction(
            producer.id,
            self._number,
            producer.producer_id,
            producer.epoch,
            chance.random() < 0.7,
            sorted(chance.sample(range(PARTITIONS), chance.randrange(1, PARTITIONS + 1))),
            chance.random() < 0.5,
        )
        self.fates.begun(transaction)
        return transaction

    def check_step(self) -> None:
        if self.random.randrange(12) == 0:
            self.check_readers()

    def replace_client(self) -> None:
        """By a new life of the same id. The old one may run on, and must be fenced."""
        gone = self.random.choice(self.clients)
        is_zombie = self.random.random() < 0.5 and not gone.is_over
        if not is_zombie:
            self.clients.remove(gone)
        self.net.note(f"a new {gone.id}{', beside the old one' if is_zombie else ''}")
        self.clients.append(self._producer(gone.id))

    # What readers see

    def visible(self, partition: int) -> tuple[list[str], int, int]:
        """Values that a reader of committed records gets, the last stable offset and the high watermark."""
        part = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=50 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=50 << 20,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=TOPIC, partitions=[part])],
        )
        found = self.net.ask(request, 12).responses[0].partitions[0]
        assert found.error_code == 0, found
        data = bytes(found.records or b"")
        to_come = sorted(found.aborted_transactions or (), key=lambda each: each.first_offset)
        aborting: set[int] = set()
        values: list[str] = []
        for batch in batches(data):
            while to_come and to_come[0].first_offset <= batch.last_offset:
                aborting.add(to_come.pop(0).producer_id)
            if batch.is_control:
                control = control_of(data, batch)
                if control is not None and control.type == ABORT:
                    aborting.discard(batch.producer_id)
            elif batch.producer_id not in aborting:
                values += [(record.value or b"").decode() for record in records_of(data, batch)]
        return values, found.last_stable_offset, found.high_watermark

    def check_readers(self) -> dict[int, set[str]]:
        """What is seen of each transaction, none of which may be of one that has not been asked to commit."""
        seen: dict[int, set[str]] = defaultdict(set)
        for partition in range(PARTITIONS):
            for value in self.visible(partition)[0]:
                number = int(value.split("/")[1])
                assert value not in seen[number], f"{value} is there twice"
                seen[number].add(value)
        for transaction in self.fates.all:
            if transaction.number in seen:
                fate = self.fates.fates[transaction.number]
                assert transaction.is_to_commit, f"{transaction} is read, and was to be aborted"
                assert fate in (COMMITTED, UNKNOWN), f"{transaction} is read, and is {fate}"
        return seen

    def settle(self) -> None:
        """Calm: a last life of each id ends what is open; then everything has a fate."""
        self.net.is_reliable = True
        for name in IDS:
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            for _ in range(200):
                if not self.net.ask(request, 5).error_code:
                    break
                self.net.pass_time(200)
            else:
                raise AssertionError(f"transactional id {name} cannot be had any more")
        self.net.pass_time(30_000)

    def check(self) -> None:
        seen = self.check_readers()
        last: dict[str, int] = {}
        for transaction in self.fates.all:
            fate = self.fates.fates[transaction.number]
            written = {value for values in transaction.written.values() for value in values}
            found = seen.get(transaction.number, set())
            if fate == COMMITTED:
                assert written <= found, f"{transaction} is committed, and lacks {written - found}"
            if found:
                assert written <= found, f"{transaction} is torn: it lacks {written - found}"
                assert found <= transaction.sent, f"{transaction} has {found - transaction.sent}"
            if transaction.is_offset_written and (found or (fate == COMMITTED and not written)):
                last[transaction.id] = transaction.number
        for partition in range(PARTITIONS):
            _, stable, end = self.visible(partition)
            assert stable == end, f"partition {partition} is stable to {stable} of {end} only"
        for name in IDS:
            self._check_offset(name, last.get(name))

    def _check_offset(self, name: str, expected: int | None) -> None:
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        group = OffsetFetchRequestGroup(group_id=group_of(name), topics=topics)
        (answer,) = self.net.ask(OffsetFetchRequest(groups=[group], require_stable=True), 8).groups
        (found,) = answer.topics[0].partitions
        assert found.error_code == 0, found
        if expected is None:
            return
        assert found.committed_offset >= expected, f"{name} has committed {found.committed_offset}, not {expected}"
        of_it = [each for each in self.fates.all if each.id == name and each.number == found.committed_offset]
        assert of_it, found
        assert of_it[0].is_to_commit, f"the offset of an aborted transaction is there: {of_it[0]}"
        assert self.fates.fates[of_it[0].number] in (COMMITTED, UNKNOWN)
