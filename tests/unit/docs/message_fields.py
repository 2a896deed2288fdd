"""Messages as rows of named values, as the examples of docs/formats state them, and back.

    TopicRecord(name="t1")  ↔  nameLength = 2, name = "t1", topicId = "…", taggedFields = 0

Names are Kafka's: camel case. An array is its count and its elements (`replicasCount`, `replicas[0]`), a struct in it
`voters[0].voterId`. Only what the examples need: flexible versions, tagged fields that have their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tailrace.model.ids import Uuid
from tailrace.protocol.message import Struct
from tailrace.protocol.schema import STRING, UUID, ArrayOf, Field, Scalar, in_versions

TAGS = "taggedFields"


class DeclaredRow(NamedTuple):
    name: str
    type: str


def camel(name: str) -> str:
    return re.sub(r"_(.)", lambda found: found[1].upper(), name)


def plain_fields(kind: type[Struct], version: int) -> list[Field]:
    """Those that stand in a row, without tags."""
    return [each for each in kind.__fields__ if in_versions(version, each.versions) and each.tag is None]


def declared_rows(kind: type[Struct], version: int) -> list[DeclaredRow]:
    """What a byte table of the struct has to say; arrays of structs have tables of their own."""
    rows: list[DeclaredRow] = []
    for declared in plain_fields(kind, version):
        name, of = camel(declared.name), declared.type
        if isinstance(of, ArrayOf):
            rows.append(DeclaredRow(f"{name}Count", "compact"))
            of = of.element
        elif of is STRING:
            rows.append(DeclaredRow(f"{name}Length", "compact"))
        if of is STRING:
            rows.append(DeclaredRow(name, "bytes"))
        elif isinstance(of, Scalar):
            rows.append(DeclaredRow(name, of.name))
    return [*rows, DeclaredRow(TAGS, "uvarint")]


def flat(message: Struct, version: int, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for declared in plain_fields(type(message), version):
        name, value = prefix + camel(declared.name), getattr(message, declared.name)
        if isinstance(declared.type, ArrayOf):
            yield f"{name}Count", len(value)
            for place, element in enumerate(value):
                yield from _flat_value(f"{name}[{place}]", declared.type.element, element, version)
        else:
            yield from _flat_value(name, declared.type, value, version)
    assert all(
        getattr(message, each.name) == each.default_value() for each in message.__fields__ if each.tag is not None
    )
    yield prefix + TAGS, 0


def _flat_value(name: str, kind: Any, value: Any, version: int) -> Iterator[tuple[str, Any]]:
    if isinstance(kind, type):
        yield from flat(value, version, name + ".")
    elif kind is UUID:
        yield name, str(Uuid(bytes(value)))
    else:
        if kind is STRING:
            yield f"{name}Length", len(value.encode())
        yield name, value


def made(kind: type[Struct], version: int, fields: dict[str, Any], prefix: str = "") -> Any:
    """The message whose rows these are."""
    values = {}
    for declared in plain_fields(kind, version):
        name = prefix + camel(declared.name)
        if isinstance(declared.type, ArrayOf):
            count, element = fields[f"{name}Count"], declared.type.element
            values[declared.name] = [_made_value(f"{name}[{n}]", element, fields, version) for n in range(count)]
        else:
            values[declared.name] = _made_value(name, declared.type, fields, version)
    assert fields[prefix + TAGS] == 0
    return kind(**values)


def _made_value(name: str, kind: Any, fields: dict[str, Any], version: int) -> Any:
    if isinstance(kind, type):
        return made(kind, version, fields, name + ".")
    return Uuid.parse(fields[name]) if kind is UUID else fields[name]
