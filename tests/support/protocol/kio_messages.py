"""kio's messages for comparison: random ones, and the same values as messages of ours.

kio is another implementation of the same schemas, with a class for every version and with types of its own: durations
and times instead of milliseconds, an enumeration of error codes, None for a UUID of zeros.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

from tailrace.protocol.message import Message, Struct
from tailrace.protocol.schema import ArrayOf, in_versions

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
TEXTS = ("", "a", "orders", "ключ", "€", "\U0001f600", "x" * 126, "y" * 127, "z" * 300, "\0")


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def kio_class(message: type[Message], version: int) -> Any:
    """The class that kio has for this version; None where it has none."""
    words = message.__name__
    for suffix in ("Request", "Response"):
        words = words.removesuffix(suffix)
    if message.__name__.endswith("Header"):
        words = message.__name__
    kinds = schema_name_map.get(snake(words), {}).get(version, {})
    for kind in kinds:
        if message.__name__.lower().endswith(kind.name) or kind.name in ("data", "header"):
            return load_entity_schema(snake(words), version, kind)
    return None


def kio_bytes(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def kio_read(kind: Any, data: bytes) -> Any:
    entity, size = entity_reader(kind)(data, 0)
    assert size == len(data)
    return entity


def random_entity(kind: Any, random: Random) -> Any:
    """An instance of a class of kio's, likely to have something at the edge of its type."""
    return kind(**{f.name: _random_value(f.type, f.metadata.get("kafka_type"), random) for f in fields(kind)})


def _random_value(kind: Any, kafka_type: str | None, random: Random) -> Any:
    if get_origin(kind) is tuple:
        many = 130 if kafka_type and random.random() < 0.1 else random.choice((0, 1, 1, 2, 3))
        return tuple(_random_value(get_args(kind)[0], kafka_type, random) for _ in range(many))
    options = get_args(kind)
    if NoneType in options:
        (inner,) = (option for option in options if option is not NoneType)
        return None if random.random() < 0.3 else _random_value(inner, kafka_type, random)
    if is_dataclass(kind):
        return random_entity(kind, random)
    assert kafka_type is not None
    return RANDOM[kafka_type](random)


def _integer(bits: int, signed: bool = True) -> Callable[[Random], int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return lambda random: random.choice((low, high, 0, 1, max(low, -1), random.randint(low, high)))


RANDOM: dict[str, Callable[[Random], Any]] = {
    "bool": lambda random: random.random() < 0.5,
    "int8": _integer(8),
    "int16": _integer(16),
    "int32": _integer(32),
    "int64": _integer(64),
    "uint16": _integer(16, signed=False),
    "uint32": _integer(32, signed=False),
    "float64": lambda random: random.choice((0.0, -1.5, 1e300, random.random())),
    "string": lambda random: random.choice(TEXTS),
    "bytes": lambda random: random.randbytes(random.choice((0, 1, 126, 127, 128, 300))),
    "records": lambda random: random.randbytes(random.choice((0, 1, 126, 127, 128, 300))),
    "uuid": lambda random: UUID(bytes=random.randbytes(16)),
    "error_code": lambda random: random.choice(list(ErrorCode)),
    "timedelta_i32": lambda random: timedelta(milliseconds=random.choice((0, -1, 30_000, 2**31 - 1, -(2**31)))),
    "timedelta_i64": lambda random: timedelta(milliseconds=random.choice((0, -1, 30_000, 2**40))),
    "datetime_i64": lambda random: EPOCH + timedelta(seconds=random.choice((0, 1, 1_700_000_000))),
}


def as_ours(message: type[Message], version: int, entity: Any) -> Message:
    """The same values as a message of ours, made by its constructor."""
    made = _struct(message, version, entity)
    assert isinstance(made, Message)
    return made


def _struct(struct: type[Struct], version: int, entity: Any) -> Struct:
    ours = [f for f in struct.__fields__ if in_versions(version, f.versions)]
    values = {}
    for mine, theirs in zip(ours, fields(entity), strict=True):
        inner = mine.type.element if isinstance(mine.type, ArrayOf) else mine.type
        value = getattr(entity, theirs.name)
        if value is not None or inner is mine.type:  # else a null array
            value = _value(inner, version, value, theirs.metadata.get("kafka_type"))
        if mine.tagged and isinstance(mine.type, type) and value == mine.type():
            value = None  # what is not sent, or might as well not be
        values[mine.name] = value
    return struct(**values)


def _value(inner: Any, version: int, value: Any, kafka_type: str | None) -> Any:
    if isinstance(value, tuple):
        return [_value(inner, version, item, kafka_type) for item in value]
    if kafka_type == "uuid":
        return bytes(16) if value is None else value.bytes
    if value is None:
        return -1 if kafka_type == "datetime_i64" else None
    if kafka_type == "error_code":
        return value.value
    if isinstance(value, timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime):
        return (value - EPOCH) // MILLISECOND
    return _struct(inner, version, value) if is_dataclass(value) else value


def versions_of(message: type[Message]) -> Iterator[int]:
    first, last = message.VERSIONS
    yield from range(first, last + 1)
