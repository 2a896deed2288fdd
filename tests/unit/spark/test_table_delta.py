"""Delta tables: what is committed is there once, with its offsets, and stale handles commit nothing."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from support.tables.delta import ABOUT, DAY, SCHEMA, append, day, loaded, offsets_in, row, rows_in, write_file
from tailrace.spark.errors import (
    ChangedMeanwhileError,
    ForeignTableError,
    OccupiedTargetError,
    OptionError,
    SchemaMismatchError,
    TableError,
)
from tailrace.spark.tables.delta import snapshot as snapshots
from tailrace.spark.tables.delta.store import DeltaStore
from tailrace.spark.tables.store import UPSERT, About, Change, Snapshot

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC).replace(tzinfo=None)


@pytest.fixture
def store(tmp_path: Path) -> DeltaStore:
    return DeltaStore(str(tmp_path / "orders"))


def opened(store: DeltaStore) -> Snapshot:
    found = store.open()
    assert found is not None
    return found


def test_nothing_is_there_before_and_looking_makes_nothing(store: DeltaStore, tmp_path: Path) -> None:
    assert store.open() is None
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TableError, match="no Delta table"):
        store.history()
    with pytest.raises(TableError, match="no version 3"):
        store.at(3)
    assert store.retain(0, 0).files == 0


def test_a_new_table_says_what_it_is_of(store: DeltaStore) -> None:
    made = store.create(ABOUT, SCHEMA, {0: 5, 1: 0})
    for each in (made, opened(store), store.at(0)):
        assert (each.about, each.version, each.offsets, each.schema) == (ABOUT, 0, {0: 5, 1: 0}, SCHEMA)
        assert each.files() == []
        assert each.made_ms > 1_700_000_000_000
    with pytest.raises(ChangedMeanwhileError):
        store.create(ABOUT, SCHEMA, {0: 5})


def test_rows_are_read_back_by_others(store: DeltaStore) -> None:
    snapshot = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 3)
    snapshot = append(snapshot, 3, 5, "2026-11-17")
    found = opened(store)
    assert (found.version, found.offsets) == (snapshot.version, {0: 5}) == (2, {0: 5})
    assert rows_in(store)[3] == row(3, _day=day("2026-11-17"))
    by_day = {each.partition["_day"]: each for each in found.files()}
    assert {name: each.rows for name, each in by_day.items()} == {DAY: 3, "2026-11-17": 2}
    for each in by_day.values():
        assert (Path(found.target().root) / each.path).stat().st_size == each.size_bytes
    import polars

    frame = polars.scan_delta(store.name).filter(polars.col("_offset") >= 2).collect()
    assert sorted(frame["_offset"].to_list()) == [2, 3, 4]


def test_files_do_not_have_the_partition_columns(store: DeltaStore) -> None:
    target = store.create(ABOUT, SCHEMA, {}).target()
    assert (target.root, target.partition_by, target.holds_partition_columns) == (store.name, ("_day",), False)
    assert target.schema.names == ["_partition", "_offset", "text"]
    assert target.staging is None


def test_a_stale_handle_commits_nothing(store: DeltaStore) -> None:
    first = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 2)
    zombie = opened(store)
    late = write_file(zombie.target(), [row(2)], {"_day": DAY})
    append(first, 2, 4)
    for each in (zombie, first, store.at(0)):
        with pytest.raises(ChangedMeanwhileError):
            each.commit(Change("append", {0: 3}, [late]))
        with pytest.raises(ChangedMeanwhileError):
            each.commit(Change("schema", {0: 2}, schema=SCHEMA.append(pa.field("more", pa.int32()))))
    assert offsets_in(store) == [0, 1, 2, 3]
    assert opened(store).offsets == {0: 4}


def test_a_handle_whose_successors_are_not_retained_is_stale_too(store: DeltaStore) -> None:
    zombie = store.create(ABOUT, SCHEMA, {0: 0})
    snapshot: Snapshot = zombie
    for offset in range(3):
        snapshot = append(snapshot, offset, offset + 1)
    store.retain(snapshot.made_ms + 1, 0)
    with pytest.raises(TableError):
        store.at(1)
    with pytest.raises(ChangedMeanwhileError):
        append(zombie, 0, 1)
    assert offsets_in(store) == [0, 1, 2]


def test_what_somebody_else_appends_counts_as_a_change_and_not_as_offsets(store: DeltaStore) -> None:
    snapshot = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 2)
    write_deltalake(store.name, pa.Table.from_pylist([row(100, _day=day())], SCHEMA), mode="append")
    with pytest.raises(ChangedMeanwhileError):
        append(snapshot, 2, 3)
    found = opened(store)
    assert found.offsets == {0: 2}
    append(found, 2, 3)
    assert offsets_in(store) == [0, 1, 2, 100]
    assert [each.offsets for each in store.history()] == [{0: 3}, None, {0: 2}, {0: 0}]


def test_files_are_replaced_in_one_commit(store: DeltaStore) -> None:
    snapshot: Snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    for offset in range(4):
        snapshot = append(snapshot, offset, offset + 1)
    snapshot = append(snapshot, 4, 5, "2026-11-17")
    small = [each for each in snapshot.files() if each.partition == {"_day": DAY}]
    whole = write_file(snapshot.target(), [row(each) for each in range(4)], {"_day": DAY})
    compacted = snapshot.commit(Change("compact", snapshot.offsets, [whole], small))
    assert compacted.offsets == {0: 5}
    assert sorted(each.rows for each in compacted.files()) == [1, 4]
    assert offsets_in(store) == [0, 1, 2, 3, 4]
    with pytest.raises(ChangedMeanwhileError):
        snapshot.commit(Change("compact", snapshot.offsets, [], small))
    with pytest.raises(TableError, match="not in the Delta table"):
        compacted.commit(Change("compact", snapshot.offsets, [], small))
    with pytest.raises(TableError, match="already"):
        compacted.commit(Change("append", snapshot.offsets, [whole]))
    actions = log_of(store, compacted.version)
    assert {each["dataChange"] for kind, each in actions if kind in ("add", "remove")} == {False}


def log_of(store: DeltaStore, version: int) -> list[tuple[str, dict[str, Any]]]:
    lines = (store.root / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [next(iter(json.loads(line).items())) for line in lines]


def test_buckets_are_written_anew(store: DeltaStore) -> None:
    schema = pa.schema([("_key", pa.binary()), ("_offset", pa.int64()), ("_bucket", pa.int32())])
    about = About("orders", None, None, mode=UPSERT, buckets=2, partition_by=("_bucket",))
    snapshot: Snapshot = store.create(about, schema, {0: 0})
    for turn in range(6):
        bucket = {"_bucket": str(turn % 2)}
        file = write_file(snapshot.target(), [{"_key": b"k", "_offset": turn}], bucket)
        before = [each for each in snapshot.files() if each.partition == bucket]
        snapshot = snapshot.commit(Change("upsert", {0: turn + 1}, [file], before))
    assert [(each["_offset"], each["_bucket"]) for each in rows_in(store)] == [(4, 0), (5, 1)]


@pytest.mark.parametrize("value", ["a b", "a/b", "ü%20", "x=y", None, "#?&+:'"])
def test_partition_values_that_are_no_plain_words(store: DeltaStore, value: str | None) -> None:
    schema = pa.schema([("_offset", pa.int64()), ("city", pa.string())])
    snapshot: Snapshot = store.create(About("orders", None, None, partition_by=("city",)), schema, {0: 0})
    file = write_file(snapshot.target(), [{"_offset": 0}], {"city": value})
    snapshot = snapshot.commit(Change("append", {0: 1}, [file]))
    assert [(each.path, each.partition) for each in snapshot.files()] == [(file.path, {"city": value})]
    assert rows_in(store) == [{"_offset": 0, "city": value}]
    snapshot.commit(Change("upsert", {0: 2}, [], snapshot.files()))
    assert rows_in(store) == []


def test_columns_get_more(store: DeltaStore) -> None:
    schema = pa.schema([("_offset", pa.int64()), ("n", pa.struct([("a", pa.int64())])), ("_day", pa.date32())])
    snapshot: Snapshot = store.create(ABOUT, schema, {0: 0})
    file = write_file(snapshot.target(), [{"_offset": 0, "n": {"a": 1}}], {"_day": None})
    snapshot = snapshot.commit(Change("append", {0: 1}, [file]))
    wider = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("c", pa.string())])))])
    grown = pa.schema(
        [("_offset", pa.int64()), ("n", wider), ("_day", pa.date32()), ("x", pa.timestamp("us")), ("y", pa.string())]
    )
    stale = opened(store)
    snapshot = snapshot.commit(Change("schema", snapshot.offsets, schema=grown))
    assert snapshot.schema == grown
    assert (snapshot.offsets, snapshot.about) == ({0: 1}, ABOUT)
    with pytest.raises(ChangedMeanwhileError):
        stale.commit(Change("schema", stale.offsets, schema=grown))
    assert snapshot.commit(Change("schema", snapshot.offsets, schema=grown)).version == snapshot.version
    rows = [{"_offset": 1, "n": {"a": 2, "b": [{"c": "d"}]}, "x": NOON, "y": "z"}]
    snapshot = snapshot.commit(Change("append", {0: 2}, [write_file(snapshot.target(), rows, {"_day": None})]))
    assert rows_in(store) == [
        {"_offset": 0, "n": {"a": 1, "b": None}, "_day": None, "x": None, "y": None},
        {**rows[0], "_day": None},
    ]
    assert store.at(1).schema == schema


def test_columns_and_rows_in_one_change(store: DeltaStore) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    file = write_file(snapshot.target(), [row(0)], {"_day": DAY})
    grown = SCHEMA.append(pa.field("more", pa.int32()))
    after = snapshot.commit(Change("append", {0: 1}, [file], schema=grown))
    assert after.schema == grown
    assert rows_in(store) == [row(0, _day=day(), more=None)]
    assert [each.offsets for each in store.history()] == [{0: 1}, {0: 0}, {0: 0}]


def test_columns_that_cannot_become_what_is_wanted(store: DeltaStore) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    other = pa.schema([*list(SCHEMA)[:2], pa.field("text", pa.int64()), SCHEMA.field("_day")])
    for wanted in (other, SCHEMA.remove(2)):
        with pytest.raises(SchemaMismatchError, match=r"text(.|\n)*wanted"):
            snapshot.commit(Change("schema", {0: 0}, schema=wanted))
    assert append(snapshot, 0, 1).schema == SCHEMA


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        (pa.field("a b", pa.int64()), "'a b'"),
        (pa.field("s", pa.list_(pa.struct([("x=y", pa.int64())]))), "'s.x=y'"),
        (pa.field("", pa.int64()), "''"),
        (pa.field("TEXT", pa.int64()), "text, TEXT"),
        (pa.field("s", pa.struct([("x", pa.int64()), ("X", pa.int64())])), "in s .*x, X"),
        (pa.field("t", pa.time64("us")), "t is time64"),
        (pa.field("s", pa.struct([("u", pa.uint64())])), r"s\.u is uint64"),
        (pa.field("n", pa.null()), "n is null"),
    ],
)
def test_columns_that_a_delta_table_cannot_hold(store: DeltaStore, field: pa.Field, shown: str) -> None:
    with pytest.raises(TableError, match=shown):
        store.create(ABOUT, SCHEMA.append(field), {0: 0})
    assert not store.root.exists()
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    with pytest.raises(TableError, match=shown):
        snapshot.commit(Change("schema", {0: 0}, schema=SCHEMA.append(field)))
    assert opened(store).version == 0


def test_types_that_are_held_in_wider_ones(store: DeltaStore) -> None:
    given = {
        "u": (pa.uint32(), pa.int64()),
        "f": (pa.binary(4), pa.binary()),
        "d": (pa.decimal128(20, 3), pa.decimal128(20, 3)),
        "t": (pa.timestamp("ms", "Europe/Bern"), pa.timestamp("us", "UTC")),
        "l": (pa.large_list(pa.large_string()), pa.list_(pa.string())),
        "m": (pa.map_(pa.string(), pa.float32()), pa.map_(pa.string(), pa.float32())),
    }
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, (kind, _) in given.items()])
    made = store.create(About("orders", None, None), schema, {0: 0})
    assert made.schema == pa.schema([(name, kind) for name, (_, kind) in given.items()])
    assert made.schema.field("l").type.value_field.name == "item"


def test_a_restore_takes_the_offsets_back(store: DeltaStore) -> None:
    snapshot: Snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    for offset in range(4):
        snapshot = append(snapshot, offset, offset + 1)
    loaded(store).restore(2)
    with pytest.raises(ChangedMeanwhileError):
        append(snapshot, 4, 5)
    assert opened(store).offsets == {0: 2}
    write_deltalake(store.name, pa.Table.from_pylist([row(100, _day=day())], SCHEMA), mode="append")
    assert opened(store).offsets == {0: 2}
    snapshot = append(opened(store), 2, 5)
    assert opened(store).offsets == {0: 5}
    assert offsets_in(store) == [0, 1, 2, 3, 4, 100]
    assert store.at(5).offsets == {0: 2}
    loaded(store).restore(5)  # to a version that was a restore
    assert opened(store).offsets == {0: 2}
    loaded(store).restore(4)  # and forth again
    assert opened(store).offsets == {0: 4}


def test_a_restore_to_a_time(store: DeltaStore) -> None:
    snapshot: Snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    for offset in range(4):
        snapshot = append(snapshot, offset, offset + 1)
        path = store.root / "_delta_log" / f"{snapshot.version:020d}.json"
        os.utime(path, (1_800_000_000 + offset * 60,) * 2)  # what deltalake goes by
    loaded(store).restore(datetime.fromtimestamp(1_800_000_000 + 90, UTC))
    assert opened(store).offsets == {0: len(offsets_in(store))}
    assert offsets_in(store) == [0, 1]


def test_a_restore_to_a_version_that_is_gone(store: DeltaStore) -> None:
    snapshot = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    append(snapshot, 1, 2)
    loaded(store).restore(1)
    loaded(store).create_checkpoint()
    for version in range(3):
        (store.root / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(TableError, match="no version 1 "):
        store.open()


def test_offsets_survive_checkpoints_and_the_loss_of_all_commits_before(store: DeltaStore) -> None:
    offsets = {0: 7, 2: 3, 3: 0}
    snapshot = store.create(ABOUT, SCHEMA, offsets)
    write_deltalake(store.name, pa.Table.from_pylist([row(1, _day=day())], SCHEMA), mode="append")
    loaded(store).create_checkpoint()
    (store.root / "_delta_log" / f"{0:020d}.json").unlink()
    found = opened(store)
    assert (found.version, found.offsets, found.about) == (1, offsets, ABOUT)
    assert append(found, 7, 8).offsets == {0: 8}
    assert snapshot.offsets == offsets


def test_checkpoints_are_made(store: DeltaStore) -> None:
    snapshot: Snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    for offset in range(25):
        snapshot = snapshot.commit(Change("append", {0: offset + 1}))
    assert list((store.root / "_delta_log").glob("*.checkpoint.parquet"))
    assert opened(store).offsets == {0: 25}


def test_history_and_old_versions(store: DeltaStore) -> None:
    snapshot: Snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    for offset in range(3):
        snapshot = append(snapshot, offset, offset + 1)
    history = store.history()
    assert [each.version for each in history] == [3, 2, 1, 0]
    assert [each.operation for each in history] == ["append", "append", "append", "create"]
    assert [each.offsets for each in history] == [{0: 3}, {0: 2}, {0: 1}, {0: 0}]
    assert history[0].facts == {"rows": 1}
    assert history[0].made_ms == snapshot.made_ms
    for version in range(4):
        old = store.at(version)
        assert old.offsets == {0: version}
        assert sum(each.rows for each in old.files()) == version
    with pytest.raises(TableError, match="no version 7"):
        store.at(7)


def test_the_tables_beside(store: DeltaStore) -> None:
    beside = store.beside("_dead_letters")
    assert beside.name == store.name + "_dead_letters"
    append(beside.create(ABOUT, SCHEMA, {0: 0}), 0, 2)
    assert store.open() is None


def test_a_table_that_somebody_else_made(store: DeltaStore) -> None:
    write_deltalake(store.name, pa.table({"a": [1]}))
    for act in (store.open, lambda: store.create(ABOUT, SCHEMA, {0: 0})):
        with pytest.raises(ForeignTableError, match="nothing there was touched"):
            act()
    assert DeltaTable(store.name).version() == 0


def test_places_that_hold_something_else(store: DeltaStore) -> None:
    store.root.mkdir()
    (store.root / "notes.txt").write_text("mine")
    for act in (store.open, lambda: store.create(ABOUT, SCHEMA, {0: 0})):
        with pytest.raises(OccupiedTargetError, match=r"notes\.txt"):
            act()
    assert os.listdir(store.root) == ["notes.txt"]
    (store.root / "notes.txt").unlink()
    assert store.open() is None
    store.root.rmdir()
    store.root.write_text("mine")
    with pytest.raises(OccupiedTargetError, match="not a folder"):
        store.open()


def test_who_died_while_making_the_table_is_no_obstacle(store: DeltaStore) -> None:
    (store.root / "_delta_log").mkdir(parents=True)
    (store.root / "_delta_log" / "_commit_1.json.tmp").write_text("{")
    assert store.open() is None
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    assert offsets_in(store) == [0]


@pytest.mark.parametrize("place", ["s3://bucket/orders", "hdfs://host/orders", "", "/data/a%20b", "/data/a\\b"])
def test_places_that_cannot_be(place: str) -> None:
    with pytest.raises(OptionError):
        DeltaStore(place)


def test_odd_but_good_places(tmp_path: Path) -> None:
    store = DeltaStore(f"file:{tmp_path}/a%20b%C3%BC%23?x".replace("?x", ""))
    assert store.root == tmp_path / "a bü#"
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    assert offsets_in(store) == [0]
    assert [each.rows for each in opened(store).files()] == [1]


def test_a_log_that_is_torn(store: DeltaStore) -> None:
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    (store.root / "_delta_log" / f"{2:020d}.json").write_text('{"commitInfo":')
    with pytest.raises(TableError, match="cannot load") as caught:
        store.open()
    assert "\n" not in str(caught.value)


def test_files_that_are_not_what_the_tasks_said(store: DeltaStore) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    file = write_file(snapshot.target(), [row(0)], {"_day": DAY})
    path = store.root / file.path
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TableError, match="bytes"):
        snapshot.commit(Change("append", {0: 1}, [file]))
    path.unlink()
    with pytest.raises(TableError, match="cannot be seen"):
        snapshot.commit(Change("append", {0: 1}, [file]))
    assert append(snapshot, 0, 1).offsets == {0: 1}


def test_a_commit_that_landed_in_spite_of_an_error(store: DeltaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    commit = DeltaTable.create_write_transaction

    def interrupted(*arguments: Any, **more: Any) -> None:
        commit(*arguments, **more)
        raise OSError(28, "No space left for the checkpoint")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", interrupted)
    after = append(snapshot, 0, 2)
    assert after.offsets == {0: 2}

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", full)
    with pytest.raises(TableError, match="No space left on device"):
        append(after, 2, 3)
    monkeypatch.undo()
    append(after, 2, 3)
    assert offsets_in(store) == [0, 1, 2]


def test_a_commit_is_on_the_disk(store: DeltaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(snapshots, "sync", synced.append)
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    log = store.root / "_delta_log"
    assert synced == [log / f"{0:020d}.json", log, log / f"{1:020d}.json", log]


def test_features_with_which_files_do_not_tell_the_rows(store: DeltaStore) -> None:
    from deltalake import TableFeatures

    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    loaded(store).alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    with pytest.raises(TableError, match="deletionVectors"):
        store.open()


def test_columns_that_have_other_names_in_files(store: DeltaStore) -> None:
    """As Spark does it with protocols that have no list of features."""
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    log = store.root / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    metadata = next(each for each in lines if "metaData" in each)
    metadata["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    (log / f"{2:020d}.json").write_text("\n".join(map(json.dumps, (protocol, metadata))))
    with pytest.raises(TableError, match="columnMapping"):
        store.open()


def _race(place: str, number: int, turns: int, start: Any) -> None:
    """Appends a row at the table's offset, until it has made so many."""
    store = DeltaStore(place)
    start.wait()
    made = 0
    while made < turns:
        found = opened(store)
        at = found.offsets[0]
        file = write_file(found.target(), [row(at, text=str(number))], {"_day": DAY})
        try:
            found.commit(Change("append", {0: at + 1}, [file]))
            made += 1
        except ChangedMeanwhileError:
            continue


def test_several_drivers_at_once_lose_and_double_nothing(store: DeltaStore) -> None:
    store.create(ABOUT, SCHEMA, {0: 0})
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(3)
    racers = [context.Process(target=_race, args=(store.name, each, 12, start)) for each in range(3)]
    for each in racers:
        each.start()
    for each in racers:
        each.join(60)
    assert [each.exitcode for each in racers] == [0, 0, 0]
    assert offsets_in(store) == list(range(36))
    assert opened(store).offsets == {0: 36}


def test_without_its_package(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['deltalake'] = None\n"
        "import tailrace.spark\n"
        "from tailrace.spark.errors import PipelineError\n"
        "from tailrace.spark.tables.store_at import store_at\n"
        "try:\n    store_at(sys.argv[1], 'delta')\n"
        "except PipelineError as error:\n    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "orders")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "pip install 'tailrace[tables]'" in run.stdout
