"""Configuration, quotas and features."""

# Made by tools/make_messages.py from the schemas of Apache Kafka 4.3.1. Change that, not this.

from __future__ import annotations

from tailrace.protocol.message import Record, Struct
from tailrace.protocol.schema import BOOL, FLOAT64, INT8, INT16, STRING, array_of, field


class ConfigRecord(Record, key=4, versions="0", flexible="0+"):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")


class EntityData(Struct):
    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable="0+")


class ClientQuotaRecord(Record, key=14, versions="0", flexible="0+"):
    entity: list[EntityData] = field(array_of(EntityData))
    key: str = field(STRING)
    value: float = field(FLOAT64)
    remove: bool = field(BOOL)


class FeatureLevelRecord(Record, key=12, versions="0", flexible="0+"):
    name: str = field(STRING)
    feature_level: int = field(INT16)
