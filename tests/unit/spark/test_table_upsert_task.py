"""What tasks of an upsert do, from real log files to files of buckets, without a shuffle between them."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from support.tables.tasks import BAD, Record, TextPlan, files_in, reading_of, rows_of, target_of, write_records
from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import DataLossError, TableError
from tailrace.spark.source.ranges import OffsetRange
from tailrace.spark.tables import columns
from tailrace.spark.tables.store import DataFile
from tailrace.spark.tables.tasks import Bucketed, Reading, merging, upsert
from tailrace.spark.tables.tasks.buckets import bucket_of, unpacked
from tailrace.spark.tables.tasks.deciding import Decision, decide
from tailrace.spark.tables.tasks.jobs import Failure
from tailrace.spark.tables.tasks.merging import BucketMerged, merge_bucket
from tailrace.spark.tables.tasks.rows import NO_KEY, keyed_schema
from tailrace.spark.tables.tasks.upsert import PieceRead, _merge_partition, _read_pieces, read_piece_by_bucket

BUCKETS = 3


class Tables:
    """The two, with files as commits would leave them."""

    def __init__(self, place: Path, plan: TextPlan | None = None, *, holds: bool = False) -> None:
        self.place = place
        self.holds = holds
        self.main: dict[int, list[DataFile]] = {}
        self.hidden: dict[int, list[DataFile]] = {}
        self.plan = plan or TextPlan()

    def bucketed(self) -> tuple[Bucketed, Bucketed]:
        schemas = (
            columns.upsert_schema(pa.binary(), self.plan.fields),
            columns.hidden_schema(pa.binary(), self.plan.fields),
        )
        main, hidden = (
            target_of(self.place / name, schema, ("_bucket",), holds=self.holds)
            for name, schema in zip(("main", "hidden"), schemas, strict=True)
        )
        return Bucketed(main, self.main), Bucketed(hidden, self.hidden)

    def merge(self, reading: Reading, batch: dict[int, list[bytes]], *, dies: bool = False) -> list[BucketMerged]:
        main, hidden = self.bucketed()
        done = [
            merge_bucket(reading, main, hidden, bucket, unpacked(parts, keyed_schema(reading)))
            for bucket, parts in batch.items()
        ]
        for each in done:
            if each.changes_hidden:
                self.hidden = {**self.hidden, each.bucket: each.hidden_adds}
            if each.changes_main and not dies:
                self.main = {**self.main, each.bucket: each.adds}
        return done

    def rows(self) -> dict[bytes, tuple[int, int, str]]:
        main, _ = self.bucketed()
        found: dict[bytes, tuple[int, int, str]] = {}
        for bucket, files in self.main.items():
            for row in rows_of(main.target, files):
                assert bucket_of(row["_key"], BUCKETS) == bucket == row.get("_bucket", bucket)
                assert row["_key"] not in found
                found[row["_key"]] = (row["_partition"], row["_offset"], row["text"])
        return found


def read(reading: Reading, *pieces: OffsetRange) -> tuple[dict[int, list[bytes]], list[PieceRead]]:
    batch: dict[int, list[bytes]] = defaultdict(list)
    told = []
    for piece in pieces:
        reader = read_piece_by_bucket(reading, BUCKETS, piece)
        while True:
            try:
                bucket, rows = next(reader)
            except StopIteration as end:
                told.append(end.value)
                break
            batch[bucket].append(rows)
        assert told[-1].buckets <= batch.keys()
    return dict(batch), told


def piece(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(TopicPartition("t", partition), start, end)


def model(logs: list[list[Record]], ends: list[int]) -> dict[bytes, tuple[int, int, str]]:
    newest: dict[tuple[bytes, int], Any] = {}
    for partition, (records, end) in enumerate(zip(logs, ends, strict=True)):
        for offset, (key, value, *time_ms) in enumerate(records[:end]):
            if key is not None and value != BAD:
                newest[key, partition] = (time_ms[0], partition, offset, value)
    best: dict[bytes, Any] = {}
    for (key, _), record in newest.items():
        best[key] = max(best.get(key, record), record, key=lambda each: each[:3])
    return {
        key: (partition, offset, value.decode())
        for key, (_, partition, offset, value) in best.items()
        if value is not None
    }


@pytest.mark.parametrize("seed", range(6))
def test_tables_are_those_of_the_model_whatever_dies(tmp_path: Path, seed: int, monkeypatch: Any) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(upsert, "SENT_BYTES", chance.choice([1, 1 << 20]))
    logs: list[list[Record]] = [
        [
            (
                chance.choice([None, *(b"key %d" % n for n in range(12))]),
                chance.choice([None, BAD, b"v%d" % number]),
                chance.randrange(1_000_000, 1_000_020),
            )
            for number in range(60)
        ]
        for _ in range(2)
    ]
    for partition, records in enumerate(logs):
        write_records(tmp_path / "log", partition, records)
    reading = reading_of(tmp_path / "log", tmp_path)
    tables = Tables(tmp_path, holds=seed % 2 == 0)
    ends = [0, 0]
    dead = 0
    while ends != [60, 60]:
        starts, ends = ends, [min(end + chance.randrange(20), 60) for end in ends]
        pieces = [piece(n, start, end) for n, (start, end) in enumerate(zip(starts, ends, strict=True))]
        batch, told = read(reading, *pieces)
        if chance.random() < 0.4:
            tables.merge(reading, batch, dies=True)
        before = tables.rows()
        done = tables.merge(reading, batch)
        dead += sum(each.dead_rows for each in told)
        assert tables.rows() == model(logs, ends)
        after = tables.rows()
        assert sum(each.upserted for each in done) == len(set(after.items()) - set(before.items()))
        assert sum(each.deleted for each in done) == len(before.keys() - after.keys())
    assert dead == sum(key is None or value == BAD for records in logs for key, value, *_ in records)


def test_records_without_a_key_are_dead_letters(tmp_path: Path) -> None:
    write_records(tmp_path / "log", 0, [(None, b"x"), (None, None), (b"k", b"y")])
    reading = reading_of(tmp_path / "log", tmp_path)
    batch, (told,) = read(reading, piece(0, 0, 3))
    assert [(row["_offset"], row["reason"]) for row in rows_of(reading.dead, told.dead_adds)] == [
        (0, NO_KEY),
        (1, NO_KEY),
    ]
    assert list(batch) == [bucket_of(b"k", BUCKETS)]


def test_a_bucket_in_which_nothing_changes_has_no_new_files(tmp_path: Path) -> None:
    write_records(tmp_path / "log", 0, [(b"k", b"x", 1_000_009), (b"gone", None, 1_000_009)])
    write_records(tmp_path / "log", 1, [(b"k", b"y", 1_000_001)])
    reading = reading_of(tmp_path / "log", tmp_path)
    tables = Tables(tmp_path)
    first, _ = read(reading, piece(0, 0, 2))
    tables.merge(reading, first)
    (of_key,) = (each for each in tables.main.values() if each)
    there = files_in(tmp_path)
    for each in tables.merge(reading, first):
        assert (each.adds, each.hidden_adds, each.changes_main, each.changes_hidden) == ([], [], False, False)
    assert files_in(tmp_path) == there

    loser, _ = read(reading, piece(1, 0, 1))
    (done,) = tables.merge(reading, loser)
    assert (done.changes_main, done.changes_hidden, done.upserted) == (False, True, 0)
    assert of_key in tables.main.values()


def test_rows_of_other_keys_stay_in_their_order(tmp_path: Path) -> None:
    keys = [key for key in (b"%d" % n for n in range(200)) if bucket_of(key, BUCKETS) == 0]
    write_records(tmp_path / "log", 0, [*((key, b"old") for key in keys), (keys[3], b"new"), (keys[5], None)])
    reading = reading_of(tmp_path / "log", tmp_path)
    tables = Tables(tmp_path)
    for start, end in ((0, len(keys)), (len(keys), len(keys) + 2)):
        batch, _ = read(reading, piece(0, start, end))
        tables.merge(reading, batch)
    main, _ = tables.bucketed()
    assert [row["_key"] for row in rows_of(main.target, tables.main[0])] == [
        *(key for key in keys if key not in (keys[3], keys[5])),
        keys[3],
    ]


def test_rows_of_other_keys_do_not_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [key for key in (b"%d" % n for n in range(200)) if bucket_of(key, BUCKETS) == 0]
    write_records(tmp_path / "log", 0, [(key, b"old") for key in keys])
    reading = reading_of(tmp_path / "log", tmp_path)
    tables = Tables(tmp_path)
    kept: list[int] = []

    def decided(main: pa.Table, hidden: pa.Table, batch: pa.Table) -> Decision:
        kept.append(main.get_total_buffer_size())
        return decide(main, hidden, batch)

    monkeypatch.setattr(merging, "decide", decided)
    for start, end in ((0, len(keys) - 1), (len(keys) - 1, len(keys))):
        batch, _ = read(reading, piece(0, start, end))
        tables.merge(reading, batch)
    assert kept == [0, 0]
    assert set(tables.rows()) == set(keys)


def test_a_piece_that_fails_when_it_is_read_again_stops_every_merge(tmp_path: Path) -> None:
    """Rows that were lost with an executor are read anew, when nobody asks any more what was told."""
    write_records(tmp_path / "log", 0, [(b"a", b"x"), (b"b", b"y")])
    reading = reading_of(tmp_path / "log", tmp_path)
    pairs = list(_read_pieces(reading, BUCKETS, [piece(0, 0, 5)]))
    main, hidden = Tables(tmp_path).bucketed()
    for bucket in range(BUCKETS):
        (found,) = _merge_partition(reading, main, hidden, BUCKETS, [pair for pair in pairs if pair[0] == bucket])
        assert isinstance(found, Failure)
        assert isinstance(found.error, DataLossError)
    together = list(_merge_partition(reading, main, hidden, BUCKETS, pairs))
    assert [type(each) for each in together] == [Failure] * BUCKETS


def test_the_same_batch_gives_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    for partition in range(2):
        write_records(tmp_path / "log", partition, [(b"%d" % (n % 9), b"%d" % n) for n in range(50)])
    reading = reading_of(tmp_path / "log", tmp_path)
    batch, _ = read(reading, piece(0, 0, 50), piece(1, 0, 20), piece(1, 20, 50))
    main, hidden = Tables(tmp_path).bucketed()
    for bucket, parts in batch.items():
        contents = []
        for order in (parts, parts[::-1]):
            done = merge_bucket(reading, main, hidden, bucket, unpacked(order, keyed_schema(reading)))
            files = [
                *(Path(main.target.root) / file.path for file in done.adds),
                *(Path(hidden.target.root) / file.path for file in done.hidden_adds),
            ]
            contents.append([file.read_bytes() for file in files])
        assert contents[0] == contents[1]
        assert len(contents[0]) == 2


def test_a_column_that_has_come_is_null_in_older_rows(tmp_path: Path) -> None:
    write_records(tmp_path / "log", 0, [(b"a", b"x"), (b"b", None), (b"a", b"!new"), (b"c", b"z")])
    tables = Tables(tmp_path)
    batch, _ = read(reading_of(tmp_path / "log", tmp_path), piece(0, 0, 2))
    tables.merge(reading_of(tmp_path / "log", tmp_path), batch)
    there = files_in(tmp_path)
    nothing, (told,) = read(reading_of(tmp_path / "log", tmp_path), piece(0, 2, 4))
    assert [list(each.fields) for each in told.discovered] == [["new"]]
    assert nothing == {}
    assert files_in(tmp_path) == there

    tables.plan = TextPlan().grown(told.discovered)
    reading = reading_of(tmp_path / "log", tmp_path, tables.plan)
    batch, _ = read(reading, piece(0, 2, 4))
    tables.merge(reading, batch)
    assert tables.rows() == {b"a": (0, 2, "!new"), b"c": (0, 3, "z")}


def test_rows_keep_columns_that_the_plan_does_not_have(tmp_path: Path) -> None:
    key, other = [key for key in (b"%d" % n for n in range(50)) if bucket_of(key, BUCKETS) == 0][:2]
    write_records(tmp_path / "log", 0, [(key, b"!new", 1_000_009)])
    write_records(tmp_path / "log", 1, [(key, b"late", 1_000_001), (other, b"y", 1_000_001)])
    tables = Tables(tmp_path, TextPlan(["new"]))
    wide = reading_of(tmp_path / "log", tmp_path, tables.plan)
    tables.merge(wide, read(wide, piece(0, 0, 1))[0])
    narrow = reading_of(tmp_path / "log", tmp_path)
    tables.merge(narrow, read(narrow, piece(1, 0, 2))[0])
    main, _ = tables.bucketed()
    assert {row["_key"]: row["new"] for row in rows_of(main.target, tables.main[0])} == {key: "!new", other: None}


def test_more_than_can_be_sorted_at_once_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_records(tmp_path / "log", 0, [(b"key", b"x" * 600, 1_000_000), (b"key", b"y" * 600, 1_000_001)])
    reading = reading_of(tmp_path / "log", tmp_path)
    tables = Tables(tmp_path)
    monkeypatch.setattr(merging, "MOST_BYTES", 1_000)
    tables.merge(reading, read(reading, piece(0, 0, 1))[0])
    with pytest.raises(TableError, match="take fewer records at once, by the option maxOffsetsPerTrigger"):
        tables.merge(reading, read(reading, piece(0, 1, 2))[0])
    monkeypatch.undo()
    tables.merge(reading, read(reading, piece(0, 1, 2))[0])
    assert tables.rows() == {b"key": (0, 1, "y" * 600)}
