"""Records and whole batches to partitions, several requests under way at once.

`send` fills a batch for each partition and sends it when it is full; `send_batch` makes one batch of what it is given;
`send_encoded` takes one that is made already; `flush` sends the rest and waits until everything is acknowledged.
Nothing runs between calls: a batch that is not full stays where it is until somebody calls.

With idempotence (the default with acks=all) the broker writes each batch once and in order, however often it has to be
sent. Without it a batch that is sent again after a lost answer may be there twice.

The first batch that cannot be delivered ends the producer: what follows it must not overtake it. The call at hand
raises DeliveryError with the broker's error as its cause, and so does every later one. A batch that failed is sent
again until `delivery_timeout_s` after it was closed: requests, metadata lookups and pauses until then share that time.

One thread.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.deadline import Deadline
from tailrace.client.errors import (
    DUPLICATE_SEQUENCE_NUMBER,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_PRODUCER_ID,
    ClientError,
    DeliveryError,
    NoAnswerError,
    error_of,
)
from tailrace.client.outgoing import Identity, Lane, Outgoing
from tailrace.client.partitioner import Sticky, partition_of_key
from tailrace.client.produce_link import Answer, ProduceLink
from tailrace.env.files import Buffer
from tailrace.model.errors import TailraceError, UnsupportedCompressionError
from tailrace.model.ids import TopicPartition
from tailrace.model.noop import noop
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.record.batch import ATTRIBUTES_AT, TRANSACTIONAL_BIT, set_crc
from tailrace.record.builder import BatchBuilder, Headers
from tailrace.record.compression import CODEC_NAMES

ACKS_ALL: Final = -1
ACKS_LEADER: Final = 1
ACKS_NONE: Final = 0

BATCH_BYTES: Final = 1 << 16
REQUEST_BYTES: Final = 1 << 20
BUFFERED_BYTES: Final = 1 << 24
IN_FLIGHT: Final = 5  # a broker remembers so many batches of an idempotent producer
RECORD_OVERHEAD_BYTES: Final = 24  # more than the numbers of a record take; headers aside
DELIVERY_TIMEOUT_S: Final = 120.0


class Delivered(NamedTuple):
    """A batch that the broker acknowledged. `base_offset` is −1 where it did not tell: acks=0, or a duplicate."""

    partition: TopicPartition
    base_offset: int
    record_count: int
    size_bytes: int
    log_append_time_ms: int


class Producer:
    _may_begin_anew = True
    """With another identity, when brokers have forgotten the one it has."""
    _is_transactional = False

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        idempotent: bool | None = None,
        codec: str = "none",
        level: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        request_bytes: int = REQUEST_BYTES,
        buffered_bytes: int = BUFFERED_BYTES,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
        may_create_topics: bool = True,
        on_delivery: Callable[[Delivered], None] | None = None,
        choose: Callable[[Sequence[int]], int] = random.choice,
    ) -> None:
        """`level` is on the codec's own scale. `batch_bytes` are counted before compression."""
        if codec not in CODEC_NAMES:
            raise UnsupportedCompressionError(f"there is no codec {codec!r}")
        if acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
            raise ClientError(f"acks are -1 (all), 1 or 0, not {acks}")
        self.is_idempotent = acks == ACKS_ALL if idempotent is None else idempotent
        if self.is_idempotent and acks != ACKS_ALL:
            raise ClientError(f"an idempotent producer needs acks=all, not acks={acks}")
        self._cluster = cluster
        self._acks = acks
        self._codec = CODEC_NAMES.index(codec)
        self._level = level
        self._batch_bytes = batch_bytes
        self._request_bytes = request_bytes
        self._buffered_limit = buffered_bytes
        self._delivery_timeout_s = delivery_timeout_s
        self._may_create = may_create_topics
        self._on_delivery = on_delivery or noop
        self._choose = choose
        self._identity: Identity | None = None
        self._has_expired = False
        self._has_failures = False
        """A batch failed and is not acknowledged since."""
        self._lanes: dict[TopicPartition, Lane] = {}
        self._sticky: dict[str, Sticky] = {}
        self._links: dict[int, ProduceLink] = {}
        self._buffered_bytes = 0
        self._failure: DeliveryError | None = None
        self._backoff = cluster.backoff()

    # In

    def send(
        self,
        topic: str,
        value: Buffer | None,
        key: bytes | None = None,
        *,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Put a record into the batch of its partition; sends that batch, and waits, only where there is need."""
        self._check()
        lane = self._lane(self._partition_for(topic, key, partition))
        size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value is not None else 0)
        if lane.open is not None and lane.open.uncompressed_bytes + size > self._batch_bytes:
            self._close(lane, moves_on=key is None and partition is None)
            if key is None and partition is None:
                lane = self._lane(self._partition_for(topic, None, None))
        if lane.open is None:
            lane.open = self._builder()
        now_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        lane.open.append(now_ms, key, value, headers)
        if lane.open.uncompressed_bytes >= self._batch_bytes:
            self._close(lane, moves_on=key is None and partition is None)

    def send_batch(
        self,
        partition: TopicPartition,
        records: Iterable[tuple[int, Buffer | None, Buffer | None] | tuple[int, Buffer | None, Buffer | None, Headers]],
    ) -> None:
        """One batch of (timestamp, key, value) or (timestamp, key, value, headers); nothing for no records."""
        self._check()
        lane = self._lane(partition)
        self._close(lane, moves_on=False)
        builder = self._builder()
        for record in records:
            builder.append(*record)
        if builder.record_count:
            lane.open = builder
            self._close(lane, moves_on=False)

    def send_encoded(self, partition: TopicPartition, data: bytearray, record_count: int) -> None:
        """A batch of format v2 that is made already, with so many records and no producer. It is ours from now on: it
        gets its producer, its sequence and its CRC here."""
        self._check()
        lane = self._lane(partition)
        self._close(lane, moves_on=False)
        if self._is_transactional:
            data[ATTRIBUTES_AT + 1] |= TRANSACTIONAL_BIT
        if not self.is_idempotent:  # others get their CRC with their stamp
            set_crc(data)
        self._enqueue(lane.add(data, record_count, self._cluster.deadline(self._delivery_timeout_s)))

    def poll(self) -> None:
        """Send what is full, and take the answers that are there. Does not wait."""
        self._check()
        self._guard(self._take_answers)
        self._guard(self._submit)

    def flush(self) -> None:
        """Send everything, and wait until all of it is acknowledged."""
        self._check()
        for lane in list(self._lanes.values()):
            self._close(lane, moves_on=True)
        while self._buffered_bytes:
            self._guard(self._work)

    def close(self) -> None:
        """Flush, and let go of the connections. A producer that has failed only lets go."""
        try:
            if self._failure is None:
                self.flush()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # what went wrong counts, not what is still to be sent
            self._failure = self._failure or DeliveryError("the producer was given up")
        self.close()

    # Partitions and batches

    def _partition_for(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition:
        if partition is not None:
            return TopicPartition(topic, partition)
        if key is None:
            return TopicPartition(topic, self._sticky_of(topic).partition(partial(self._available, topic)))
        partitions = self._cluster.topic(topic, may_create=self._may_create).partitions
        return TopicPartition(topic, partition_of_key(key, len(partitions)))

    def _available(self, topic: str) -> Sequence[int]:
        partitions = self._cluster.topic(topic, may_create=self._may_create).partitions
        return [number for number, each in partitions.items() if each.leader >= 0] or list(partitions)

    def _sticky_of(self, topic: str) -> Sticky:
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = self._sticky[topic] = Sticky(self._choose)
        return sticky

    def _builder(self) -> BatchBuilder:
        return BatchBuilder(codec=self._codec, level=self._level)

    def _lane(self, partition: TopicPartition) -> Lane:
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = Lane(partition)
        return lane

    def _close(self, lane: Lane, *, moves_on: bool) -> None:
        batch = lane.close(self._cluster.deadline(self._delivery_timeout_s))
        if batch is None:
            return
        if moves_on and lane.partition.topic in self._sticky:
            self._sticky_of(lane.partition.topic).move_on(partial(self._available, lane.partition.topic))
        self._enqueue(batch)

    def _enqueue(self, batch: Outgoing) -> None:
        self._buffered_bytes += len(batch.data)
        self.poll()
        while self._buffered_bytes > self._buffered_limit:
            self._guard(self._work)

    # Out

    def _work(self) -> None:
        """Send what can be sent, and wait for an answer."""
        self._submit()
        link = next((link for link in self._links.values() if link.awaited), None)
        if link is not None:
            self._answered(link, link.receive(self._cluster.timeout_s))

    def _take_answers(self) -> None:
        for link in list(self._links.values()):
            while link.has_answer():
                self._answered(link, link.receive(self._cluster.timeout_s))

    def _submit(self) -> None:
        if self._has_expired and not self._begin_anew():
            return
        while groups := self._ready():
            identity = self._identified() if self.is_idempotent else None
            self._announce(lane.partition for lanes in groups.values() for lane in lanes)
            for node_id, lanes in groups.items():
                batches = [lane.sent() for lane in lanes]
                link = self._links[node_id]
                for batch in batches:
                    if identity is not None:
                        batch.stamp(identity)
                answer = link.submit(batches, self._acks, self._cluster.timeout_s)
                if answer is not None:
                    self._answered(link, answer)

    def _ready(self) -> dict[int, list[Lane]]:
        """By leader: what goes into the next request to it, one batch of a partition at most."""
        ready: dict[int, list[Lane]] = {}
        sizes: dict[int, int] = {}
        for lane in self._lanes.values():
            batch = lane.next(IN_FLIGHT if self.is_idempotent else 1)
            if batch is None:
                continue
            node_id = self._leader_of(lane)
            size = sizes.get(node_id, 0) + len(batch.data)
            if (node_id in ready and size > self._request_bytes) or self._link(node_id).awaited >= IN_FLIGHT:
                continue
            ready.setdefault(node_id, []).append(lane)
            sizes[node_id] = size
        return ready

    def _leader_of(self, lane: Lane) -> int:
        return self._cluster.leader(lane.partition).leader

    def _link(self, node_id: int) -> ProduceLink:
        link = self._links.get(node_id)
        if link is None:
            link = self._links[node_id] = self._new_link(node_id)
        return link

    def _new_link(self, node_id: int) -> ProduceLink:
        return ProduceLink(self._cluster, node_id)

    def _announce(self, partitions: Iterable[TopicPartition]) -> None:
        """Batches of these are about to be sent. Here is nobody who wants to know."""

    def _identified(self) -> Identity:
        if self._identity is None:
            response: InitProducerIdResponse = self._cluster.call(InitProducerIdRequest(transactional_id=None))
            if response.error_code != NONE:
                raise error_of(response.error_code, "asking for a producer id")
            self._identity = Identity(response.producer_id, response.producer_epoch)
        return self._identity

    # Answers

    def _answered(self, link: ProduceLink, answers: Sequence[Answer]) -> None:
        """Every answer is looked at before an error of one of them goes on."""
        trouble: TailraceError | None = None
        for answer in answers:
            lane = self._lanes[answer.batch.partition]
            if answer.error_code in (NONE, DUPLICATE_SEQUENCE_NUMBER):
                self._backoff = self._cluster.backoff()
                lane.acknowledged(answer.batch)
                self._buffered_bytes -= len(answer.batch.data)
                self._tell(answer)
                continue
            if answer.error_code == OUT_OF_ORDER_SEQUENCE_NUMBER and not lane.is_oldest(answer.batch):
                error = lane.cause or error_of(OUT_OF_ORDER_SEQUENCE_NUMBER, "the batch before it was not written")
            else:
                error = answer.error or error_of(answer.error_code, answer.message)
                answer.batch.failed(error)
                if answer.error_code == UNKNOWN_PRODUCER_ID and self._may_begin_anew:
                    self._has_expired = True  # the broker has no state of this producer: nothing is written twice
                elif not _may_pass(error):
                    self._fail(answer.batch, error)
            lane.must_go_again(answer.batch)
            self._cluster.forget(answer.batch.partition.topic)
            if answer.batch.deadline.is_over:
                oldest = lane.oldest or answer.batch  # those after it may only have waited for it
                self._fail(oldest, oldest.cause or error)
            trouble = error
        if trouble is not None:
            raise _Again(trouble)

    def _begin_anew(self) -> bool:
        """With another identity, once nothing of the old one is under way."""
        if any(link.awaited for link in self._links.values()):
            return False
        self._identity, self._has_expired = None, False
        for lane in self._lanes.values():
            lane.restart_sequences()
        return True

    def _tell(self, answer: Answer) -> None:
        batch = answer.batch
        base_offset = answer.base_offset if answer.error_code == NONE else -1
        self._on_delivery(
            Delivered(batch.partition, base_offset, batch.record_count, len(batch.data), answer.log_append_time_ms)
        )

    def _guard(self, step: Callable[[], None]) -> None:
        """Run a step; wait a little after what passes, end the producer after what does not."""
        try:
            with self._cluster.within(self._failures_deadline()):
                step()
        except _Again as again:
            self._pause(again.cause)
        except DeliveryError:
            raise
        except TailraceError as error:
            if not _may_pass(error):
                raise self._ended(error) from error
            for lane in self._lanes.values():
                if lane.waiting:
                    lane.waiting[0].failed(error)
            self._pause(error)

    def _failures_deadline(self) -> Deadline | None:
        """The earliest of a batch that failed; None if no batch failed: a slow network alone is not a failure."""
        if not self._has_failures:
            return None
        oldest = (lane.oldest for lane in self._lanes.values())
        failed = [batch.deadline for batch in oldest if batch is not None and batch.cause is not None]
        self._has_failures = bool(failed)
        return min(failed, key=lambda deadline: deadline.left_s, default=None)

    def _pause(self, error: TailraceError) -> None:
        self._has_failures = True
        self._fail_overdue(error)
        self._backoff.wait(self._failures_deadline() or self._cluster.deadline(self._delivery_timeout_s))
        self._fail_overdue(error)

    def _fail_overdue(self, error: TailraceError) -> None:
        for lane in self._lanes.values():
            if lane.waiting:
                self._cluster.forget(lane.partition.topic)
                if lane.waiting[0].deadline.is_over:
                    batch = lane.oldest or lane.waiting[0]
                    self._fail(batch, batch.cause or error)

    def _fail(self, batch: Outgoing, error: TailraceError) -> None:
        what = f"{batch.record_count} records of {len(batch.data)} bytes to {batch.partition}"
        raise self._ended(error, f"cannot deliver {what}: {error}") from error

    def _ended(self, error: TailraceError, message: str = "") -> DeliveryError:
        if isinstance(error, DeliveryError):
            return error
        self._failure = DeliveryError(message or f"cannot deliver: {error}")
        self._failure.hint = error.hint or DeliveryError.hint  # type: ignore[misc]
        self._let_go()
        return self._failure

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


def _may_pass(error: TailraceError) -> bool:
    return error.retriable or isinstance(error, NoAnswerError)


class _Again(Exception):  # noqa: N818 (never leaves the module)
    def __init__(self, cause: TailraceError) -> None:
        super().__init__(str(cause))
        self.cause = cause
