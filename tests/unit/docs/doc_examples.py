"""The worked examples and byte tables of docs/formats, read from their Markdown. docs/formats/README.md has the syntax.

A mistake in the syntax is an error with file and line, so that no example is ever passed over.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from support.docs.page_blocks import ROOT, blocks
from tailrace.model.ids import Uuid
from tailrace.protocol.wire import read_uvarint
from tailrace.record.varint import decode_varint, decode_varlong

FORMATS = ROOT / "docs" / "formats"

Value = int | str | None

_STRUCTS = {
    "int8": Struct(">b"),
    "int16": Struct(">h"),
    "int32": Struct(">i"),
    "int64": Struct(">q"),
    "uint8": Struct(">B"),
    "uint16": Struct(">H"),
    "uint32": Struct(">I"),
    "uint32le": Struct("<I"),
}
_ANY_LENGTH = {"varint", "varlong", "uvarint", "compact", "bytes", "uuid"}
TYPES = {*_STRUCTS, *_ANY_LENGTH}

_BYTES_LINE = re.compile(r"(?P<position>\d+)  +(?P<hex>[0-9a-f]{2}(?: [0-9a-f]{2})*)(?:  +(?P<rest>\S.*))?")
_TEXT_LINE = re.compile(r"(?P<text>.*?)(?P<end>⏎)?(?:  +(?P<rest>\S+ = .*))?")
_FIELD = re.compile(r"(?P<name>\S+) = (?P<value>.+)")
_OPAQUE = re.compile(r"\((\d+) bytes\)")


class Line(NamedTuple):
    """Some bytes of an example and the field that they are; lines that go on with a field are joined to it."""

    position: int
    data: bytes
    name: str
    value: str


@dataclass
class Example:
    document: str
    line_number: int
    kind: str
    format: str
    attributes: dict[str, str]
    lines: list[Line] = field(default_factory=list)
    derived: dict[str, str] = field(default_factory=dict)
    """Fields without bytes of their own: what a reader makes of the others."""

    def __str__(self) -> str:
        return f"{self.document}:{self.line_number}"

    @property
    def data(self) -> bytes:
        return b"".join(line.data for line in self.lines)


class Row(NamedTuple):
    position: int | None
    size: int | None
    type: str
    name: str


def attributes_of(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def examples(document: str) -> list[Example]:
    found = []
    for block in blocks(FORMATS / document):
        if block.kind not in ("bytes", "text"):
            continue
        words = block.info.split()[1:]
        assert words, f"{document}:{block.line}: an example names its format"
        example = Example(document, block.line, block.kind, words[0], attributes_of(words[1:]))
        for number, line in enumerate(block.lines, block.line):
            _add_line(example, line, f"{document}:{number}")
        found.append(example)
    return found


def _add_line(example: Example, line: str, where: str) -> None:
    if line.startswith("  "):
        stated = _FIELD.fullmatch(line.strip())
        assert stated, f"{where}: a line without bytes is `name = value`"
        assert stated["name"] not in example.derived, f"{where}: {stated['name']} stands there twice"
        example.derived[stated["name"]] = stated["value"]
        return
    position = len(example.data)
    if example.kind == "bytes":
        found = _BYTES_LINE.fullmatch(line)
        assert found, f"{where}: not `position  bytes  name = value`"
        assert int(found["position"]) == position, f"{where}: the position is {position}"
        data = bytes.fromhex(found["hex"])
    else:
        found = _TEXT_LINE.fullmatch(line)
        assert found, f"{where}: not `text⏎  name = value`"
        data = (found["text"] + ("\n" if found["end"] else "")).encode()
    if found["rest"] is None:
        assert example.lines, f"{where}: the first line begins a field"
        last = example.lines[-1]
        example.lines[-1] = last._replace(data=last.data + data)
        return
    stated = _FIELD.fullmatch(found["rest"])
    assert stated, f"{where}: {found['rest']!r} is not `name = value`"
    assert stated["name"] not in [known.name for known in example.lines], (
        f"{where}: {stated['name']} stands there twice"
    )
    example.lines.append(Line(position, data, stated["name"], stated["value"]))


def parse(value: str) -> Value:
    """A whole number (0x for hexadecimal), "text" as in JSON, null, or (n bytes), which becomes n."""
    opaque = _OPAQUE.fullmatch(value)
    if opaque:
        return int(opaque[1])
    if value.startswith("0x"):
        return int(value, 16)
    parsed = json.loads(value)
    assert parsed is None or isinstance(parsed, int | str), f"{value!r} is no value of an example"
    return parsed


def without_numbers(name: str) -> str:
    """`record[0].header[2]` → `record.header`."""
    return re.sub(r"\[\d+\]", "", name)


def check_line(line: Line, kind: str) -> None:
    """The bytes of a line, read as its field's type, are the value next to them."""
    stated = parse(line.value)
    if kind == "bytes":
        if _OPAQUE.fullmatch(line.value):
            assert stated == len(line.data), f"{line.name} has {len(line.data)} bytes"
        elif line.value.startswith("0x"):
            assert bytes.fromhex(line.value[2:]) == line.data, line.name
        else:
            assert isinstance(stated, str), f"{line.name} is bytes"
            assert stated.encode() == line.data, line.name
        return
    if kind == "uuid":
        assert isinstance(stated, str), f"{line.name} is an id"
        assert Uuid.parse(stated) == line.data, line.name
        return
    if kind in ("uvarint", "compact"):
        number, end = read_uvarint(line.data, 0)
        assert (number - (kind == "compact"), end) == (stated, len(line.data)), line.name
        return
    if kind in ("varint", "varlong"):
        decode = decode_varint if kind == "varint" else decode_varlong
        assert decode(line.data, 0, len(line.data)) == (stated, len(line.data)), line.name
        return
    assert _STRUCTS[kind].size == len(line.data), f"{line.name} is {kind}"
    assert _STRUCTS[kind].unpack(line.data)[0] == stated, line.name


def table_rows(document: str, heading: str) -> list[dict[str, str]]:
    """The rows of the first table under a heading, by the names of its columns."""
    lines = (FORMATS / document).read_text().splitlines()
    start = next((n for n, line in enumerate(lines) if line.lstrip("#") == f" {heading}" and line[0] == "#"), None)
    assert start is not None, f"{document} has no heading {heading!r}"
    found: list[list[str]] = []
    for line in lines[start + 1 :]:
        if line.startswith("|"):
            found.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
        elif found or line.startswith("#"):
            break
    assert len(found) > 2, f"{document} has no table under {heading!r}"
    return [dict(zip(found[0], row, strict=True)) for row in found[2:]]


def byte_table(document: str, heading: str) -> list[Row]:
    """A table with the columns position (where it is fixed), bytes, type, field; checked for its own sense."""
    rows = []
    expected = 0
    for cells in table_rows(document, heading):
        where = f"{document}, {heading}, {cells['field']}"
        assert cells["type"] in TYPES, f"{where}: type {cells['type']}"
        layout = _STRUCTS.get(cells["type"])
        size = int(cells["bytes"]) if cells["bytes"].isdigit() else None
        assert layout is None or size == layout.size, f"{where}: {cells['bytes']} bytes of {cells['type']}"
        position = int(cells["position"]) if cells.get("position", "").isdigit() else None
        if position is not None:
            assert position == expected, f"{where}: stands at {expected}"
            expected += size or 0
        rows.append(Row(position, size, cells["type"], cells["field"]))
    return rows


def struct_format(rows: list[Row]) -> str:
    """What the leading rows of fixed position and size are for `struct`."""
    layouts = []
    for row in rows:
        if row.position is None or row.type not in _STRUCTS:
            break
        layouts.append(_STRUCTS[row.type].format[1:])
    return ">" + "".join(layouts)
