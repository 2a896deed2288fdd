"""Parquet tables: manifests that come to be in one step, what is refused, and what is taken away in time."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.spark.errors import (
    ChangedMeanwhileError,
    ForeignTableError,
    OccupiedTargetError,
    OptionError,
    TableError,
)
from tailrace.spark.tables.columns import append_schema
from tailrace.spark.tables.location import local_folder
from tailrace.spark.tables.parquet import ParquetSnapshot, ParquetStore
from tailrace.spark.tables.parquet import store as store_module
from tailrace.spark.tables.parquet.manifest import Head, Manifest, head_of, manifest_of
from tailrace.spark.tables.parquet.manifest_folder import ManifestFolder
from tailrace.spark.tables.store import UPSERT, About, Change, DataFile, Removed

ABOUT = About("orders", "id", "cluster", partition_by=("_day",), settings={"value": "bytes"})
SCHEMA = append_schema(pa.binary(), [pa.field("value", pa.binary())], ("_day",))
OFFSETS = {0: 5, 1: 0}
HOUR_MS = 3_600_000


class Clock:
    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def store(tmp_path: Path) -> ParquetStore:
    return ParquetStore(str(tmp_path / "orders"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(1_000 * HOUR_MS)
    monkeypatch.setattr(store_module, "_now_ms", clock)
    return clock


def write(store: ParquetStore, name: str, rows: int = 3, *, day: str = "2026-11-16") -> DataFile:
    """A file of so many rows, as a task leaves it."""
    path = f"_day={day}/{name}.parquet"
    place = store.root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"value": [b"%d" % number for number in range(rows)]}), place)
    return DataFile(path, {"_day": day}, rows, place.stat().st_size)


def age(store: ParquetStore, file: str, now_ms: int) -> None:
    os.utime(store.root / file, ns=(now_ms * 1_000_000,) * 2)


def created(store: ParquetStore) -> ParquetSnapshot:
    return store.create(ABOUT, SCHEMA, OFFSETS)


def test_nothing_is_there_before_a_table_is_made(store: ParquetStore) -> None:
    assert store.open() is None
    assert store.history() == []
    assert not store.root.exists()


def test_a_table_says_again_what_it_was_made_with(store: ParquetStore) -> None:
    created(store)
    found = store.open()
    assert found is not None
    assert (found.version, found.about, found.offsets, found.files()) == (0, ABOUT, OFFSETS, [])
    assert found.schema.equals(SCHEMA)


def test_a_commit_adds_and_removes_files_and_moves_the_offsets(store: ParquetStore) -> None:
    snapshot = created(store)
    one, two, three = (write(store, name) for name in ("one", "two", "three"))
    first = snapshot.commit(Change("append", {0: 9, 1: 2}, adds=[one, two], facts={"rows": 6}))
    second = first.commit(Change("compact", first.offsets, adds=[three], removes=[one]))
    found = store.open()
    assert found is not None
    assert found.files() == second.files() == [two, three]
    assert found.offsets == {0: 9, 1: 2}
    assert [(each.version, each.operation) for each in store.history()] == [
        (2, "compact"),
        (1, "append"),
        (0, "create"),
    ]
    assert store.history()[1].facts == {"rows": 6}
    assert store.at(1).files() == [one, two]


def test_a_snapshot_commits_only_while_it_is_the_newest(store: ParquetStore) -> None:
    stale = created(store)
    stale.commit(Change("append", {0: 9, 1: 2}, adds=[write(store, "one")]))
    with pytest.raises(ChangedMeanwhileError):
        stale.commit(Change("append", {0: 7, 1: 2}, adds=[write(store, "two")]))
    found = store.open()
    assert found is not None
    assert found.offsets == {0: 9, 1: 2}
    assert [each.path for each in found.files()] == ["_day=2026-11-16/one.parquet"]


def test_of_those_who_commit_at_once_one_succeeds(store: ParquetStore) -> None:
    snapshot = created(store)
    won: list[int] = []
    refused: list[int] = []
    barrier = threading.Barrier(8)

    def commit(number: int) -> None:
        barrier.wait()
        try:
            snapshot.commit(Change("append", {0: number, 1: 0}))
            won.append(number)
        except ChangedMeanwhileError:
            refused.append(number)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    found = store.open()
    assert found is not None
    assert (found.version, [found.offsets[0]], len(refused)) == (1, won, 7)
    assert ManifestFolder(store.root).unfinished() == []


def test_a_table_is_made_once(store: ParquetStore) -> None:
    created(store)
    with pytest.raises(ChangedMeanwhileError):
        created(store)


def test_a_driver_that_slept_past_the_removal_of_versions_commits_nothing(store: ParquetStore, clock: Clock) -> None:
    """Its number is free again. That it is does not make it the next one."""
    asleep = created(store)
    awake = asleep
    for offset in range(10, 15):
        clock.now_ms += HOUR_MS
        awake = awake.commit(Change("append", {0: offset, 1: 0}))
    store.retain(clock.now_ms, clock.now_ms)
    assert ManifestFolder(store.root).versions() == [4, 5]
    found = ManifestFolder(store.root)
    late = Manifest(Head(1, "late", "x", 0, "append", {0: 6, 1: 0}, {}, ABOUT, SCHEMA), [])
    looks = iter([[], [1, 4, 5]])  # it looked before it slept
    found.versions = lambda: next(looks)  # type: ignore[method-assign]
    with pytest.raises(ChangedMeanwhileError):
        found.add(late)
    assert ManifestFolder(store.root).versions() == [4, 5]
    with pytest.raises(ChangedMeanwhileError):
        asleep.commit(Change("append", {0: 6, 1: 0}))
    newest = store.open()
    assert newest is not None
    assert newest.offsets == {0: 14, 1: 0}


def test_a_number_just_below_the_oldest_is_taken_back_too(store: ParquetStore, clock: Clock) -> None:
    awake = created(store)
    for offset in range(10, 13):
        clock.now_ms += HOUR_MS
        awake = awake.commit(Change("append", {0: offset, 1: 0}))
    store.retain(clock.now_ms, clock.now_ms)
    assert ManifestFolder(store.root).versions() == [2, 3]
    found = ManifestFolder(store.root)
    looks = iter([[], [1, 2, 3]])
    found.versions = lambda: next(looks)  # type: ignore[method-assign]
    with pytest.raises(ChangedMeanwhileError):
        found.add(Manifest(Head(1, "late", "x", 0, "append", {0: 6, 1: 0}, {}, ABOUT, SCHEMA), []))
    assert ManifestFolder(store.root).versions() == [2, 3]


def test_one_whose_child_is_there_already_has_committed(store: ParquetStore) -> None:
    """Somebody loaded it and went on before its maker looked."""
    snapshot = created(store)
    folder = ManifestFolder(store.root)
    look = folder.versions

    def looked_late() -> list[int]:
        if look()[-1] == 1:
            loaded = store.open()
            assert loaded is not None
            loaded.commit(Change("append", {0: 8, 1: 0}))
        return look()

    folder.versions = looked_late  # type: ignore[method-assign]
    parent = snapshot._manifest.head
    folder.add(Manifest(Head(1, "ours", parent.id, 0, "append", {0: 7, 1: 0}, {}, ABOUT, SCHEMA), []))
    assert [each.offsets for each in store.history()] == [{0: 8, 1: 0}, {0: 7, 1: 0}, OFFSETS]


@pytest.mark.parametrize("left", [(), ("_tailrace",), ("_tailrace", "_staging")])
def test_what_a_dead_maker_leaves_is_no_obstacle(store: ParquetStore, left: tuple[str, ...]) -> None:
    for each in left:
        (store.root / each).mkdir(parents=True)
        (store.root / each / ".new-1").touch()
    assert store.open() is None
    created(store)


def test_other_data_is_refused_and_not_touched(store: ParquetStore) -> None:
    store.root.mkdir()
    (store.root / "mine.csv").write_text("1")
    for act in (store.open, lambda: created(store)):
        with pytest.raises(OccupiedTargetError, match=r"mine\.csv"):
            act()
    assert os.listdir(store.root) == ["mine.csv"]


def test_a_delta_table_and_a_file_are_refused(store: ParquetStore) -> None:
    (store.root / "_delta_log").mkdir(parents=True)
    with pytest.raises(OccupiedTargetError, match="Delta"):
        store.open()
    file = store.root / "file"
    file.touch()
    with pytest.raises(OccupiedTargetError, match="not a folder"):
        ParquetStore(str(file)).open()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", TableError),
        (b"[]", TableError),
        (b"{}", ForeignTableError),
        (b'{"format": 2}', ForeignTableError),
        (b'{"format": 1, "files": []}', TableError),
        (b"[" * 100_000, TableError),
    ],
)
def test_a_manifest_that_is_none_is_said_so(store: ParquetStore, content: bytes, kind: type[TableError]) -> None:
    created(store)
    path = store.root / "_tailrace" / f"{1:020}.json"
    path.write_bytes(content)
    with pytest.raises(kind, match="manifest"):
        store.open()


@pytest.mark.parametrize("path", ["/etc/passwd", "../other/x.parquet", ""])
def test_a_manifest_names_no_file_outside(store: ParquetStore, path: str) -> None:
    snapshot = created(store)
    snapshot.commit(Change("append", OFFSETS, adds=[write(store, "one")]))
    manifest = store.root / "_tailrace" / f"{1:020}.json"
    content = json.loads(manifest.read_text())
    content["files"][0]["path"] = path
    manifest.write_text(json.dumps(content))
    with pytest.raises(TableError, match="below the table"):
        store.open()


def test_a_file_that_is_not_there_or_was_cut_is_not_committed(store: ParquetStore) -> None:
    snapshot = created(store)
    with pytest.raises(TableError, match="cannot be seen"):
        snapshot.commit(Change("append", OFFSETS, adds=[DataFile("x.parquet", {}, 1, 10)]))
    file = write(store, "one")
    with (store.root / file.path).open("r+b") as stream:
        stream.truncate(5)
    with pytest.raises(TableError, match="5 bytes"):
        snapshot.commit(Change("append", OFFSETS, adds=[file]))
    assert len(store.history()) == 1


def test_a_commit_must_fit_the_files_there_are(store: ParquetStore) -> None:
    snapshot = created(store)
    file = write(store, "one")
    snapshot = snapshot.commit(Change("append", OFFSETS, adds=[file]))
    with pytest.raises(TableError, match="already"):
        snapshot.commit(Change("append", OFFSETS, adds=[file]))
    with pytest.raises(TableError, match="not in it"):
        snapshot.commit(Change("compact", OFFSETS, removes=[DataFile("gone.parquet", {}, 1, 1)]))


def test_columns_grow_and_do_not_change(store: ParquetStore) -> None:
    nested = pa.schema([*SCHEMA, pa.field("more", pa.list_(pa.struct([("a", pa.int64())])))])
    grown = pa.schema([*SCHEMA, pa.field("more", pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])))])
    snapshot = created(store).commit(Change("schema", OFFSETS, schema=nested))
    snapshot = snapshot.commit(Change("schema", OFFSETS, schema=grown))
    assert snapshot.schema.equals(grown)
    assert snapshot.target().schema.equals(grown)
    for other in (nested, pa.schema([pa.field("value", pa.string())])):
        with pytest.raises(TableError, match="stays so"):
            snapshot.commit(Change("schema", OFFSETS, schema=other))


def test_upserts_and_unknown_partition_columns_are_refused(store: ParquetStore) -> None:
    with pytest.raises(OptionError, match="upserts"):
        store.create(About("orders", None, None, mode=UPSERT, buckets=4), SCHEMA, {})
    with pytest.raises(TableError, match="country"):
        store.create(About("orders", None, None, partition_by=("country",)), SCHEMA, {})
    assert not store.root.exists()


def test_a_full_disk_commits_nothing(store: ParquetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = created(store)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(TableError, match="No space left"):
            snapshot.commit(Change("append", {0: 9, 1: 0}))
    assert ManifestFolder(store.root).unfinished() == []
    assert snapshot.commit(Change("append", {0: 9, 1: 0})).version == 1


def test_a_file_system_without_links_is_said_so(store: ParquetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(TableError, match="hard links"):
        created(store)


@pytest.mark.parametrize("step", ["write", "link"])
def test_one_who_dies_in_a_commit_leaves_the_table_as_it_was(
    store: ParquetStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    snapshot = created(store)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync" if step == "write" else "link", _death)
        with pytest.raises(KeyboardInterrupt):
            snapshot.commit(Change("append", {0: 9, 1: 0}))
    found = store.open()
    assert found is not None
    assert found.version == 0
    assert found.commit(Change("append", {0: 9, 1: 0})).version == 1


def _death(*arguments: object) -> None:
    raise KeyboardInterrupt


# What is taken away


def test_versions_go_when_their_successor_is_old(store: ParquetStore, clock: Clock) -> None:
    snapshot = created(store)
    for offset in range(10, 14):
        clock.now_ms += HOUR_MS
        snapshot = snapshot.commit(Change("append", {0: offset, 1: 0}))
    since = clock.now_ms - HOUR_MS - 1  # just before version 3: version 2 was the table then
    assert store.retain(since, 0, dry_run=True) == Removed(versions=2)
    assert ManifestFolder(store.root).versions() == [0, 1, 2, 3, 4]
    assert store.retain(since, 0) == Removed(versions=2)
    assert [each.version for each in store.history()] == [4, 3, 2]
    with pytest.raises(TableError, match="no version 1"):
        store.at(1)
    assert store.retain(clock.now_ms * 2, 0) == Removed(versions=2)
    assert [each.version for each in store.history()] == [4]


def test_files_go_with_the_last_version_that_names_them(store: ParquetStore, clock: Clock) -> None:
    snapshot = created(store)
    one, two, whole, new = (write(store, name) for name in ("one", "two", "whole", "new"))
    snapshot = snapshot.commit(Change("append", OFFSETS, adds=[one, two]))
    clock.now_ms += HOUR_MS
    snapshot = snapshot.commit(Change("compact", OFFSETS, adds=[whole], removes=[one, two]))
    clock.now_ms += HOUR_MS
    snapshot.commit(Change("append", OFFSETS, adds=[new]))
    assert store.retain(clock.now_ms - 2 * HOUR_MS, 0).files == 0
    removed = store.retain(clock.now_ms, 0)
    assert removed == Removed(2, one.size_bytes + two.size_bytes, 2)
    assert [each.version for each in store.history()] == [3, 2]
    assert not (store.root / one.path).exists()
    assert all((store.root / each.path).exists() for each in (whole, new))


def test_abandoned_files_go_when_they_are_old_enough(store: ParquetStore, clock: Clock) -> None:
    now_ms = clock.now_ms
    snapshot = created(store)
    kept, old, young = (write(store, name) for name in ("kept", "old", "young"))
    snapshot.commit(Change("append", OFFSETS, adds=[kept]))
    staged = store.root / "_staging" / "task" / "half"
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"1234")
    unfinished = store.root / "_tailrace" / ".new-1"
    unfinished.write_bytes(b"12")
    (store.root / "notes.txt").write_text("mine")
    for each in (kept.path, old.path, "_staging/task/half", "_tailrace/.new-1", "notes.txt"):
        age(store, each, now_ms - 10 * HOUR_MS)
    age(store, young.path, now_ms)
    expected = Removed(3, old.size_bytes + 4 + 2)
    assert store.retain(0, now_ms - HOUR_MS, dry_run=True) == expected
    assert store.retain(0, now_ms - HOUR_MS) == expected
    assert not any(each.exists() for each in (store.root / old.path, staged, unfinished))
    assert all((store.root / each).exists() for each in (kept.path, young.path, "notes.txt"))
    assert len(store.history()) == 2


def test_a_table_in_the_folder_of_another_keeps_its_files(store: ParquetStore, clock: Clock) -> None:
    created(store)
    inner = ParquetStore(str(store.root / "inner"))
    kept = write(inner, "kept")
    plain = inner.root / "plain.parquet"
    plain.write_bytes(b"1234")
    for path in (inner.root / kept.path, plain):
        os.utime(path, ns=(0, 0))
    assert store.retain(0, clock.now_ms) == Removed()
    assert (inner.root / kept.path).exists()
    assert plain.exists()


def test_a_file_committed_while_old_ones_are_looked_for_stays(store: ParquetStore, clock: Clock) -> None:
    snapshot = created(store)
    late = write(store, "late")
    age(store, late.path, 0)
    read = ManifestFolder.versions
    commits = [Change("append", OFFSETS, adds=[late])]

    def commit_first(folder: ManifestFolder) -> object:
        if commits:
            snapshot.commit(commits.pop())
        return read(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ManifestFolder, "versions", commit_first)
        assert store.retain(0, clock.now_ms).files == 0
    assert (store.root / late.path).exists()


def test_time_does_not_go_back_in_a_history(store: ParquetStore, clock: Clock) -> None:
    snapshot = created(store)
    clock.now_ms -= HOUR_MS
    assert snapshot.commit(Change("append", OFFSETS)).made_ms == snapshot.made_ms


def test_retaining_where_no_table_is_does_nothing(store: ParquetStore) -> None:
    assert store.retain(0, 0) == Removed()


# Manifests as bytes

_names = st.text(min_size=1, max_size=10)
_files = st.builds(
    lambda folder, name, value, rows, size: DataFile(f"{folder}/{name}.parquet", {folder: value}, rows, size),
    st.sampled_from(["a=1", "_day=2026-11-16", "ü=%C3"]),
    st.uuids().map(lambda each: each.hex),
    st.none() | st.text(max_size=8),
    st.integers(0, 1 << 62),
    st.integers(0, 1 << 62),
)


@settings(max_examples=examples(50))
@given(
    offsets=st.dictionaries(st.integers(0, 1 << 31), st.integers(0, 1 << 62)),
    facts=st.dictionaries(_names, st.integers() | st.text()),
    names=st.lists(_names, unique=True, max_size=4),
    files=st.lists(_files, max_size=5),
)
def test_a_manifest_is_read_as_it_was_written(
    offsets: dict[int, int], facts: dict[str, int | str], names: list[str], files: list[DataFile]
) -> None:
    schema = pa.schema([pa.field(name, pa.list_(pa.struct([("x", pa.int32())]))) for name in names])
    head = Head(3, "id", None, 5, "append", offsets, facts, ABOUT, schema)
    content = Manifest(head, files).to_bytes()
    assert manifest_of(content, "m") == Manifest(head, files)
    assert head_of(content.split(b"\n", 1)[0], "m") == head
    assert json.loads(content)["version"] == 3


@settings(max_examples=examples(50))
@given(data=st.data())
def test_a_damaged_manifest_ends_in_a_typed_error(data: st.DataObject) -> None:
    file = DataFile("a.parquet", {"b": "c"}, 1, 2)
    content = bytearray(Manifest(Head(3, "i", None, 5, "append", {0: 1}, {}, ABOUT, SCHEMA), [file]).to_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    for read in (lambda: manifest_of(bytes(content), "m"), lambda: head_of(content.split(b"\n", 1)[0], "m")):
        _returns_or_refuses(read)


def _returns_or_refuses(read: Callable[[], object]) -> None:
    with contextlib.suppress(TableError):
        read()


# Places


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("/data/a b", "/data/a b"),
        ("file:/data/a%20b", "/data/a b"),
        ("file:///data/x", "/data/x"),
        ("file://localhost/data/x", "/data/x"),
    ],
)
def test_places_are_local_folders(place: str, path: str) -> None:
    assert local_folder(place) == Path(path)


def test_a_relative_place_is_below_the_working_folder() -> None:
    assert local_folder("orders") == Path.cwd() / "orders"


@pytest.mark.parametrize(
    "place",
    [
        *("", " ", "s3a://bucket/orders", "hdfs://x/y", "file://other/x", "/a\0b", "~nobody-of-that-name/x"),
        *("file:", "file:orders", "FILE:orders", "file:/a%00b", "file:/a?b", "file:/a#b", "file:/a\nb"),
    ],
)
def test_other_places_are_refused(place: str) -> None:
    with pytest.raises(OptionError, match="local or shared folder"):
        local_folder(place)


def test_companions_lie_beside(store: ParquetStore) -> None:
    assert store.beside("_dead_letters").root == store.root.with_name("orders_dead_letters")


def test_the_names_of_a_new_table_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[str] = set()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    store = ParquetStore(str(tmp_path / "lake" / "orders"))
    created(store)
    folders = (tmp_path, tmp_path / "lake", store.root, store.root / "_tailrace")
    assert {str(each) for each in folders} <= synced


def test_an_old_file_that_only_versions_between_name_stays(store: ParquetStore, clock: Clock) -> None:
    snapshot = created(store)
    small, whole, never = (write(store, name) for name in ("small", "whole", "never"))
    for name in (small.path, never.path):
        age(store, name, 0)
    for change in (
        Change("append", OFFSETS, adds=[small]),
        Change("compact", OFFSETS, adds=[whole], removes=[small]),
        Change("append", OFFSETS),
    ):
        clock.now_ms += HOUR_MS
        snapshot = snapshot.commit(change)
    assert store.retain(0, clock.now_ms) == Removed(1, never.size_bytes)
    assert (store.root / small.path).exists()


def test_retention_looks_into_few_manifests(store: ParquetStore, clock: Clock) -> None:
    """There may be tens of thousands of them."""
    snapshot = created(store)
    for number in range(40):
        clock.now_ms += HOUR_MS
        file = write(store, f"{number}")
        age(store, file.path, clock.now_ms)
        snapshot = snapshot.commit(Change("append", OFFSETS, adds=[file]))
    read: list[int] = []
    whole, first_line = ManifestFolder.read, ManifestFolder.head

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ManifestFolder, "read", lambda folder, version: (read.append(version), whole(folder, version))[1])
        patch.setattr(
            ManifestFolder, "head", lambda folder, version: (read.append(version), first_line(folder, version))[1]
        )
        assert store.retain(clock.now_ms - 30 * HOUR_MS, clock.now_ms - 30 * HOUR_MS).versions == 9
    assert set(read) <= {*range(11), 40}


def test_two_who_take_away_at_once(store: ParquetStore, clock: Clock) -> None:
    """One retains less, and was faster: the other deletes nothing that the first has kept."""
    snapshot = created(store)
    small, whole = write(store, "small"), write(store, "whole")
    for change in (
        Change("append", OFFSETS),
        Change("append", OFFSETS, adds=[small]),
        Change("compact", OFFSETS, adds=[whole], removes=[small]),
    ):
        clock.now_ms += HOUR_MS
        snapshot = snapshot.commit(change)
    read = ManifestFolder.read
    others = [clock.now_ms]

    def slow(folder: ManifestFolder, version: int) -> Manifest | None:
        while others:
            store.retain(others.pop(), 0)
        return read(folder, version)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ManifestFolder, "read", slow)
        store.retain(clock.now_ms - HOUR_MS - 1, 0)
    assert [each.version for each in store.history()] == [3, 2]
    assert (store.root / small.path).exists()
