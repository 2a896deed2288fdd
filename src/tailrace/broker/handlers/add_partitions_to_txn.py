"""AddPartitionsToTxn: partitions that a transaction is about to write to.

    to version 3    a producer adds partitions to its own transaction
    from version 4  brokers ask for many producers at once, to add partitions or only to verify that they are there

One partition that cannot be added keeps all others of its transaction from being added: one that does not exist; one
that another broker leads, because markers are not sent to other brokers in this release; or, of a producer's own, one
of a coordinator's topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.transaction_errors import code_of
from tailrace.coordinator.transactions.transaction import VERSION_WITH_BUMPS
from tailrace.model.errors import (
    CoordinatorNotAvailableError,
    InvalidRequestError,
    OperationNotAttemptedError,
    TailraceError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
)
from tailrace.model.ids import TopicPartition
from tailrace.model.internal_topics import INTERNAL_TOPICS
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

OF_BROKERS_FROM: Final = 4
KNOWS_FENCING_FROM: Final = 2
NO_ERROR: Final = 0

Codes = Mapping[TopicPartition, int]


def handle(
    node: Node,
    context: RequestContext,
    request: AddPartitionsToTxnRequest,
    reply: Callable[[AddPartitionsToTxnResponse], None],
) -> None:
    of_brokers = context.version >= OF_BROKERS_FROM
    transactions = request.transactions if of_brokers else [_own_transaction(request)]
    results: list[list[AddPartitionsToTxnTopicResult]] = [[] for _ in transactions]
    left = len(transactions)

    def answer() -> None:
        if not of_brokers:
            reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0]))
            return
        rows = [
            AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=topics)
            for asked, topics in zip(transactions, results, strict=True)
        ]
        reply(AddPartitionsToTxnResponse(results_by_transaction=rows))

    def done(place: int, codes: Codes) -> None:
        nonlocal left
        results[place] = _by_topic(codes)
        left -= 1
        if not left:
            answer()

    if not transactions:
        answer()
    for place, transaction in enumerate(transactions):
        _add(node, context.version, transaction, lambda codes, place=place: done(place, codes))  # type: ignore[misc]


def _own_transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _add(node: Node, version: int, transaction: AddPartitionsToTxnTransaction, done: Callable[[Codes], None]) -> None:
    partitions = dict.fromkeys(
        TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions
    )
    refused_codes = {each: code for each in partitions if (code := _refused_code(node, version, each))}
    if refused_codes:
        done(dict.fromkeys(partitions, OperationNotAttemptedError.code) | refused_codes)
        return

    def failed(error: TailraceError) -> None:
        done(dict.fromkeys(partitions, code_of(error, knows_fencing=version >= KNOWS_FENCING_FROM)))

    def verified(refused: Mapping[TopicPartition, TailraceError]) -> None:
        done({each: refused[each].code if each in refused else NO_ERROR for each in partitions})

    transactional_id = transaction.transactional_id
    if not transactional_id:
        failed(InvalidRequestError("the transactional id is empty"))
        return
    node.transactions.submit(
        "add-partitions",
        transactional_id,
        lambda shard: shard.verify_or_add(
            transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            partitions,
            verify_only=transaction.verify_only,
            client_version=VERSION_WITH_BUMPS if version >= OF_BROKERS_FROM else 0,
        ),
        verified,
        failed,
    )


def _refused_code(node: Node, version: int, partition: TopicPartition) -> int:
    if partition.topic in INTERNAL_TOPICS and version < OF_BROKERS_FROM:
        return TopicAuthorizationError.code
    topic = node.image.topics.get(partition.topic)
    if topic is None or partition.partition not in topic.partitions:
        return UnknownTopicOrPartitionError.code
    return CoordinatorNotAvailableError.code if node.coordinators.is_led_elsewhere(partition) else NO_ERROR


def _by_topic(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, index), code in codes.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = AddPartitionsToTxnTopicResult(name=name)
        topic.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        )
    return list(topics.values())
