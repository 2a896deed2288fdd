"""Values of three formats, before and after their schemas grew: nested, optional, all types, and some that are broken.

Each is a number of values with what must be read back of them: fields without nulls, as in
`support.tables.reader_rows`.
"""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

AT = dt.datetime(2026, 11, 16, 1, 2, 3, 456_789, tzinfo=dt.UTC)
LOCAL = AT.replace(tzinfo=None)
DAY = dt.date(1969, 12, 30)
BROKEN = b"\xff broken"
Fields = dict[str, Any]


@dataclass(frozen=True)
class Values:
    """Of one format, in two runs."""

    given: list[dict[str, str]]
    """What `table` is told in each."""
    payloads: list[list[bytes]]
    fields: list[list[Fields]]


def json_values(folder: Path) -> Values:
    line, more_line = "STRUCT<sku: STRING, codes: ARRAY<INT>>", "STRUCT<sku: STRING, codes: ARRAY<INT>, gift: BOOLEAN>"
    place, more_place = "STRUCT<x: DOUBLE, y: FLOAT>", "STRUCT<x: DOUBLE, y: FLOAT, name: STRUCT<de: STRING>>"
    first = (
        f"id BIGINT NOT NULL, small TINYINT, yes BOOLEAN, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, raw BINARY, "
        f"price DECIMAL(10, 2), place {place}, lines ARRAY<{line}>, prices MAP<STRING, DECIMAL(38, 3)>"
    )
    second = first.replace(place, more_place).replace(line, more_line) + ", late MAP<STRING, ARRAY<STRING>>"
    whole = {
        "small": -128,
        "yes": True,
        "at": AT,
        "local": LOCAL,
        "day": DAY,
        "raw": b"\0\xff",
        "price": Decimal("-12345678.90"),
        "place": {"x": 0.1, "y": 0.5},
        "lines": [{"sku": "a", "codes": [1, 2]}, {"sku": "ö\0"}],
        "prices": {"high": Decimal("1" * 30 + ".125"), "": Decimal("0.000")},
    }
    grown = {
        "place": {"x": -1.0, "name": {"de": "Bern"}},
        "lines": [{"gift": False}, {"codes": [3], "gift": True}],
        "late": {"k": ["v", "w"]},
    }
    fields = [
        [{"id": 1 << 62, **whole}, {"id": 2}, {"id": 3, "lines": [{"sku": "b"}]}],
        [{"id": 4, **whole, **grown}, {"id": 5}, {"id": 6, "late": {"only": ["x"]}}],
    ]
    payloads = [[*(_json(each) for each in some), b'{"id": "1"}'] for some in fields]
    return Values([{"value": "json", "schema": text} for text in (first, second)], payloads, fields)


def _json(value: Any) -> bytes:
    def plain(one: Any) -> Any:
        if isinstance(one, dict):
            return {name: plain(each) for name, each in one.items()}
        if isinstance(one, list):
            return [plain(each) for each in one]
        if isinstance(one, bytes):
            return base64.b64encode(one).decode()
        return one.isoformat() if isinstance(one, dt.date) else one

    # Python has no way to write a decimal as a number but in the text itself.
    text = json.dumps(plain(value), default=lambda one: f"<{one}>")
    return text.replace('"<', "").replace('>"', "").encode()


def avro_values(folder: Path) -> Values:
    import fastavro

    from tailrace.spark.tables.values.framing import framed

    def schema(*, grown: bool) -> dict[str, Any]:
        line = [{"name": "sku", "type": "string"}, {"name": "codes", "type": {"type": "array", "items": "int"}}]
        line += [{"name": "gift", "type": ["null", "boolean"]}] if grown else []
        fields: list[dict[str, Any]] = [
            {"name": "id", "type": "long"},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
            {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
            {
                "name": "price",
                "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
            },
            {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"]}},
            {"name": "any", "type": ["null", "long", "string"]},
            {
                "name": "lines",
                "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": line}},
            },
            {"name": "by", "type": {"type": "map", "values": "double"}},
        ]
        fields += [{"name": "late", "type": ["null", "bytes"]}] if grown else []
        return {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}

    base = {"at": None, "day": None, "price": None, "any": None, "lines": [], "by": {}, "size": "S"}
    whole = {
        "at": AT,
        "day": DAY,
        "price": Decimal("1234567.89"),
        "any": "text",
        "lines": [{"sku": "a", "codes": [1, -2]}, {"sku": "", "codes": []}],
        "by": {"x": 1.5, "y": -0.0},
    }
    gifts = [{"sku": "c", "codes": [7], "gift": True}, {"sku": "d", "codes": [], "gift": None}]
    written = [
        [{**base, "id": 1, **whole}, {**base, "id": 2, "any": 1 << 40}, {**base, "id": 3, "size": "L"}],
        [{**base, "id": 4, **whole, "lines": gifts, "late": b"\0\xff"}, {**base, "id": 5, "late": None}],
    ]
    payloads = []
    for number, some in enumerate(written, 1):
        (folder / f"{number}.avsc").write_text(json.dumps(schema(grown=number == 2)))
        parsed = fastavro.parse_schema(schema(grown=number == 2))
        payloads.append(
            [*(framed(number, _avro(parsed, each)) for each in some), BROKEN, framed(9, b""), framed(1, b"")]
        )
    fields = [[_in_lanes(each) for each in some] for some in written]
    return Values([{"value": "avro", "registry": str(folder)}] * 2, payloads, fields)


def _avro(schema: Any, value: Any) -> bytes:
    import fastavro

    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, schema, value)
    return sink.getvalue()


def _in_lanes(value: Fields) -> Fields:
    """A union of several types is a struct with a field for each."""
    some = value["any"]
    return {**value, "any": None if some is None else {"long" if isinstance(some, int) else "string": some}}


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  google.protobuf.Timestamp at = 2;
  uint64 big = 3;
  Size size = 4;
  oneof paid { Cash cash = 5; string card = 6; }
  repeated Line lines = 7;
  map<int32, Line> by = 8;
  optional double maybe = 9;
  message Line { string sku = 1; repeated sint32 codes = 2; GROWN_LINE }
  GROWN
}
message Cash {}
enum Size { S = 0; L = 1; }
"""


def protobuf_values(folder: Path) -> Values:
    from google.protobuf import message_factory

    from tailrace.spark.tables.values.framing import framed, path_bytes
    from tailrace.spark.tables.values.protobuf_schema import schema_of_text

    texts = [
        PROTO.replace("GROWN_LINE", "").replace("GROWN", ""),
        PROTO.replace("GROWN_LINE", "optional bytes gift = 3;").replace("GROWN", "map<string, Size> late = 10;"),
    ]
    # What is not set and cannot tell so has its default; empty lists count as nothing here.
    base = {"big": Decimal(0), "size": "S"}
    whole = {
        "at": AT,
        "big": Decimal((1 << 64) - 1),
        "size": "L",
        "cash": True,
        "lines": [{"sku": "a", "codes": [1, -2]}],
        "by": {-1: {"sku": "x"}},
    }
    fields: list[list[Fields]] = [
        [{"id": 1, **base, **whole}, {"id": 2, **base, "card": "4711", "maybe": 0.0}, {"id": 3, **base}],
        [
            {"id": 4, **base, **whole, "lines": [{"sku": "g", "gift": b"\0\xff"}], "late": {"k": "L"}},
            {"id": 5, **base, "by": {7: {"sku": "", "gift": b""}}},
        ],
    ]
    payloads = []
    for number, (text, some) in enumerate(zip(texts, fields, strict=True), 1):
        (folder / f"{number}.proto").write_text(text)
        make = message_factory.GetMessageClass(schema_of_text(text, whose="orders").find("shop.Order"))
        front = path_bytes((0,))
        made = [framed(number, front + _message(make, each)) for each in some]
        payloads.append([*made, BROKEN, framed(9, front), framed(1, front + b"\x3a\x05"), framed(1, path_bytes((8,)))])
    return Values([{"value": "protobuf", "registry": str(folder)}] * 2, payloads, fields)


def _message(make: Callable[[], Any], fields: Fields) -> bytes:
    from google.protobuf.json_format import ParseDict

    def plain(one: Any) -> Any:
        if isinstance(one, dict):
            return {str(name): plain(each) for name, each in one.items()}
        if isinstance(one, list):
            return [plain(each) for each in one]
        if isinstance(one, bytes):
            return base64.b64encode(one).decode()
        if isinstance(one, dt.datetime):
            return one.isoformat()
        return int(one) if isinstance(one, Decimal) else one

    message = ParseDict({**plain(fields), **({"cash": {}} if "cash" in fields else {})}, make())
    data: bytes = message.SerializeToString()
    return data


FORMATS: dict[str, Callable[[Path], Values]] = {
    "json": json_values,
    "avro": avro_values,
    "protobuf": protobuf_values,
}
