"""A producer whose records, and whose group's offsets, count all together or not at all.

    with TransactionalProducer(cluster, "copier-1") as producer:
        with producer.transaction():
            producer.send("orders", b"…")
            producer.send_offsets("copiers", {TopicPartition("input", 0): 17})

The transaction commits at the end of its block, and is aborted when an error leaves it. `begin`, `commit` and `abort`
are the same by hand. Readers under read_committed see a transaction's records once it is committed, never before.

After an error only `abort` goes on, and makes the producer usable again. One transactional id belongs to one producer
at a time, though: a second one fences the first, whose `abort` then says ProducerFencedError, as does every call
behind it.

One thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from tailrace.client.cluster import Cluster
from tailrace.client.errors import INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, ClientError, DeliveryError
from tailrace.client.group_offsets import NOBODY, Committed, MemberId
from tailrace.client.outgoing import Identity
from tailrace.client.produce_link import ProduceLink
from tailrace.client.producer import (
    BATCH_BYTES,
    BUFFERED_BYTES,
    DELIVERY_TIMEOUT_S,
    REQUEST_BYTES,
    Delivered,
    Producer,
)
from tailrace.client.transaction import PRODUCE_BEFORE_V2, Transactions
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.record.builder import BatchBuilder

TRANSACTION_TIMEOUT_MS: Final = 60_000


class TransactionalProducer(Producer):
    _may_begin_anew = False
    _is_transactional = True

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        codec: str = "none",
        level: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        request_bytes: int = REQUEST_BYTES,
        buffered_bytes: int = BUFFERED_BYTES,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
        may_create_topics: bool = True,
        on_delivery: Callable[[Delivered], None] | None = None,
    ) -> None:
        """A transaction that is open for longer than its timeout is aborted by the cluster."""
        if not transactional_id:
            raise ClientError("a transactional id is not empty")
        super().__init__(
            cluster,
            codec=codec,
            level=level,
            batch_bytes=batch_bytes,
            request_bytes=request_bytes,
            buffered_bytes=buffered_bytes,
            delivery_timeout_s=delivery_timeout_s,
            may_create_topics=may_create_topics,
            on_delivery=on_delivery,
        )
        self._transactions = Transactions(cluster, transactional_id, transaction_timeout_ms)
        self._stamped: Identity | None = None
        self._is_open = False
        self._has_gaps = False
        """Batches that have sequences were thrown away."""
        self._fenced: TailraceError | None = None

    @property
    def transactional_id(self) -> str:
        return self._transactions.transactional_id

    @property
    def is_in_transaction(self) -> bool:
        return self._is_open

    # Transactions

    def init(self) -> None:
        """Take the transactional id over: fences who had it, and waits until what it left open is aborted.

        `begin` does it when it was not done before.
        """
        self._check_not_fenced()
        try:
            self._transactions.init()
        except TailraceError as error:
            if error.code in (PRODUCER_FENCED, INVALID_PRODUCER_EPOCH):
                self._fenced = error
            raise

    def adopt(self, identity: Identity) -> None:
        """Instead of `init`: go on with an identity that somebody else was given for the id and does not use, as the
        end of its last transaction gives one (transaction.version 2). Nobody is fenced."""
        self._check_not_fenced()
        if self._is_open:
            raise ClientError(f"{self.transactional_id} is in a transaction already")
        self._transactions.adopt(identity)

    def begin(self) -> None:
        self._check_not_fenced()
        if self._is_open:
            raise ClientError(f"{self.transactional_id} is in a transaction already")
        if not self._transactions.is_known:
            self.init()
        was_v2 = self._transactions.is_v2
        self._transactions.begin()
        if was_v2 != self._transactions.is_v2:
            self._let_go()  # links know which versions mean which flow
        if self._transactions.identity != self._stamped:
            self._stamped = self._transactions.identity
            for lane in self._lanes.values():
                lane.restart_sequences()
        self._is_open = True

    def send_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | Committed], member: MemberId = NOBODY
    ) -> None:
        """Committed for the group with the transaction. `member`: refused where that is no member any more."""
        self._check()
        known = {each: at if isinstance(at, Committed) else Committed(at) for each, at in offsets.items()}
        if not known:
            return
        try:
            self._transactions.commit_offsets(group_id, known, member)
        except TailraceError as error:
            self._fail_transaction(f"has failed: {error}")
            raise

    def commit(self) -> None:
        """Waits until every record is acknowledged. When it raises, it is `abort` that helps, or another `commit`."""
        self._check()
        self.flush()
        if not self._transactions.is_empty:
            self._transactions.end(is_commit=True)
        self._is_open = False

    def hand_over(self) -> Identity:
        """Waits until every record is acknowledged, and leaves the transaction open, to be ended by who is told this
        identity (`client.transaction_end`). Instead of `commit`, and the last that is done with the producer."""
        self._check()
        self.flush()
        self._is_open = False
        self._let_go()
        return self._transactions.identity

    def abort(self) -> None:
        """Also what makes the producer usable again after an error."""
        self._check_not_fenced()
        if not self._is_open:
            raise ClientError(f"{self.transactional_id} is in no transaction")
        self._has_gaps = self._has_gaps or not all(lane.is_settled for lane in self._lanes.values())
        self._fail_transaction("is being aborted")  # should that fail, what is thrown away now must not be missed
        self._let_go()
        for lane in self._lanes.values():
            lane.discard()
        self._buffered_bytes = 0
        self._end_aborted()
        self._failure = None
        self._is_open = self._has_gaps = False

    def _fail_transaction(self, what: str) -> None:
        """Nothing but `abort` goes on."""
        self._failure = DeliveryError(f"the transaction {what}")
        self._failure.hint = "abort it"  # type: ignore[misc]

    def _end_aborted(self) -> None:
        """Sequences that nobody wrote, and batches that may still come, need another epoch behind them."""
        needs_epoch = self._has_gaps and not self._transactions.is_v2
        if not self._transactions.is_empty:
            try:
                self._transactions.end(is_commit=False)
            except TailraceError as error:
                if error.code not in (PRODUCER_FENCED, INVALID_PRODUCER_EPOCH):
                    raise
                needs_epoch = True  # it took too long, and the coordinator has aborted it; or somebody took the id
        elif self._has_gaps:
            needs_epoch = True
        if needs_epoch:
            self.init()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begun, and committed; aborted when an error leaves the block, which then goes on."""
        self.begin()
        try:
            yield
            self.commit()
        except BaseException:
            if self._is_open:
                with suppress(TailraceError):  # what went wrong first is what counts
                    self.abort()
            raise

    def close(self) -> None:
        """An open transaction is aborted, unless another producer has done that by taking the id."""
        try:
            if self._is_open and self._fenced is None:
                self.abort()
        except TailraceError:
            if self._fenced is None:
                raise
        finally:
            self._let_go()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
            return
        with suppress(TailraceError):  # what went wrong first is what counts
            self.close()

    # What the producer does differently

    def _builder(self) -> BatchBuilder:
        identity = self._transactions.identity
        return BatchBuilder(
            codec=self._codec,
            level=self._level,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=0,  # until it is stamped
            transactional=True,
        )

    def _identified(self) -> Identity:
        return self._transactions.identity

    def _announce(self, partitions: Iterable[TopicPartition]) -> None:
        self._transactions.add_partitions(partitions)

    def _new_link(self, node_id: int) -> ProduceLink:
        newest = None if self._transactions.is_v2 else PRODUCE_BEFORE_V2
        return ProduceLink(self._cluster, node_id, transactional_id=self.transactional_id, newest=newest)

    def _check(self) -> None:
        self._check_not_fenced()
        super()._check()
        if not self._is_open:
            raise ClientError(f"{self.transactional_id} is in no transaction: begin one first")

    def _check_not_fenced(self) -> None:
        if self._fenced is not None:
            raise self._fenced
