"""ListTransactions, api key 66."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, array_of, field


class ListTransactionsRequest(Request, key=66, versions="0-2", flexible="0+"):
    state_filters: list[str] = field(array_of(STRING))
    producer_id_filters: list[int] = field(array_of(INT64))
    duration_filter: int = field(INT64, "1+", default=-1)
    transactional_id_pattern: str | None = field(STRING, "2+", nullable="2+", default=None)


class TransactionState(Struct):
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    transaction_state: str = field(STRING)


class ListTransactionsResponse(Response, key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    unknown_state_filters: list[str] = field(array_of(STRING))
    transaction_states: list[TransactionState] = field(array_of(TransactionState))
