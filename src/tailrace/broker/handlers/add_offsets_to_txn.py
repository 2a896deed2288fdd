"""AddOffsetsToTxn: a transaction is about to commit offsets of a group.

What is added is the group's partition of the offsets topic: the transaction's end writes a marker there too. It is
refused with COORDINATOR_NOT_AVAILABLE if another broker leads that partition, because markers are not sent to other
brokers in this release.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.transaction_errors import code_of
from tailrace.coordinator.transactions.decisions import ProducerKey
from tailrace.model.errors import CoordinatorNotAvailableError, InvalidRequestError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.model.internal_topics import CONSUMER_OFFSETS
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node

KNOWS_FENCING_FROM: Final = 2
CLIENT_VERSION: Final = 0  # clients that are fenced by epochs at each end do not send this request


def handle(
    node: Node,
    context: RequestContext,
    request: AddOffsetsToTxnRequest,
    reply: Callable[[AddOffsetsToTxnResponse], None],
) -> None:
    def failed(error: TailraceError) -> None:
        code = code_of(error, knows_fencing=context.version >= KNOWS_FENCING_FROM)
        reply(AddOffsetsToTxnResponse(error_code=code))

    transactional_id = request.transactional_id
    if not transactional_id:
        failed(InvalidRequestError("the transactional id is empty"))
        return
    producer = ProducerKey(request.producer_id, request.producer_epoch)
    partition = TopicPartition(CONSUMER_OFFSETS, node.groups.partition_for(request.group_id))
    if node.coordinators.is_led_elsewhere(partition):
        failed(CoordinatorNotAvailableError(f"another broker leads {partition}"))
        return
    node.transactions.submit(
        "add-offsets",
        transactional_id,
        lambda shard: shard.add_partitions(transactional_id, producer, (partition,), CLIENT_VERSION),
        lambda _: reply(AddOffsetsToTxnResponse()),
        failed,
    )
