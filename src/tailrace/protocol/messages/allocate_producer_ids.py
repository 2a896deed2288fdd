"""AllocateProducerIds, api key 67."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response
from tailrace.protocol.schema import INT16, INT32, INT64, field


class AllocateProducerIdsRequest(Request, key=67, versions="0", flexible="0+"):
    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)


class AllocateProducerIdsResponse(Response, key=67, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id_start: int = field(INT64)
    producer_id_len: int = field(INT32)
