"""What one version of a struct looks like on the wire.

regular fields, in the order of their declaration
flexible versions only: uvarint number of tagged fields, then for each uvarint tag, uvarint size, value

type        other versions                      flexible versions
string      int16 length, −1 is null            uvarint length + 1, 0 is null
bytes       int32 length, −1 is null            uvarint length + 1, 0 is null
array       int32 number, −1 is null            uvarint number + 1, 0 is null
struct      its fields; where nullable, an int8 before it: −1 is null, in a tagged field 0 is; 1 is not
"""

from __future__ import annotations

from typing import NamedTuple

from tailrace.protocol.message import Message, Struct
from tailrace.protocol.schema import STRING, ArrayOf, Field, FieldType, Scalar, Sequence, in_versions


class Version(NamedTuple):
    number: int
    flexible: bool


class Layout(NamedTuple):
    regular: tuple[Field, ...]
    tagged: tuple[Field, ...]
    absent: tuple[Field, ...]


def version_of(message: type[Message], number: int) -> Version:
    return Version(number, message.is_flexible(number))


def layout_of(struct: type[Struct], version: Version) -> Layout:
    present = [f for f in struct.__fields__ if in_versions(version.number, f.versions)]
    tagged = [f for f in present if version.flexible and in_versions(version.number, f.tagged)]
    return Layout(
        tuple(f for f in present if f not in tagged),
        tuple(sorted(tagged, key=lambda f: f.tag or 0)),
        tuple(f for f in struct.__fields__ if f not in present),
    )


def is_nullable(declared: Field, version: Version) -> bool:
    return in_versions(version.number, declared.nullable)


def is_compact(declared: Field, version: Version) -> bool:
    return version.flexible and not declared.always_legacy


def least_bytes(field_type: FieldType, version: Version, *, nullable: bool = False, compact: bool | None = None) -> int:
    """The fewest bytes that a value can take: what bounds the number of elements that so many bytes can hold."""
    if isinstance(field_type, Scalar):
        return field_type.size_bytes
    if isinstance(field_type, Sequence | ArrayOf):
        short = 2 if field_type is STRING else 4
        return 1 if (version.flexible if compact is None else compact) else short
    if nullable:
        return 1
    regular = layout_of(field_type, version).regular
    fields = (
        least_bytes(f.type, version, nullable=is_nullable(f, version), compact=is_compact(f, version)) for f in regular
    )
    return sum(fields) + version.flexible
