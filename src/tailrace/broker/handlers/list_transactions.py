"""ListTransactions: the transactional ids that this broker coordinates.

Filters are joined by and: states, producer ids, how long the transaction has run (from version 1), a pattern in RE2's
syntax that the whole id must match (from version 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tailrace.broker.context import RequestContext
from tailrace.coordinator.consumer.patterns import Matcher, compiled
from tailrace.coordinator.transactions.state import STATES_BY_TITLE
from tailrace.coordinator.transactions.transaction import Transaction
from tailrace.model.errors import CoordinatorLoadInProgressError, InvalidRegularExpressionError
from tailrace.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node


class _Filter(NamedTuple):
    producer_ids: frozenset[int]
    states: frozenset[str]
    started_before_ms: int | None
    pattern: Matcher | None

    def takes(self, transaction: Transaction) -> bool:
        return (
            (not self.producer_ids or transaction.producer_id in self.producer_ids)
            and (not self.states or transaction.state.title in self.states)
            and (self.started_before_ms is None or transaction.start_ms < self.started_before_ms)
            and (self.pattern is None or bool(self.pattern(transaction.transactional_id)))
        )


def handle(
    node: Node,
    context: RequestContext,
    request: ListTransactionsRequest,
    reply: Callable[[ListTransactionsResponse], None],
) -> None:
    if node.transactions.is_loading:
        reply(ListTransactionsResponse(error_code=CoordinatorLoadInProgressError.code))
        return
    try:
        wanted = _filter(request, node.env.clock.now_ms())
    except InvalidRegularExpressionError as error:
        reply(ListTransactionsResponse(error_code=error.code))
        return
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in STATES_BY_TITLE]
    rows = [
        TransactionState(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.title,
        )
        for shard in node.transactions.machines()
        for transaction in shard.transactions.values()
        if wanted.takes(transaction)
    ]
    reply(ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=rows))


def _filter(request: ListTransactionsRequest, now_ms: int) -> _Filter:
    return _Filter(
        frozenset(request.producer_id_filters),
        frozenset(request.state_filters),
        now_ms - request.duration_filter if request.duration_filter >= 0 else None,
        compiled(request.transactional_id_pattern) if request.transactional_id_pattern else None,
    )
