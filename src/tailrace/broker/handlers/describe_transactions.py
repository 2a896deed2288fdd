"""DescribeTransactions: what the coordinator knows of transactional ids.

Of a transaction that is being ended only those partitions are listed that have no marker yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.coordinator.transactions.shard import TransactionShard
from tailrace.coordinator.transactions.transaction_log import by_topic
from tailrace.model.errors import InvalidRequestError, TailraceError, TransactionalIdNotFoundError
from tailrace.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: DescribeTransactionsRequest,
    reply: Callable[[DescribeTransactionsResponse], None],
) -> None:
    asked = dict.fromkeys(request.transactional_ids)  # named again and again, one would fill any memory
    rows = [TransactionState(transactional_id=transactional_id) for transactional_id in asked]
    left = len(rows)

    def done() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            reply(DescribeTransactionsResponse(transaction_states=rows))

    if not rows:
        done()
    for row in rows:
        _describe(node, row, done)


def _describe(node: Node, row: TransactionState, done: Callable[[], None]) -> None:
    def failed(error: TailraceError) -> None:
        row.error_code = error.code
        done()

    if not row.transactional_id:
        failed(InvalidRequestError("the transactional id is empty"))
    else:
        node.transactions.read(row.transactional_id, lambda shard: _fill(row, shard), lambda _: done(), failed)


def _fill(row: TransactionState, shard: TransactionShard) -> bool:
    found = shard.transactions.get(row.transactional_id)
    if found is None:
        raise TransactionalIdNotFoundError(f"no producer has transactional id {row.transactional_id}")
    row.transaction_state = found.state.title
    row.transaction_timeout_ms = found.timeout_ms
    row.transaction_start_time_ms = found.start_ms
    row.producer_id = found.producer_id
    row.producer_epoch = found.epoch
    row.topics = [
        TopicData(topic=topic, partitions=indexes) for topic, indexes in by_topic(shard.markers.left(found)).items()
    ]
    return True
