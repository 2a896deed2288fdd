"""EndTxn: commit or abort a transaction.

Answered when the decision is committed; the markers are written after that. From version 5 on each end raises the
producer's epoch, or gives it another id when its epochs are used up: the answer says with what it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.transaction_errors import code_of
from tailrace.coordinator.transactions.decisions import Ending, ProducerKey
from tailrace.coordinator.transactions.transaction import VERSION_WITH_BUMPS
from tailrace.model.errors import InvalidRequestError, TailraceError
from tailrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node

RAISES_EPOCHS_FROM: Final = 5
KNOWS_FENCING_FROM: Final = 2


def handle(
    node: Node, context: RequestContext, request: EndTxnRequest, reply: Callable[[EndTxnResponse], None]
) -> None:
    def failed(error: TailraceError) -> None:
        reply(EndTxnResponse(error_code=code_of(error, knows_fencing=context.version >= KNOWS_FENCING_FROM)))

    def ended(producer: ProducerKey) -> None:
        reply(EndTxnResponse(producer_id=producer.id, producer_epoch=producer.epoch))

    transactional_id = request.transactional_id
    if not transactional_id:
        failed(InvalidRequestError("the transactional id is empty"))
        return
    ending = Ending(
        ProducerKey(request.producer_id, request.producer_epoch),
        request.committed,
        VERSION_WITH_BUMPS if context.version >= RAISES_EPOCHS_FROM else 0,
    )
    node.transactions.submit(
        "end-transaction",
        transactional_id,
        lambda shard: shard.end(transactional_id, ending, ended, failed),
        ended,
        failed,
    )
