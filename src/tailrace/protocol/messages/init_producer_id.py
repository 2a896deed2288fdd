"""InitProducerId, api key 22."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, field


class InitProducerIdRequest(Request, key=22, versions="0-6", flexible="2+"):
    transactional_id: str | None = field(STRING, nullable="0+")
    transaction_timeout_ms: int = field(INT32)
    producer_id: int = field(INT64, "3+", default=-1)
    producer_epoch: int = field(INT16, "3+", default=-1)
    enable2_pc: bool = field(BOOL, "6+")
    keep_prepared_txn: bool = field(BOOL, "6+")


class InitProducerIdResponse(Response, key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: int = field(INT32, ignorable=True)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, default=-1)
    producer_epoch: int = field(INT16)
    ongoing_txn_producer_id: int = field(INT64, "6+", default=-1)
    ongoing_txn_producer_epoch: int = field(INT16, "6+", default=-1)
