"""EndTxn, api key 26."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, field


class EndTxnRequest(Request, key=26, versions="0-5", flexible="3+"):
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    committed: bool = field(BOOL)


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, "5+", default=-1, ignorable=True)
    producer_epoch: int = field(INT16, "5+", default=-1, ignorable=True)
