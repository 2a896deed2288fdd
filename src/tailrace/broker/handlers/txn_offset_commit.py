"""TxnOffsetCommit: offsets that count when the producer's transaction is committed.

The coordinator's log is a partition of the transaction like any other: before anything is written there it is asked
whether the transaction is open, and with transactions of the second version it is added to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.txn_verification import TransactionalProducer
from tailrace.coordinator.outcome import ProducerBatchId
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidGroupIdError,
    TailraceError,
    UnknownTopicOrPartitionError,
)
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tailrace.storage.verification import VerificationGuard

if TYPE_CHECKING:
    from tailrace.broker.node import Node

LOAD_IN_PROGRESS_FROM: Final = 2
"""Clients of versions before take a coordinator that loads for a fatal error."""


def handle(
    node: Node,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    reply: Callable[[TxnOffsetCommitResponse], None],
) -> None:
    version = context.version
    refused: dict[str, TxnOffsetCommitResponseTopic] = {}
    topics = _existing(node.image, request.topics, refused)

    def answer(response: TxnOffsetCommitResponse) -> None:
        for topic in response.topics if refused else ():
            _add(refused, topic)
        reply(TxnOffsetCommitResponse(topics=list(refused.values())) if refused else response)

    def failed(error: TailraceError) -> None:
        code = error.code
        if version < LOAD_IN_PROGRESS_FROM and code == CoordinatorLoadInProgressError.code:
            code = CoordinatorNotAvailableError.code
        answer(TxnOffsetCommitResponse(topics=[_refusal(topic.name, topic.partitions, code) for topic in topics]))

    def verified(guard: VerificationGuard) -> None:
        node.groups.submit(
            "txn-offset-commit",
            request.group_id,
            lambda machine: machine.offsets.commit_in_transaction(request, topics, version),
            answer,
            failed,
            producer=ProducerBatchId(request.producer_id, request.producer_epoch),
            guard=guard,
        )

    if not topics:
        answer(TxnOffsetCommitResponse())
    elif not request.group_id:
        failed(InvalidGroupIdError("a transaction commits offsets of a group that has no name"))
    else:
        producer = TransactionalProducer(request.transactional_id, request.producer_id, request.producer_epoch)
        node.txn_verification.of_offset_commit(
            node.groups.partition_for(request.group_id), producer, version, verified, failed
        )


def _existing(
    image: MetadataImage,
    asked: list[TxnOffsetCommitRequestTopic],
    refused: dict[str, TxnOffsetCommitResponseTopic],
) -> list[TxnOffsetCommitRequestTopic]:
    """Topics and partitions that exist; the others are added to `refused`."""
    existing = []
    for topic in asked:
        known = image.topics.get(topic.name)
        indices = () if known is None else known.partitions
        missing = [each for each in topic.partitions if each.partition_index not in indices]
        if missing or known is None:
            _add(refused, _refusal(topic.name, missing, UnknownTopicOrPartitionError.code))
            topic.partitions = [each for each in topic.partitions if each.partition_index in indices]
        if topic.partitions:
            existing.append(topic)
    return existing


def _add(refused: dict[str, TxnOffsetCommitResponseTopic], topic: TxnOffsetCommitResponseTopic) -> None:
    held = refused.setdefault(topic.name, topic)
    if held is not topic:
        held.partitions += topic.partitions


def _refusal(name: str, partitions: list[TxnOffsetCommitRequestPartition], code: int) -> TxnOffsetCommitResponseTopic:
    rows = [
        TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code) for each in partitions
    ]
    return TxnOffsetCommitResponseTopic(name=name, partitions=rows)
