"""Fields that come later, at the top, in structs and in lists of structs: columns of every format get them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.tables.harness import COMBINATIONS, TableRig
from support.tables.model import Record
from support.tables.readers import rows_at

BEFORE: list[dict[str, Any]] = [{"a": 1, "s": {"x": 1}, "l": [{"p": 1}]}, {"a": 2}]
AFTER: list[dict[str, Any]] = [{"a": 3, "s": {"x": 2, "y": "t"}, "l": [{"p": 2, "q": [1]}], "n": {"z": None, "w": 1.5}}]
SEEN = {
    1: {"s": {"x": 1}, "l": [{"p": 1}], "n": None},
    2: {"s": None, "l": None, "n": None},
    3: {"s": {"x": 2, "y": "t"}, "l": [{"p": 2, "q": [1]}], "n": {"w": 1.5}},
}


def _records(first: int, values: list[dict[str, Any]]) -> list[Record]:
    return [
        Record(0, first + n, 1000 + n, b"k%d" % (first + n), json.dumps(value).encode())
        for n, value in enumerate(values)
    ]


def _without_nulls(value: Any) -> Any:
    """Readers differ in whether a field that an old file lacks is there as null, and pyiceberg gives a null list as an
    empty one."""
    if isinstance(value, dict):
        return {name: kept for name, each in value.items() if (kept := _without_nulls(each)) is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value] or None
    return value


@pytest.mark.parametrize("column", [None, "v"])
@pytest.mark.parametrize(("kind", "mode"), COMBINATIONS)
def test_fields_that_come_later_are_columns(kind: str, mode: str, column: str | None, tmp_path: Path) -> None:
    rig = TableRig(tmp_path, kind, mode)
    rig._write(0, _records(0, BEFORE))
    rig.run(value_column=column)
    rig._write(0, _records(len(BEFORE), AFTER))
    report = rig.run(value_column=column)
    assert (report.rows, report.dead_letters) == (1, 0)
    rows = [row if column is None else row[column] for row in rows_at(kind, rig.place)]
    found = {row["a"]: _without_nulls({name: row.get(name) for name in ("s", "l", "n")}) for row in rows}
    assert found == {a: _without_nulls(seen) for a, seen in SEEN.items()}
