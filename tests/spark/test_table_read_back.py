"""Tables with nested values whose schemas grew, in each format and mode, read back by others and by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.tables.evolved_values import FORMATS, Fields
from support.tables.harness import COMBINATIONS, TOPIC, TableRig
from support.tables.model import Record
from support.tables.reader_rows import Row, plain_value, sights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T0 = 1_790_000_000_000
HEADERS = (("a", b"\xff"), ("b", b""))
OWN = {"_topic", "_partition", "_offset", "_timestamp", "_key", "_headers", "_bucket", "_day"}


@pytest.mark.parametrize("values", FORMATS)
@pytest.mark.parametrize(("kind", "mode"), COMBINATIONS)
def test_all_who_read_a_table_see_the_same_rows(
    kind: str, mode: str, values: str, spark: SparkSession, tmp_path: Path
) -> None:
    show_same_rows(kind, mode, values, spark, tmp_path)


def show_same_rows(kind: str, mode: str, values: str, spark: SparkSession | None, root: Path) -> None:
    (root / "schemas").mkdir()
    found = FORMATS[values](root / "schemas")
    rig = TableRig(root, kind, mode)
    if spark is not None:
        rig.spark = spark  # type: ignore[assignment]  # the real one
    by_offset: dict[int, Fields] = {}
    broken: list[int] = []
    payloads: list[bytes] = []
    for given, some, fields in zip(found.given, found.payloads, found.fields, strict=True):
        start = len(payloads)
        payloads += some
        by_offset |= {start + at: each for at, each in enumerate(fields)}
        broken += range(start + len(fields), len(payloads))
        rig._write(0, [_record(start + at, value) for at, value in enumerate(some)])
        report = rig.run(**given, **({"partition_by": "_day"} if mode == "append" else {}))
        assert report.dead_letters == len(some) - len(fields)
    if mode == "upsert":
        # The first key is deleted, the second one is what its newer record says.
        rig._write(0, [_record(0, None), _record(1, payloads[2])])
        rig.run(**found.given[-1])
        del by_offset[0], by_offset[1]
        by_offset[len(payloads) + 1] = found.fields[0][2]
    for reader, rows in sights(kind, rig.place, spark).items():
        assert {row["_offset"]: _value(row) for row in rows} == plain_value(by_offset), reader
        assert len(rows) == len(by_offset), reader
        _check_own(rows, mode, len(payloads), reader)
    for reader, rows in sights(kind, rig.place.with_name(TOPIC + "_dead_letters"), spark).items():
        dead = {row["_offset"]: (row["value"], bool(row["reason"])) for row in rows}
        assert dead == {at: (payloads[at], True) for at in broken}, reader


def _record(number: int, value: bytes | None) -> Record:
    return Record(0, number, T0 + number, b"key-%d" % number, value, HEADERS)


def _value(row: Row) -> dict[str, Any] | None:
    return {name: each for name, each in row.items() if name not in OWN} or None


def _check_own(rows: Sequence[Row], mode: str, written: int, reader: str) -> None:
    for row in rows:
        number = row["_offset"] % written
        assert row["_key"] == b"key-%d" % number, reader
        assert round(row["_timestamp"].timestamp() * 1000) == T0 + number, reader
        if mode == "append":
            assert row["_headers"] == {"a": b"\xff", "b": b""}, reader
            assert row["_topic"] == TOPIC, reader
