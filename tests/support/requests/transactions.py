"""Requests of transactions about which the coordinator knows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from support.requests.case import DATA, Case, ServerFacts, versions
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

NAMES = ("nobody", "", "ünicode", "x" * 10_000)


def unknown_transactions(facts: ServerFacts) -> Iterator[Case]:
    for name in NAMES:
        label = repr(name[:8])
        for version in versions(AddPartitionsToTxnRequest):
            for topic in (DATA, "nope", "bad/name", ""):
                yield Case(f"{label} {topic!r}", _added(name, topic, version), version)
        for version in versions(AddOffsetsToTxnRequest):
            for group in ("group", "", "x" * 10_000):
                request = AddOffsetsToTxnRequest(transactional_id=name, producer_id=5, producer_epoch=0, group_id=group)
                yield Case(f"{label} of {group[:8]!r}", request, version)
        for version in versions(EndTxnRequest):
            request = EndTxnRequest(transactional_id=name, producer_id=5, producer_epoch=0, committed=True)
            yield Case(label, request, version)
        yield Case(label, DescribeTransactionsRequest(transactional_ids=[name]), 0)
    yield Case("twice", DescribeTransactionsRequest(transactional_ids=["a", "a"]), 0)
    for version in versions(ListTransactionsRequest):
        yield Case("all", ListTransactionsRequest(), version)
        yield Case("of states", ListTransactionsRequest(state_filters=["Ongoing", "", "Nothing"]), version)
        yield Case("of producers", ListTransactionsRequest(producer_id_filters=[-1, 0, 5]), version)
    for duration_ms in (-(2**63), -2, 0, 2**63 - 1):
        yield Case(f"longer than {duration_ms}", ListTransactionsRequest(duration_filter=duration_ms), 1)
    for pattern in ("", ".*", "(", "\\", "(?=a)", "a{1001}", "(a*)*b"):
        yield Case(f"like {pattern}", ListTransactionsRequest(transactional_id_pattern=pattern), 2)


def marked_transactions(facts: ServerFacts) -> Iterator[Case]:
    """By somebody who is no coordinator: nobody has such transactions."""
    for version in versions(WriteTxnMarkersRequest):
        yield Case("none", WriteTxnMarkersRequest(), version)
        for name, fields in {
            "a producer": {},
            "no producer": {"producer_id": -1},
            "no epoch": {"producer_epoch": -1},
            "no coordinator": {"coordinator_epoch": -1},
        }.items():
            for topic in ("nope", ""):
                values: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "transaction_result": True, **fields}
                rows = [WritableTxnMarkerTopic(name=topic, partition_indexes=[0, 0, -1])]
                marker = WritableTxnMarker(topics=rows, **values)
                yield Case(f"of {name} in {topic!r}", WriteTxnMarkersRequest(markers=[marker]), version)


def _added(name: str, topic: str, version: int) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name=topic, partitions=[0, 0, 9])]
    if version >= 4:
        part = AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=5, producer_epoch=0, verify_only=version > 4, topics=topics
        )
        return AddPartitionsToTxnRequest(transactions=[part])
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=5,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )
