"""Iceberg tables: what is committed is there once, with its offsets, and stale handles commit nothing."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestContent
from pyiceberg.transforms import IdentityTransform

from support.tables.iceberg import ABOUT, SCHEMA, append, loaded, offsets_in, row, write_file
from tailrace.spark.errors import (
    ChangedMeanwhileError,
    SchemaMismatchError,
    TableError,
)
from tailrace.spark.tables.iceberg.snapshot import IcebergSnapshot
from tailrace.spark.tables.iceberg.store import IcebergStore
from tailrace.spark.tables.store import UPSERT, About, Change

NEVER_MS = 1 << 50
"""Older than this is everything."""


@pytest.fixture
def store(tmp_path: Path) -> IcebergStore:
    return IcebergStore(str(tmp_path / "lake" / "orders"))


def test_a_new_table_says_what_it_is_of(store: IcebergStore) -> None:
    made = store.create(ABOUT, SCHEMA, {0: 5, 1: 0})
    found = store.open()
    assert found is not None
    for each in (made, found):
        assert (each.about, each.version, each.offsets, each.schema) == (ABOUT, 0, {0: 5, 1: 0}, SCHEMA)
        assert each.files() == []
        assert each.made_ms > 0
    with pytest.raises(ChangedMeanwhileError):
        store.create(ABOUT, SCHEMA, {0: 5})


def test_rows_are_read_back_by_pyiceberg(store: IcebergStore) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    snapshot = append(snapshot, 0, 3)
    snapshot = append(snapshot, 3, 5, "2026-11-17")
    found = store.open()
    assert found is not None
    assert found.version == snapshot.version
    assert found.offsets == {0: 5}
    assert offsets_in(store) == [0, 1, 2, 3, 4]
    read = loaded(store).scan(row_filter="_day = '2026-11-17'").to_arrow()
    assert sorted(read.column("text").to_pylist()) == ["row 3", "row 4"]
    by_day = {each.partition["_day"]: each for each in found.files()}
    assert {day: each.rows for day, each in by_day.items()} == {"2026-11-16": 3, "2026-11-17": 2}
    for each in by_day.values():
        assert (Path(found.target().root) / each.path).stat().st_size == each.size_bytes


def test_a_stale_handle_commits_nothing(store: IcebergStore) -> None:
    first = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 2)
    zombie = store.open()
    assert zombie is not None
    late = write_file(zombie.target(), [row(2)], {"_day": "2026-11-16"})
    append(first, 2, 4)
    with pytest.raises(ChangedMeanwhileError):
        zombie.commit(Change("append", {0: 3}, [late]))
    with pytest.raises(ChangedMeanwhileError):
        append(first, 2, 4)
    assert offsets_in(store) == [0, 1, 2, 3]


def test_a_handle_of_a_table_without_snapshots_gets_stale_too(store: IcebergStore) -> None:
    made = store.create(ABOUT, SCHEMA, {0: 0})
    append(made, 0, 1)
    with pytest.raises(ChangedMeanwhileError):
        append(made, 0, 1)
    assert offsets_in(store) == [0]


def test_retries_that_the_table_asks_for_are_not_made(store: IcebergStore) -> None:
    store.create(ABOUT, SCHEMA, {0: 0})
    with loaded(store).transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "4", "commit.retry.min-wait-ms": "1"})
    zombie = store.open()
    current = store.open()
    assert zombie is not None
    assert current is not None
    append(current, 0, 2)
    with pytest.raises(ChangedMeanwhileError):
        append(zombie, 0, 2)
    assert offsets_in(store) == [0, 1]


def test_files_are_replaced_in_one_commit(store: IcebergStore) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    for offset in range(4):
        snapshot = append(snapshot, offset, offset + 1)
    snapshot = append(snapshot, 4, 5, "2026-11-17")
    small = [each for each in snapshot.files() if each.partition == {"_day": "2026-11-16"}]
    whole = write_file(snapshot.target(), [row(each) for each in range(4)], {"_day": "2026-11-16"})
    compacted = snapshot.commit(Change("compact", snapshot.offsets, [whole], small))
    assert compacted.offsets == {0: 5}
    assert sorted(each.rows for each in compacted.files()) == [1, 4]
    assert offsets_in(store) == [0, 1, 2, 3, 4]
    with pytest.raises(ChangedMeanwhileError):
        snapshot.commit(Change("compact", snapshot.offsets, [whole], small))
    with pytest.raises(TableError, match="not in the table"):
        compacted.commit(Change("compact", snapshot.offsets, [], small))
    assert offsets_in(store) == [0, 1, 2, 3, 4]


def test_files_of_a_table_without_partitions_are_replaced(store: IcebergStore) -> None:
    snapshot = store.create(About("orders", None, None), SCHEMA, {0: 0})
    for offset in range(3):
        file = write_file(snapshot.target(), [row(offset)])
        snapshot = snapshot.commit(Change("append", {0: offset + 1}, [file]))
    whole = write_file(snapshot.target(), [row(each) for each in range(3)])
    snapshot = snapshot.commit(Change("compact", snapshot.offsets, [whole], snapshot.files()))
    assert [each.path for each in snapshot.files()] == [whole.path]
    assert offsets_in(store) == [0, 1, 2]


def test_buckets_written_anew_many_times_leave_no_trail_of_manifests(store: IcebergStore) -> None:
    schema = pa.schema([("_key", pa.binary()), ("_offset", pa.int64()), ("_bucket", pa.int32())])
    about = About("orders", None, None, mode=UPSERT, buckets=2, partition_by=("_bucket",))
    snapshot = store.create(about, schema, {0: 0})
    for turn in range(12):
        bucket = turn % 2
        file = write_file(
            snapshot.target(), [{"_key": b"k", "_offset": turn, "_bucket": bucket}], {"_bucket": str(bucket)}
        )
        before = [each for each in snapshot.files() if each.partition == {"_bucket": str(bucket)}]
        snapshot = snapshot.commit(Change("upsert", {0: turn + 1}, [file], before))
    assert offsets_in(store) == [10, 11]
    table = loaded(store)
    current = table.current_snapshot()
    assert current is not None
    assert current.summary is not None
    assert current.summary["total-data-files"] == "2"
    assert len(current.manifests(table.io)) <= 3


def test_many_appends_are_merged_into_few_manifests(store: IcebergStore) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    with loaded(store).transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "4"})
    snapshot = store.open() or snapshot
    for offset in range(11):
        snapshot = append(snapshot, offset, offset + 1)
    table = loaded(store)
    current = table.current_snapshot()
    assert current is not None
    assert len(current.manifests(table.io)) <= 4
    assert offsets_in(store) == list(range(11))
    assert len(snapshot.files()) == 11


def test_columns_get_more_where_they_are_wanted(store: IcebergStore) -> None:
    nested = pa.struct([("a", pa.int64())])
    schema = pa.schema([("_offset", pa.int64()), ("n", nested), ("_day", pa.date32())])
    snapshot = store.create(ABOUT, schema, {0: 0})
    file = write_file(snapshot.target(), [{"_offset": 0, "n": {"a": 1}}], {"_day": None})
    snapshot = snapshot.commit(Change("append", {0: 1}, [file]))
    wider = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("c", pa.string())])))])
    grown = pa.schema(
        [("_offset", pa.int64()), ("n", wider), ("x", pa.float64()), ("y", pa.string()), ("_day", pa.date32())]
    )
    stale = store.open()
    assert stale is not None
    snapshot = snapshot.commit(Change("schema", snapshot.offsets, schema=grown))
    assert snapshot.schema == grown
    assert snapshot.offsets == {0: 1}
    with pytest.raises(ChangedMeanwhileError):
        stale.commit(Change("schema", stale.offsets, schema=grown))
    file = write_file(
        snapshot.target(), [{"_offset": 1, "n": {"a": 2, "b": [{"c": "d"}]}, "x": 0.5, "y": "z"}], {"_day": None}
    )
    snapshot.commit(Change("append", {0: 2}, [file]))
    read = loaded(store).scan().to_arrow().sort_by("_offset").to_pylist()
    assert read == [
        {"_offset": 0, "n": {"a": 1, "b": None}, "x": None, "y": None, "_day": None},
        {"_offset": 1, "n": {"a": 2, "b": [{"c": "d"}]}, "x": 0.5, "y": "z", "_day": None},
    ]
    assert store.at(store.history()[2].version).schema == schema


def test_columns_and_rows_in_one_commit(store: IcebergStore) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    file = write_file(snapshot.target(), [row(0)], {"_day": "2026-11-16"})
    grown = SCHEMA.append(pa.field("more", pa.int32()))
    snapshot = snapshot.commit(Change("append", {0: 1}, [file], schema=grown))
    assert snapshot.schema == grown
    assert loaded(store).scan().to_arrow().column("more").to_pylist() == [None]


def test_columns_that_cannot_become_what_is_wanted(store: IcebergStore) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    other = pa.schema([*list(SCHEMA)[:2], pa.field("text", pa.int64()), SCHEMA.field("_day")])
    with pytest.raises(SchemaMismatchError, match="wanted"):
        snapshot.commit(Change("schema", {0: 0}, schema=other))
    with pytest.raises(TableError, match="text"):
        snapshot.commit(Change("schema", {0: 0}, schema=SCHEMA.remove(2)))
    assert append(snapshot, 0, 1).schema == SCHEMA


def test_what_somebody_else_appends_changes_nothing_about_the_offsets(store: IcebergStore) -> None:
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 2)
    theirs = loaded(store)
    theirs.append(theirs.scan().to_arrow())
    snapshot = store.open()
    assert snapshot is not None
    assert snapshot.offsets == {0: 2}
    append(snapshot, 2, 3)
    assert offsets_in(store) == [0, 0, 1, 1, 2]
    assert [each.offsets for each in store.history()] == [{0: 3}, None, {0: 2}, {0: 0}]


def test_rolling_back_takes_the_offsets_back(store: IcebergStore) -> None:
    early = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 2)
    late = append(early, 2, 4)
    loaded(store).manage_snapshots().rollback_to_snapshot(early.version).commit()
    snapshot = store.open()
    assert snapshot is not None
    assert snapshot.offsets == {0: 2}
    with pytest.raises(ChangedMeanwhileError):
        append(late, 4, 5)
    append(snapshot, 2, 5)
    assert offsets_in(store) == [0, 1, 2, 3, 4]


def test_history_and_old_versions(store: IcebergStore) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    versions = [snapshot.version]
    for offset in range(3):
        snapshot = append(snapshot, offset, offset + 1)
        versions.append(snapshot.version)
    history = store.history()
    assert [each.version for each in history] == versions[::-1]
    assert [each.operation for each in history] == ["append", "append", "append", "create"]
    assert [each.offsets for each in history] == [{0: 3}, {0: 2}, {0: 1}, {0: 0}]
    assert history[0].facts == {"rows": 1}
    for offset, version in enumerate(versions):
        old = store.at(version)
        assert old.offsets == {0: offset}
        assert sum(each.rows for each in old.files()) == offset
        assert old.schema == SCHEMA
    with pytest.raises(TableError, match="no version 7"):
        store.at(7)
    with pytest.raises(ChangedMeanwhileError):
        append(store.at(versions[1]), 1, 2)


def test_files_that_are_not_what_the_tasks_said(store: IcebergStore) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    file = write_file(snapshot.target(), [row(0)], {"_day": "2026-11-16"})
    path = Path(snapshot.target().root) / file.path
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TableError, match="bytes"):
        snapshot.commit(Change("append", {0: 1}, [file]))
    path.unlink()
    with pytest.raises(TableError, match="cannot be seen"):
        snapshot.commit(Change("append", {0: 1}, [file]))
    assert append(snapshot, 0, 1).offsets == {0: 1}


def test_a_commit_that_landed_in_spite_of_an_error(store: IcebergStore, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    catalog = type(loaded(store).catalog)
    commit_table = catalog.commit_table

    def interrupted(*arguments: object) -> None:
        commit_table(*arguments)  # type: ignore[arg-type]
        raise ConnectionError("lost the answer")

    monkeypatch.setattr(catalog, "commit_table", interrupted)
    after = append(snapshot, 0, 2)
    assert after.offsets == {0: 2}
    monkeypatch.setattr(catalog, "commit_table", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(TableError, match="No space left"):
        append(after, 2, 3)
    monkeypatch.undo()
    append(after, 2, 3)
    assert offsets_in(store) == [0, 1, 2]


def test_all_that_a_commit_names_is_on_the_disk_before(store: IcebergStore, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    synced: set[str] = set()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    append(snapshot, 0, 1)
    metadata = store.place.folder / "metadata"
    new = {str(each) for each in metadata.iterdir() if not each.name.startswith("00000-")}
    assert {Path(each).suffix for each in new} == {".avro", ".json"}
    assert new <= synced
    folders = {str(metadata), str(store.place.folder), str(store.place.folder / "data" / "_day=2026-11-16")}
    assert folders <= synced


def test_a_disk_that_is_full(store: IcebergStore, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    file = write_file(snapshot.target(), [row(1)], {"_day": "2026-11-16"})
    fsync = os.fsync
    for kind in ("m0.avro", "snap-", ".metadata.json"):

        def full(descriptor: int, kind: str = kind) -> None:
            if kind in os.readlink(f"/proc/self/fd/{descriptor}"):
                raise OSError(28, "No space left on device")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(TableError, match="No space left"):
            snapshot.commit(Change("append", {0: 2}, [file]))
        assert offsets_in(store) == [0]
    monkeypatch.undo()
    assert snapshot.commit(Change("append", {0: 2}, [file])).offsets == {0: 2}


def test_a_table_that_is_partitioned_otherwise_meanwhile(store: IcebergStore) -> None:
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    with loaded(store).update_spec() as update:
        update.add_field("text", IdentityTransform(), "text")
    snapshot = store.open()
    assert snapshot is not None
    assert snapshot.files()[0].partition == {"_day": "2026-11-16"}
    with pytest.raises(TableError, match="partitioned by"):
        snapshot.target()
    with pytest.raises(TableError, match="partitioned by"):
        snapshot.commit(Change("append", {0: 2}))


def test_rows_that_another_engine_deleted(store: IcebergStore, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    deletes = SimpleNamespace(content=ManifestContent.DELETES)
    monkeypatch.setattr(IcebergSnapshot, "_live", lambda _: [(deletes, SimpleNamespace())])
    with pytest.raises(TableError, match="another engine"):
        snapshot.files()


def _race(place: str, number: int, told: multiprocessing.Queue[int]) -> None:
    """Append 5 rows, each planned on what is there: who is refused plans again."""
    store = IcebergStore(place)
    done = 0
    while done < 5:
        try:
            snapshot = store.open() or store.create(ABOUT, SCHEMA, {0: 0})
            append(snapshot, snapshot.offsets[0], snapshot.offsets[0] + 1)
        except ChangedMeanwhileError:
            continue
        done += 1
    told.put(number)


def test_two_drivers_at_once(store: IcebergStore) -> None:
    context = multiprocessing.get_context("spawn")
    told: multiprocessing.Queue[int] = context.Queue()
    drivers = [context.Process(target=_race, args=(store.name, number, told)) for number in range(2)]
    for each in drivers:
        each.start()
    for each in drivers:
        each.join(120)
    assert [each.exitcode for each in drivers] == [0, 0]
    assert offsets_in(store) == list(range(10))
    found = store.open()
    assert found is not None
    assert found.offsets == {0: 10}


def test_a_late_commit_whose_snapshot_is_expired(store: IcebergStore) -> None:
    snapshot = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    late, later = store.open(), store.open()
    assert late is not None
    assert later is not None
    held = late.files()
    snapshot = snapshot.commit(Change("upsert", {0: 2}, [], held))
    append(snapshot, 2, 3)
    store.retain(NEVER_MS, 0)
    with pytest.raises(ChangedMeanwhileError):
        append(late, 1, 2)
    with pytest.raises(ChangedMeanwhileError):
        late.commit(Change("upsert", {0: 2}, [], held))
    with pytest.raises(TableError, match="may have been expired"):
        later.files()
    assert offsets_in(store) == [2]


def test_files_are_read_once_of_a_snapshot(store: IcebergStore, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    found = snapshot.files()
    monkeypatch.setattr(IcebergSnapshot, "_live", None)
    assert snapshot.files() == found


def test_a_commit_keeps_all_snapshots(store: IcebergStore) -> None:
    """Also those that our catalog does not copy."""
    snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    versions = []
    for offset in range(4):
        snapshot = append(snapshot, offset, offset + 1)
        versions.append(snapshot.version)
    snapshot = snapshot.commit(Change("schema", {0: 4}, schema=SCHEMA.append(pa.field("more", pa.int64()))))
    versions.append(snapshot.version)
    found = loaded(store).metadata
    assert [each.snapshot_id for each in found.snapshots] == versions
    assert [each.snapshot_id for each in found.snapshot_log] == versions
    loaded(store).manage_snapshots().rollback_to_snapshot(versions[1]).commit()
    again = store.open()
    assert again is not None
    after = append(again, 2, 3)
    found = loaded(store).metadata
    assert [each.snapshot_id for each in found.snapshots] == [*versions, after.version]
    assert [each.snapshot_id for each in found.snapshot_log] == [*versions, versions[1], after.version]
    assert offsets_in(store) == [0, 1, 2]
