"""The vocabulary in which messages are declared: field types, and `field()`.

A message is a class (`tailrace.protocol.message`), a field one line of it:

    class FetchRequest(Request, key=1, versions="4-18", flexible="12+"):
        max_wait_ms: int = field(INT32)
        rack_id: str = field(STRING, "11+", ignorable=True)
        topics: list[FetchTopic] = field(array_of(FetchTopic))

Versions are written as in Kafka's own schemas: `3`, `3-5`, `3+`, or nothing for none. A field that a version lacks has
its default after decoding; encoding such a version drops it where it is ignorable, and refuses another value than the
default where it is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

# What a field of type RECORDS or VIEW holds. Decoded, it is a memoryview of the bytes that were decoded. To encode, it
# is a buffer, or anything with a length that stands for so many bytes: `encode_parts` hands it back as it is.
Payload: TypeAlias = Any

MAX_VERSION: Final = 0x7FFF


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of always the same size; `code` is its letter in `struct`."""

    name: str
    code: str
    size_bytes: int
    zero: bool | int | float | bytes


@dataclass(frozen=True, slots=True)
class Sequence:
    """A length, then as many bytes."""

    name: str
    zero: str | bytes


@dataclass(frozen=True, slots=True)
class ArrayOf:
    element: Scalar | Sequence | type[Any]


FieldType: TypeAlias = Scalar | Sequence | ArrayOf | type[Any]

BOOL: Final = Scalar("bool", "?", 1, False)
INT8: Final = Scalar("int8", "b", 1, 0)
INT16: Final = Scalar("int16", "h", 2, 0)
INT32: Final = Scalar("int32", "i", 4, 0)
INT64: Final = Scalar("int64", "q", 8, 0)
UINT16: Final = Scalar("uint16", "H", 2, 0)
UINT32: Final = Scalar("uint32", "I", 4, 0)
FLOAT64: Final = Scalar("float64", "d", 8, 0.0)
UUID: Final = Scalar("uuid", "16s", 16, bytes(16))

STRING: Final = Sequence("string", "")
BYTES: Final = Sequence("bytes", b"")  # a copy of its own: it may outlive the buffer it came in
VIEW: Final = Sequence("view", b"")  # bytes on the wire; a view of the buffer, for what is large and soon used
RECORDS: Final = Sequence("records", b"")

PAYLOADS: Final = (VIEW, RECORDS)


def array_of(element: Scalar | Sequence | type[Any]) -> ArrayOf:
    return ArrayOf(element)


class _Unset:
    def __repr__(self) -> str:
        return "…"


UNSET: Final = _Unset()


@dataclass(slots=True)
class Field:
    """What one line of a message says. `tagged` are the versions that carry the field by its tag."""

    type: FieldType
    versions: str
    nullable: str
    default: Any
    tag: int | None
    tagged: str
    ignorable: bool
    always_legacy: bool
    name: str = ""

    def default_value(self) -> Any:
        """A new value of what the field holds when nobody gave it one."""
        make = self.default_factory()
        return make() if make else self.default

    def default_factory(self) -> Callable[[], Any] | None:
        """How to make the default where it must not be shared; None where `default` itself serves."""
        if self.default is None:
            return None
        if isinstance(self.type, ArrayOf):
            return list
        return self.type if isinstance(self.type, type) else None


def field(
    field_type: FieldType,
    versions: str = "0+",
    *,
    default: Any = UNSET,
    nullable: str = "",
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    always_legacy: bool = False,
) -> Any:
    """Declare a field. `always_legacy` keeps a string's length an int16 in flexible versions too.

    Without `default` it is zero, empty, or a struct of defaults. A tagged struct that is not sent is None: in Kafka it
    is a struct of defaults, and one that has nothing but defaults is not sent.
    """
    if default is UNSET:
        if field_type is RECORDS and nullable:
            default = None
        elif isinstance(field_type, Scalar | Sequence):
            default = field_type.zero
        elif tag is not None and isinstance(field_type, type):
            default = None
    carried_by_tag = "" if tag is None else versions if tagged is None else tagged
    return Field(field_type, versions, nullable, default, tag, carried_by_tag, ignorable, always_legacy)


@cache
def version_range(text: str) -> tuple[int, int] | None:
    """First and last version, None for no version at all."""
    if not text:
        return None
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if match is None:
        raise TypeError(f"{text!r} is no range of versions")
    first, open_end, last = match.groups()
    return int(first), MAX_VERSION if open_end else int(last or first)


def in_versions(version: int, text: str) -> bool:
    bounds = version_range(text)
    return bounds is not None and bounds[0] <= version <= bounds[1]
