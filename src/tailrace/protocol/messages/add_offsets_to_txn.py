"""AddOffsetsToTxn, api key 25."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import INT16, INT32, INT64, STRING, field


class AddOffsetsToTxnRequest(Request, key=25, versions="0-4", flexible="3+"):
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    group_id: str = field(STRING)


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
