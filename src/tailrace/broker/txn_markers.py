"""Markers that end transactions: written to the partitions that this broker leads, sent to the leaders of the others.

A marker is a control batch. It goes into a partition's log like any append with acks=all, and is answered when it is
committed. In a partition of the offsets topic the group coordinator writes it, because offsets that were committed in
the transaction become visible with it, or never.

Each partition has an error code of its own. UNKNOWN_TOPIC_OR_PARTITION: no log of it is here; NOT_LEADER_OR_FOLLOWER:
another broker leads it, or its coordinator is not ready; INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED: who
asks has been overtaken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from tailrace.broker.purgatory import Operation, Watched
from tailrace.coordinator.outcome import ProducerBatchId
from tailrace.model.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    TailraceError,
    UnknownTopicOrPartitionError,
)
from tailrace.model.ids import TopicPartition
from tailrace.model.internal_topics import CONSUMER_OFFSETS
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.replication.partition import ALL_IN_SYNC, Partition
from tailrace.storage.append import AppendResult
from tailrace.storage.origin import Origin
from tailrace.storage.verification import NO_GUARD

if TYPE_CHECKING:
    from tailrace.broker.node import Node
    from tailrace.coordinator.transactions.markers import MarkerOrder, MarkerResults

NO_ERROR: Final = 0
_NOT_READY: Final = (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)

Done = Callable[["MarkerResults"], None]
Settle = Callable[[int], None]
"""Is given the error code of one marker in one partition."""


class MarkerChannel(Protocol):
    """The way to other brokers."""

    def send(self, broker_id: int, orders: list[MarkerOrder], done: Done) -> None:
        """Have the broker write the markers; `done` is called once, with an error for every one that it has not."""


class NoOtherBrokers:
    """A cluster of one: what another broker should lead is waited for."""

    def send(self, broker_id: int, orders: list[MarkerOrder], done: Done) -> None:
        done([dict.fromkeys(order.partitions, NotLeaderOrFollowerError.code) for order in orders])


class _Results:
    """Codes as they come in; `done` is called with all of them, once, after `close`."""

    def __init__(self, count: int, done: Done) -> None:
        self._codes: list[dict[TopicPartition, int]] = [{} for _ in range(count)]
        self._left = 1
        self._done = done

    def expect(self, place: int, partition: TopicPartition) -> Settle:
        self._left += 1
        return partial(self._settle, place, partition)

    def _settle(self, place: int, partition: TopicPartition, code: int) -> None:
        self._codes[place][partition] = code
        self.close()

    def close(self) -> None:
        self._left -= 1
        if not self._left:
            self._done(self._codes)


class MarkerSender:
    """What a transaction coordinator sends its markers with."""

    def __init__(self, node: Node, others: MarkerChannel | None = None) -> None:
        self._node = node
        self._others = others or NoOtherBrokers()

    def send(self, orders: list[MarkerOrder], done: Done) -> None:
        """To the leaders of the partitions, as the metadata has them now."""
        results = _Results(len(orders), done)
        by_leader: dict[int, dict[int, list[TopicPartition]]] = {}
        for place, order in enumerate(orders):
            for partition in dict.fromkeys(order.partitions):
                leader = self._leader(partition)
                if leader is None:
                    results.expect(place, partition)(UnknownTopicOrPartitionError.code)
                else:
                    by_leader.setdefault(leader, {}).setdefault(place, []).append(partition)
        for leader, partitions_of in by_leader.items():
            wanted = [orders[place]._replace(partitions=names) for place, names in partitions_of.items()]
            settles = [{name: results.expect(place, name) for name in names} for place, names in partitions_of.items()]
            answered = partial(_settle_all, settles)
            if leader == self._node.node_id:
                write_markers(self._node, wanted, answered)
            else:
                self._others.send(leader, wanted, answered)
        results.close()

    def _leader(self, partition: TopicPartition) -> int | None:
        topic = self._node.image.topics.get(partition.topic)
        registration = None if topic is None else topic.partitions.get(partition.partition)
        return None if registration is None else registration.leader


def _settle_all(settles: Sequence[Mapping[TopicPartition, Settle]], results: MarkerResults) -> None:
    for asked, codes in zip(settles, results, strict=True):
        for partition, settle in asked.items():
            settle(codes.get(partition, NotLeaderOrFollowerError.code))


def write_markers(node: Node, orders: Sequence[MarkerOrder], done: Done) -> None:
    """To partitions of this broker. Markers that go to one partition go together."""
    results = _Results(len(orders), done)
    together: dict[tuple[TopicPartition, int], list[tuple[MarkerOrder, Settle]]] = {}
    for place, order in enumerate(orders):
        for name in dict.fromkeys(order.partitions):
            settle = results.expect(place, name)
            if name.topic == CONSUMER_OFFSETS:
                _end_offset_commits(node, name.partition, order, settle)
            else:
                together.setdefault((name, order.transaction_version), []).append((order, settle))
    for (name, transaction_version), wanted in together.items():
        try:
            _append(node, _online(node, name), transaction_version, wanted)
        except TailraceError as error:
            for _, settle in wanted:
                settle(error.code)
    results.close()


def _online(node: Node, name: TopicPartition) -> Partition:
    partition = node.replicas.partition(*name)
    if partition.is_offline:
        raise UnknownTopicOrPartitionError(f"{name} is in a log directory that is offline")
    return partition


def _end_offset_commits(node: Node, index: int, order: MarkerOrder, settle: Settle) -> None:
    def ended(error: TailraceError | None) -> None:
        if isinstance(error, _NOT_READY):
            error = NotLeaderOrFollowerError(str(error))  # transaction coordinators know that one
        settle(NO_ERROR if error is None else error.code)

    try:
        _online(node, TopicPartition(CONSUMER_OFFSETS, index))
    except TailraceError as error:
        settle(error.code)
        return
    producer = ProducerBatchId(order.producer_id, order.epoch)
    node.groups.marker(index, producer, order.is_commit, order.coordinator_epoch, order.transaction_version, ended)


def _append(
    node: Node, partition: Partition, transaction_version: int, wanted: Sequence[tuple[MarkerOrder, Settle]]
) -> None:
    now_ms = node.env.clock.now_ms()
    batches = [
        end_txn_marker(
            COMMIT if order.is_commit else ABORT,
            producer_id=order.producer_id,
            producer_epoch=order.epoch,
            coordinator_epoch=order.coordinator_epoch,
            timestamp=now_ms,
        )
        for order, _ in wanted
    ]
    appended = partition.append(batches, ALL_IN_SYNC, Origin.COORDINATOR, NO_GUARD, transaction_version)
    for (_, settle), result in zip(wanted, appended, strict=True):
        if result.error is not None:
            settle(result.error.code)
        else:
            operation = _WrittenMarker(partition, result, settle)
            node.purgatory.wait(operation, (partition,), node.config.request_timeout_ms)


class _WrittenMarker(Operation):
    """In the log, and not committed yet."""

    kind = "Produce"

    def __init__(self, partition: Partition, result: AppendResult, settle: Settle) -> None:
        self._partition = partition
        self._last_offset = result.last_offset
        self._settle = settle

    def try_complete(self, moved: Watched | None) -> bool:
        is_done, error = self._partition.acknowledgement(self._last_offset, ALL_IN_SYNC)
        if is_done:
            self._settle(NO_ERROR if error is None else error.code)
        return is_done

    def expire(self) -> None:
        self._settle(RequestTimedOutError.code)
