"""Whether values of a writer's schema can be read as a reader's, by Avro's rules: known before a value is read."""

from __future__ import annotations

from typing import Final

from tailrace.spark.tables.values.avro_schema import AvroNode

_READ_AS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def why_unreadable(writer: AvroNode, reader: AvroNode, path: str = "") -> str | None:
    """None where each value can be read."""
    for member in _members(writer):
        reasons = [_why_member_unreadable(member, one, path) for one in _members(reader)]
        if all(reasons):
            return (
                reasons[0]
                if len(reasons) == 1
                else f"{path or 'the value'} may be {_shown(member)}, which has no place"
            )
    return None


_NULL: Final = "null"


def _members(node: AvroNode) -> list[AvroNode]:
    members = [one for _, one in node.fields] if node.kind == "union" else [node]
    if not node.is_nullable or node.kind == _NULL:
        return members
    return [AvroNode(_NULL, node.type), *members]


def _why_member_unreadable(writer: AvroNode, reader: AvroNode, path: str) -> str | None:
    here = path or "the value"
    if writer.kind != reader.kind:
        if reader.kind in _READ_AS.get(writer.kind, ()) and not writer.logical:
            return None
        return f"{here} is {_shown(writer)} where it is written and {_shown(reader)} where it is read"
    if writer.name and not _is_same_name(writer, reader):
        return f"{here} is {writer.name} where it is written and {reader.name} where it is read"
    if writer.logical and reader.logical and (writer.logical, writer.type) != (reader.logical, reader.type):
        return f"{here} is {_shown(writer)} where it is written and {_shown(reader)} where it is read"
    if writer.kind == "fixed" and writer.size != reader.size:
        return f"{here} has {writer.size} bytes where it is written and {reader.size} where it is read"
    if writer.kind == "enum" and not reader.has_default_symbol and (gone := set(writer.symbols) - set(reader.symbols)):
        return f"{here} may be {', '.join(sorted(gone))}, which {reader.name} does not have"
    if writer.items is not None and reader.items is not None:
        return why_unreadable(writer.items, reader.items, f"{path}[]")
    return _why_fields_unreadable(writer, reader, path) if writer.kind == "record" else None


def _why_fields_unreadable(writer: AvroNode, reader: AvroNode, path: str) -> str | None:
    written = dict(writer.fields)
    for name, node in reader.fields:
        names = (name, *reader.field_aliases.get(name, ()))
        there = next((written[one] for one in names if one in written), None)
        inner = f"{path}.{name}" if path else name
        if there is None:
            if name not in reader.defaults:
                return f"{inner} is not written, and has no default"
        elif reason := why_unreadable(there, node, inner):
            return reason
    return None


def _is_same_name(writer: AvroNode, reader: AvroNode) -> bool:
    """Namespaces do not count."""
    return writer.name.rpartition(".")[2] in {one.rpartition(".")[2] for one in (reader.name, *reader.other_names)}


def _shown(node: AvroNode) -> str:
    return node.logical or node.name or node.kind
