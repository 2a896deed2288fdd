"""InitProducerId: an id for an idempotent producer.

A producer without a transactional id always gets a new id with epoch 0, also where it names the one it had: only the
coordinator of a transactional id could raise an epoch. No broker coordinates transactions yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.model.errors import (
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    NotCoordinatorError,
    TailraceError,
)
from tailrace.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node

FIRST_EPOCH: Final = 0


def handle(
    node: Node, context: RequestContext, request: InitProducerIdRequest, reply: Callable[[InitProducerIdResponse], None]
) -> None:
    error = _problem(node, request)
    if error is not None:
        reply(_refused(error.code))
        return
    node.producer_ids.take(
        lambda producer_id: reply(InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH)),
        lambda failure: reply(_refused(failure.code)),
    )


def _problem(node: Node, request: InitProducerIdRequest) -> type[TailraceError] | None:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return InvalidRequestError
    if request.transactional_id is None:
        return None
    if not request.transactional_id:
        return InvalidRequestError
    if not 0 < request.transaction_timeout_ms <= node.config.transaction_max_timeout_ms:
        return InvalidTransactionTimeoutError
    return NotCoordinatorError


def _refused(error_code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error_code, producer_epoch=NO_PRODUCER_EPOCH)
