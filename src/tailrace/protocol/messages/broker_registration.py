"""BrokerRegistration, api key 62."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Request, Response, Struct
from tailrace.protocol.schema import BOOL, INT16, INT32, INT64, STRING, UINT16, UUID, array_of, field


class Listener(Struct):
    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)
    security_protocol: int = field(INT16)


class Feature(Struct):
    name: str = field(STRING)
    min_supported_version: int = field(INT16)
    max_supported_version: int = field(INT16)


class BrokerRegistrationRequest(Request, key=62, versions="0-4", flexible="0+"):
    broker_id: int = field(INT32)
    cluster_id: str = field(STRING)
    incarnation_id: bytes = field(UUID)
    listeners: list[Listener] = field(array_of(Listener))
    features: list[Feature] = field(array_of(Feature))
    rack: str | None = field(STRING, nullable="0+")
    is_migrating_zk_broker: bool = field(BOOL, "1+")
    log_dirs: list[bytes] = field(array_of(UUID), "2+", ignorable=True)
    previous_broker_epoch: int = field(INT64, "3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Response, key=62, versions="0-4", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    broker_epoch: int = field(INT64, default=-1)
