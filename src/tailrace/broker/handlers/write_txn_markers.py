"""WriteTxnMarkers: a transaction coordinator, or an administrator who aborts a transaction that hangs, ends
transactions in partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.txn_markers import write_markers
from tailrace.coordinator.transactions.markers import MarkerOrder, MarkerResults
from tailrace.model.errors import UnknownServerError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: WriteTxnMarkersRequest,
    reply: Callable[[WriteTxnMarkersResponse], None],
) -> None:
    orders = [
        MarkerOrder(
            coordinator_epoch=marker.coordinator_epoch,
            producer_id=marker.producer_id,
            epoch=marker.producer_epoch,
            is_commit=marker.transaction_result,
            partitions=[
                TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes
            ],
            transaction_version=marker.transaction_version,
        )
        for marker in request.markers
    ]
    if any((order.producer_id < 0 or order.epoch < 0) and _is_any_known(node, order) for order in orders):
        # There are no such producers, and Kafka has no better word for it.
        refused = [dict.fromkeys(order.partitions, UnknownServerError.code) for order in orders]
        reply(_response(orders, refused))
        return
    write_markers(node, orders, lambda results: reply(_response(orders, results)))


def _is_any_known(node: Node, order: MarkerOrder) -> bool:
    topics = node.image.topics
    return any(name.topic in topics and name.partition in topics[name.topic].partitions for name in order.partitions)


def _response(orders: list[MarkerOrder], results: MarkerResults) -> WriteTxnMarkersResponse:
    """By producer: of a partition that is named twice for one of them the last code counts."""
    codes: dict[int, dict[str, dict[int, int]]] = {}
    for order, result in zip(orders, results, strict=True):
        for partition, code in result.items():
            topics = codes.setdefault(order.producer_id, {})
            topics.setdefault(partition.topic, {})[partition.partition] = code
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index, code in partitions.items()
                        ],
                    )
                    for topic, partitions in topics.items()
                ],
            )
            for producer_id, topics in codes.items()
        ]
    )
