"""What a task of an append does: a row or a dead letter for each record of its piece, from real log files."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from support.spark.directory_source import START_MS
from support.tables.tasks import (
    BAD,
    Record,
    TextPlan,
    append_target,
    files_in,
    reading_of,
    rows_of,
    target_of,
    write_records,
)
from tailrace.model.ids import TopicPartition
from tailrace.spark.source.ranges import OffsetRange
from tailrace.spark.tables import columns
from tailrace.spark.tables.tasks.append import append_piece
from tailrace.spark.tables.tasks.rows import KEY_IS_NO_TEXT

DAY_MS = 86_400_000


def piece(start: int, end: int, partition: int = 0) -> OffsetRange:
    return OffsetRange(TopicPartition("t", partition), start, end)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_each_record_is_a_row_in_the_order_of_offsets(tmp_path: Path, log: Path) -> None:
    records: list[Record] = [(b"k%d" % n if n % 3 else None, b"v%d" % n if n % 5 else None) for n in range(50)]
    write_records(log, 0, records)
    target = append_target(tmp_path, TextPlan())
    done = append_piece(reading_of(log, tmp_path), target, piece(10, 40))
    assert (done.rows, done.dead_rows, done.dead_adds, done.discovered) == (30, 0, [], [])
    assert done.read_bytes == sum(len(key or b"") + len(value or b"") for key, value, *_ in records[10:40])
    rows = rows_of(target, done.adds)
    assert [row["_offset"] for row in rows] == list(range(10, 40))
    assert [(row["_key"], row["text"]) for row in rows] == [
        (key, value.decode() if value else None) for key, value, *_ in records[10:40]
    ]
    time = datetime.fromtimestamp((START_MS + 10) / 1000, UTC)
    assert rows[0] | {"_key": None, "text": None} == {
        "_topic": "t",
        "_partition": 0,
        "_offset": 10,
        "_timestamp": time,
        "_key": None,
        "_headers": None,
        "text": None,
    }


def test_bad_values_are_dead_letters_and_not_rows(tmp_path: Path, log: Path) -> None:
    write_records(log, 0, [(b"a", b"x"), (b"b", BAD), (b"c", b"y"), (None, BAD)])
    target = append_target(tmp_path, TextPlan())
    reading = reading_of(log, tmp_path)
    done = append_piece(reading, target, piece(0, 4))
    assert (done.rows, done.dead_rows) == (2, 2)
    assert [row["_offset"] for row in rows_of(target, done.adds)] == [0, 2]
    letters = rows_of(reading.dead, done.dead_adds)
    assert [(row["_offset"], row["_key"], row["value"], row["reason"]) for row in letters] == [
        (1, b"b", BAD, "it is bad"),
        (3, None, BAD, "it is bad"),
    ]


def test_letters_that_the_table_has_are_not_written_again(tmp_path: Path, log: Path) -> None:
    write_records(log, 0, [(b"k", BAD)] * 5)
    target = append_target(tmp_path, TextPlan())
    reading = reading_of(log, tmp_path, has_letter={0: pa.array([0, 1, 2]), 1: pa.array([3])})
    done = append_piece(reading, target, piece(0, 5))
    assert [row["_offset"] for row in rows_of(reading.dead, done.dead_adds)] == [3, 4]
    all_of_them = {0: pa.array(range(5))}
    assert append_piece(reading_of(log, tmp_path, has_letter=all_of_them), target, piece(0, 5)).dead_adds == []
    assert done.adds == []


def test_a_record_with_a_letter_is_no_row_even_if_it_could_be_one(tmp_path: Path, log: Path) -> None:
    write_records(log, 0, [(b"a", b"x"), (b"b", b"y"), (b"c", BAD)])
    target = append_target(tmp_path, TextPlan())
    reading = reading_of(log, tmp_path, has_letter={0: pa.array([1])})
    done = append_piece(reading, target, piece(0, 3))
    assert [row["_offset"] for row in rows_of(target, done.adds)] == [0]
    assert [row["_offset"] for row in rows_of(reading.dead, done.dead_adds)] == [2]


def test_text_keys_that_are_none_are_dead_letters(tmp_path: Path, log: Path) -> None:
    write_records(log, 0, [("ü".encode(), b"x"), (b"\xff", b"y"), (None, b"z")])
    schema = columns.append_schema(pa.string(), TextPlan().fields, ())
    target = target_of(tmp_path / "table", schema)
    reading = reading_of(log, tmp_path, key="string")
    done = append_piece(reading, target, piece(0, 3))
    assert [row["_key"] for row in rows_of(target, done.adds)] == ["ü", None]
    assert [(row["_key"], row["reason"]) for row in rows_of(reading.dead, done.dead_adds)] == [
        (b"\xff", KEY_IS_NO_TEXT)
    ]


def test_days_and_values_partition_rows(tmp_path: Path, log: Path) -> None:
    day = START_MS // DAY_MS
    times = [day * DAY_MS - 1, day * DAY_MS, day * DAY_MS + 1]
    write_records(log, 0, [(None, b"x", time) for time in times] + [(None, b"y", times[1])])
    target = append_target(tmp_path / "table", TextPlan(), ("_day", "text"))
    done = append_piece(reading_of(log, tmp_path), target, piece(0, 4))
    found = {
        (file.partition["_day"], file.partition["text"]): [row["_offset"] for row in rows_of(target, [file])]
        for file in done.adds
    }
    first, second = (str(date.fromordinal(date(1970, 1, 1).toordinal() + n)) for n in (day - 1, day))
    assert found == {(first, "x"): [0], (second, "x"): [1, 2], (second, "y"): [3]}
    assert f"_day={first}/text=x/" in files_in(tmp_path / "table")[0]


def test_a_time_without_a_day_is_a_dead_letter(tmp_path: Path, log: Path) -> None:
    write_records(log, 0, [(None, b"x", START_MS * 1000), (None, b"y", -1)])
    reading = reading_of(log, tmp_path)
    target = append_target(tmp_path / "table", TextPlan(), ("_day",), holds=False)
    done = append_piece(reading, target, piece(0, 2))
    assert [file.partition["_day"] for file in done.adds] == ["1969-12-31"]
    assert rows_of(reading.dead, done.dead_adds, ["_offset"]) == [{"_offset": 0}]


def test_what_is_discovered_is_told_and_nothing_is_left(tmp_path: Path, log: Path) -> None:
    write_records(log, 0, [(None, b"x"), (None, BAD), (None, b"!new")])
    place = tmp_path / "tables"
    target = append_target(place / "table", TextPlan())
    done = append_piece(reading_of(log, place), target, piece(0, 3))
    assert [each.fields for each in done.discovered] == [{"new": pa.string()}]
    assert (done.adds, done.dead_adds, done.rows) == ([], [], 0)
    assert files_in(place) == []

    plan = TextPlan().grown(done.discovered)
    target = append_target(place / "table", plan)
    done = append_piece(reading_of(log, place, plan), target, piece(0, 3))
    assert [(row["text"], row["new"]) for row in rows_of(target, done.adds)] == [("x", None), ("!new", "!new")]


def test_a_piece_without_records_has_no_files(tmp_path: Path, log: Path) -> None:
    write_records(log, 0, [(None, b"x")])
    done = append_piece(reading_of(log, tmp_path / "p"), append_target(tmp_path / "p", TextPlan()), piece(1, 1))
    empty: Any = (done.adds, done.dead_adds, done.rows)
    assert empty == ([], [], 0)
