"""The state of one partition of `__transaction_state`: the transactional ids that hash to it, and their commands.

A transaction goes through three records: Ongoing (its partitions), Prepare… (the decision), Complete… (every partition
has its marker). Whoever asked to end it is answered when the decision is committed; the markers are sent then, and
after a crash they are sent again by whoever loads the log.

A command that needs another producer id has two steps: it asks for the id, and is run again when it has come.

Who may call: the node's thread, through the runtime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from tailrace.coordinator.outcome import NOTHING, CoordinatorRecord, Outcome, ProducerBatchId
from tailrace.coordinator.shard import Failed, Reply, Shard
from tailrace.coordinator.transactions import decisions
from tailrace.coordinator.transactions.decisions import Ending, Initialisation, Need, ProducerKey
from tailrace.coordinator.transactions.expiry import Expiry
from tailrace.coordinator.transactions.markers import Markers, SendMarkers
from tailrace.coordinator.transactions.state import TransactionState
from tailrace.coordinator.transactions.transaction import VERSION_WITH_BUMPS, Transaction
from tailrace.coordinator.transactions.transaction_log import from_value, to_record
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.versions import TRANSACTION_VERSION
from tailrace.model.errors import ConcurrentTransactionsError, TailraceError, TransactionAbortableError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.records.transactions import TransactionLogKey, TransactionLogValue

_log = logging.getLogger(__name__)

TakeProducerId = Callable[[Callable[[int], None], Failed], None]
"""Give an id that no producer has had, now or later, or an error."""


class TransactionShard:
    def __init__(self, shard: Shard, take_producer_id: TakeProducerId, send_markers: SendMarkers) -> None:
        self.shard = shard
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: set[str] = set()
        """Ids with a transaction under way: those that may time out."""
        self.markers = Markers(self, send_markers)
        self._expiry = Expiry(self)
        self._take_producer_id = take_producer_id
        self._foretold: Transaction | None = None
        """What the record says that is being appended, with what no record holds."""

    @property
    def cluster_version(self) -> int:
        """The transaction version that all brokers have agreed upon."""
        return self.shard.image.features.get(TRANSACTION_VERSION, 0)

    # What the log says

    def replay(self, record: CoordinatorRecord, offset: int, producer: ProducerBatchId | None) -> None:
        if not isinstance(record.key, TransactionLogKey):
            return
        foretold, self._foretold = self._foretold, None
        transactional_id = record.key.transactional_id
        if not isinstance(record.value, TransactionLogValue):
            self.transactions.pop(transactional_id, None)
            self.ongoing.discard(transactional_id)
            return
        transaction = from_value(transactional_id, record.value) if foretold is None else foretold
        self.transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self.ongoing.add(transactional_id)
        else:
            self.ongoing.discard(transactional_id)
            if not transaction.state.is_prepared:
                self.markers.completed(transactional_id)

    def replay_marker(self, producer_id: int, producer_epoch: int, is_commit: bool, offset: int) -> None:
        """Nothing on this topic is ever part of a transaction."""

    def loaded(self) -> None:
        for transaction in self.transactions.values():
            if transaction.state.is_prepared:
                self._finish(transaction.transactional_id)
        self._expiry.start()

    def unloaded(self, error: TailraceError) -> None:
        self.markers.stop()

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Deleted topics are noticed when markers are sent again."""

    def _finish(self, transactional_id: str) -> None:
        self.shard.submit("finish-transaction", lambda: self.markers.when_committed(transactional_id))

    def write(
        self,
        transaction: Transaction,
        response: object = None,
        then: Callable[[TailraceError | None], None] | None = None,
    ) -> Outcome:
        """What appends the transaction as it shall be."""

        def settle(error: TailraceError | None) -> None:
            if self._foretold is transaction:
                self._foretold = None  # it was not appended
            if then is not None:
                then(error)

        self._foretold = transaction
        return Outcome([to_record(transaction, self.cluster_version)], response, settle)

    # Commands

    def init_producer_id(
        self, wanted: Initialisation, reply: Reply, failed: Failed, new_id: int | None = None
    ) -> Outcome:
        """Answers with a `ProducerKey`."""
        current = self.transactions.get(wanted.transactional_id)
        decided = decisions.initialise(current, wanted, self.shard.clock.now_ms(), new_id)
        if decided is Need.PRODUCER_ID:
            return self._with_producer_id(
                "init-producer-id", lambda given: self.init_producer_id(wanted, reply, failed, given), reply, failed
            )
        if decided is Need.ABORT:
            return self.abort(wanted.transactional_id, failed)
        assert isinstance(decided, Transaction)
        return self.write(decided, ProducerKey(decided.producer_id, decided.epoch))

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerKey,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> Outcome:
        """Answers as `verify_or_add` does."""
        current = self.transactions.get(transactional_id)
        now_ms = self.shard.clock.now_ms()
        decided = decisions.add_partitions(current, producer, frozenset(partitions), now_ms, client_version)
        return Outcome(response={}) if decided is current else self.write(decided, {})

    def verify_or_add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool,
        client_version: int = VERSION_WITH_BUMPS,
    ) -> Outcome:
        """Answers with the partitions that are not in the transaction, and why: none of them, where all is well.

        What is refused for all partitions alike is raised: a fenced producer, a transaction that is being ended.
        """
        producer = ProducerKey(producer_id, epoch)
        if not verify_only:
            return self.add_partitions(transactional_id, producer, partitions, client_version)
        current = self.transactions.get(transactional_id)
        missing = decisions.missing_partitions(current, producer, partitions)
        error = TransactionAbortableError(f"not in the transaction of {transactional_id}") if missing else None
        return Outcome(response=dict.fromkeys(missing, error))

    def end(
        self, transactional_id: str, ending: Ending, reply: Reply, failed: Failed, new_id: int | None = None
    ) -> Outcome:
        """Answers with a `ProducerKey`: what the producer goes on with."""
        current = self.transactions.get(transactional_id)
        decided = decisions.end(current, ending, self.shard.clock.now_ms(), new_id)
        if isinstance(decided, Need):
            return self._with_producer_id(
                "end-transaction",
                lambda given: self.end(transactional_id, ending, reply, failed, given),
                reply,
                failed,
            )
        if decided is current:
            return Outcome(response=ProducerKey(decided.producer_id, decided.epoch))
        return self._prepare(decided, ProducerKey(*decided.successor))

    def abort(self, transactional_id: str, failed: Failed | None = None, new_id: int | None = None) -> Outcome:
        """Abort a transaction under way and fence its producer. Who waits for that is to ask again."""
        current = self.transactions.get(transactional_id)
        if current is None or current.state is not TransactionState.ONGOING:
            raise ConcurrentTransactionsError(f"the transaction of {transactional_id} has ended meanwhile")
        decided = decisions.abort(current, self.shard.clock.now_ms(), self.cluster_version, new_id)
        if isinstance(decided, Need):
            return self._with_producer_id(
                "abort-transaction", lambda given: self.abort(transactional_id, failed, given), None, failed
            )

        def told() -> None:
            if failed is not None:
                failed(ConcurrentTransactionsError(f"the transaction of {transactional_id} is being aborted first"))

        return self._prepare(decided, None, told)

    def _prepare(
        self, transaction: Transaction, response: ProducerKey | None, committed: Callable[[], None] | None = None
    ) -> Outcome:
        transactional_id = transaction.transactional_id

        def then(error: TailraceError | None) -> None:
            if error is None:
                self.markers.begin(transactional_id)
                if committed is not None:
                    committed()
            elif self.transactions.get(transactional_id) is transaction:
                self.markers.begin_later(transactional_id)

        return self.write(transaction, response, then)

    def _with_producer_id(
        self, name: str, command: Callable[[int], Outcome], reply: Reply | None, failed: Failed | None
    ) -> Outcome:
        def given(producer_id: int) -> None:
            self.shard.submit(name, lambda: command(producer_id), reply, failed)

        def refused(error: TailraceError) -> None:
            if failed is not None:
                failed(error)

        self._take_producer_id(given, refused)
        return NOTHING
