"""InitProducerId: an id and an epoch for a producer.

Without a transactional id a producer always gets a new id with epoch 0, also where it names the one it had. With one,
the coordinator of the transactional id raises the epoch, so that who had it before is fenced; a transaction that is
still under way is aborted first, and the client told to come again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.transaction_errors import code_of
from tailrace.coordinator.transactions.decisions import Initialisation, ProducerKey
from tailrace.coordinator.transactions.transaction import NO_TIMEOUT
from tailrace.model.errors import (
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    TailraceError,
    TransactionalIdAuthorizationError,
    UnsupportedVersionError,
)
from tailrace.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from tailrace.broker.node import Node

FIRST_EPOCH: Final = 0
KNOWS_FENCING_FROM: Final = 4


def handle(
    node: Node, context: RequestContext, request: InitProducerIdRequest, reply: Callable[[InitProducerIdResponse], None]
) -> None:
    def failed(error: TailraceError | type[TailraceError]) -> None:
        reply(_refused(code_of(error, knows_fencing=context.version >= KNOWS_FENCING_FROM)))

    def initialised(producer: ProducerKey) -> None:
        reply(InitProducerIdResponse(producer_id=producer.id, producer_epoch=producer.epoch))

    problem = _problem(node, request)
    if problem is not None:
        failed(problem)
    elif request.transactional_id is None:
        node.producer_ids.take(lambda producer_id: initialised(ProducerKey(producer_id, FIRST_EPOCH)), failed)
    else:
        wanted = _wanted(request, request.transactional_id)
        node.transactions.submit(
            "init-producer-id",
            wanted.transactional_id,
            lambda shard: shard.init_producer_id(wanted, initialised, failed),
            initialised,
            failed,
        )


def _problem(node: Node, request: InitProducerIdRequest) -> type[TailraceError] | None:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return InvalidRequestError
    if request.transactional_id is None:
        return None
    if not request.transactional_id:
        return InvalidRequestError
    if request.enable2_pc and not node.config.transaction_two_phase_commit_enable:
        return TransactionalIdAuthorizationError
    if request.keep_prepared_txn:
        return UnsupportedVersionError  # as Kafka 4.3 answers: the field is there, its meaning not yet
    if not request.enable2_pc and not 0 < request.transaction_timeout_ms <= node.config.transaction_max_timeout_ms:
        return InvalidTransactionTimeoutError
    return None


def _wanted(request: InitProducerIdRequest, transactional_id: str) -> Initialisation:
    is_new = request.producer_id == NO_PRODUCER_ID
    return Initialisation(
        transactional_id,
        NO_TIMEOUT if request.enable2_pc else request.transaction_timeout_ms,
        None if is_new else ProducerKey(request.producer_id, request.producer_epoch),
    )


def _refused(error_code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error_code, producer_epoch=NO_PRODUCER_EPOCH)
