"""Which record of a key is its row: against a plain model, over batches that die between their two commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.spark.tables import columns
from tailrace.spark.tables.tasks.deciding import decide, newest_of_piece

SCHEMA = pa.schema(
    [field for field in columns.hidden_schema(pa.binary(), [pa.field("text", pa.string())]) if field.name != "_bucket"]
)


@dataclass(frozen=True, order=True)
class Record:
    """In the order of those that decide about a key across partitions."""

    timestamp: int
    partition: int
    offset: int
    key: bytes
    deleted: bool

    def row(self) -> dict[str, Any]:
        text = None if self.deleted else f"{self.partition}-{self.offset}"
        return {
            "_key": self.key,
            "_partition": self.partition,
            "_offset": self.offset,
            "_timestamp": self.timestamp,
            "_deleted": self.deleted,
            "text": text,
        }


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def name(row: dict[str, Any]) -> tuple[bytes, int, int]:
    return row["_key"], row["_partition"], row["_offset"]


def winners(records: list[Record]) -> list[Record]:
    """The model: rows that are to be seen."""
    newest: dict[tuple[bytes, int], Record] = {}
    for record in sorted(records, key=lambda each: each.offset):
        newest[record.key, record.partition] = record
    best: dict[bytes, Record] = {}
    for record in sorted(newest.values()):
        best[record.key] = record
    return [each for each in best.values() if not each.deleted]


@st.composite
def histories(draw: st.DrawFn) -> list[list[Record]]:
    """Batches: each goes on in every partition where the one before ended."""
    offsets = {0: 0, 1: 0, 2: 0}
    found = []
    for _ in range(draw(st.integers(1, 5))):
        batch = []
        for _ in range(draw(st.integers(1, 8))):
            partition = draw(st.integers(0, 2))
            offsets[partition] += draw(st.integers(1, 2))
            key = draw(st.sampled_from([b"", b"a", b"b", b"c"]))
            batch.append(Record(draw(st.integers(0, 5)), partition, offsets[partition], key, draw(st.booleans())))
        found.append(batch)
    return found


@settings(max_examples=examples(300))
@given(histories(), st.lists(st.booleans(), min_size=5, max_size=5), st.randoms(use_true_random=False))
def test_rows_are_those_of_the_model_whatever_dies(batches: list[list[Record]], dies: list[bool], order: Any) -> None:
    main: list[dict[str, Any]] = []
    hidden: list[dict[str, Any]] = []
    seen: list[Record] = []
    for batch, dies_between in zip(batches, dies, strict=False):
        seen += batch
        keys = {record.key for record in batch}
        for is_last_try in (False, True) if dies_between else (True,):
            order.shuffle(batch)  # a shuffle gives rows in any order
            of_main = [row for row in main if row["_key"] in keys]
            of_hidden = [row for row in hidden if row["_key"] in keys]
            found = decide(table(of_main), table(of_hidden), table([record.row() for record in batch]))
            visible, kept = found.visible.to_pylist(), found.hidden.to_pylist()
            assert found.changes_main == ({name(row) for row in visible} != {name(row) for row in of_main})
            assert found.changes_hidden == ({name(row) for row in kept} != {name(row) for row in of_hidden})
            assert found.upserted == len({name(row) for row in visible} - {name(row) for row in of_main})
            assert found.deleted == len({row["_key"] for row in of_main} - {row["_key"] for row in visible})
            hidden = [row for row in hidden if row["_key"] not in keys] + kept
            if is_last_try:
                main = [row for row in main if row["_key"] not in keys] + visible
        expected = table([each.row() for each in winners(seen)]).to_pylist()
        assert sorted(main, key=name) == sorted(expected, key=name)


def test_a_row_that_comes_out_of_hiding_stays_hidden_until_the_table_has_it() -> None:
    shown, other = Record(9, 0, 1, b"k", False), Record(5, 1, 1, b"k", False)
    older = Record(1, 0, 2, b"k", False)  # supersedes the first, and goes behind the other
    first = decide(table([shown.row()]), table([other.row()]), table([older.row()]))
    assert [name(row) for row in first.visible.to_pylist()] == [(b"k", 1, 1)]
    assert [name(row) for row in first.hidden.to_pylist()] == [(b"k", 0, 2), (b"k", 1, 1)]
    again = decide(first.visible, first.hidden, table([older.row()]))
    assert [name(row) for row in again.hidden.to_pylist()] == [(b"k", 0, 2)]
    assert not again.changes_main


@pytest.mark.parametrize("deletes", [False, True])
def test_a_row_of_somebody_else_is_older_than_any_record(deletes: bool) -> None:
    foreign = {"_key": b"k", "_deleted": False, "text": "theirs"}
    ours = Record(-5, 0, 3, b"k", deletes)
    first = decide(table([foreign]), table([]), table([ours.row()]))
    assert [each["text"] for each in first.visible.to_pylist()] == ([] if deletes else ["0-3"])
    newer = Record(-9, 0, 4, b"k", False)
    again = decide(first.visible, first.hidden, table([newer.row()]))
    assert [each["text"] for each in again.visible.to_pylist()] == ["0-4"]


def test_of_a_piece_the_last_of_each_key_stays_in_order() -> None:
    keys = [b"a", b"b", b"a", b"c", b"b"]
    rows = table([Record(0, 0, n, key, False).row() for n, key in enumerate(keys)]).to_batches()[0]
    assert newest_of_piece(rows).column("_offset").to_pylist() == [2, 3, 4]
    assert newest_of_piece(rows.slice(1, 2)).column("_offset").to_pylist() == [1, 2]
    assert newest_of_piece(rows.slice(0, 0)).num_rows == 0


def test_nothing_decides_nothing() -> None:
    found = decide(table([]), table([]), table([]))
    assert (found.upserted, found.deleted, found.changes_main, found.changes_hidden) == (0, 0, False, False)
