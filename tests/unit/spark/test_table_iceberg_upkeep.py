"""Upkeep of Iceberg tables: what is too old or abandoned goes, what is retained or needed stays, offsets survive."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from support.tables.iceberg import ABOUT, SCHEMA, append, loaded, offsets_in, row, write_file
from tailrace.spark.errors import ChangedMeanwhileError, TableError
from tailrace.spark.tables.iceberg.catalog import OwnCatalog
from tailrace.spark.tables.iceberg.store import IcebergStore
from tailrace.spark.tables.store import Change, Removed, Snapshot

NEVER_MS = 0


@pytest.fixture
def store(tmp_path: Path) -> IcebergStore:
    return IcebergStore(str(tmp_path / "orders"))


def _later_ms() -> int:
    return time.time_ns() // 1_000_000 + 1000


def _paths(store: IcebergStore) -> set[str]:
    return {os.path.join(folder, name) for folder, _, names in os.walk(store.place.folder) for name in names}


def _compacted(store: IcebergStore) -> Snapshot:
    """Four rows in one file, which took the place of four."""
    snapshot: Snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    for offset in range(4):
        snapshot = append(snapshot, offset, offset + 1)
    whole = write_file(snapshot.target(), [row(each) for each in range(4)], {"_day": "2026-11-16"})
    return snapshot.commit(Change("compact", snapshot.offsets, [whole], snapshot.files()))


def test_old_snapshots_and_their_files_go(store: IcebergStore) -> None:
    snapshot = _compacted(store)
    versions = [each.version for each in store.history()]
    before = _paths(store)
    planned = store.retain(_later_ms(), NEVER_MS, dry_run=True)
    assert _paths(store) == before
    assert [each.version for each in store.history()] == versions
    removed = store.retain(_later_ms(), NEVER_MS)
    assert removed == planned
    assert removed.versions == 4
    # Four data files, manifests of theirs, and lists of manifests.
    assert removed.files >= 4 + 4 + 4
    assert removed.size_bytes > 0
    assert len(list((store.place.folder / "data").rglob("*.parquet"))) == 1
    assert [each.version for each in store.history()] == [snapshot.version]  # as the oldest that is kept
    found = store.open()
    assert found is not None
    assert found.offsets == {0: 4}
    assert offsets_in(store) == [0, 1, 2, 3]
    append(found, 4, 5)
    assert offsets_in(store) == [0, 1, 2, 3, 4]


def test_what_is_retained_can_be_read(store: IcebergStore) -> None:
    _compacted(store)
    newest = store.history()
    # Just when the third append was made: the second was the table until then.
    since_ms = newest[2].made_ms
    assert store.retain(since_ms, NEVER_MS).versions <= 2
    kept = store.history()
    assert {each.version for each in newest[:3]} <= {each.version for each in kept}
    for each in kept[:3]:
        table = loaded(store)
        read = table.scan(snapshot_id=each.version).to_arrow()
        assert each.offsets is not None
        assert read.num_rows == each.offsets[0]
    with pytest.raises(TableError, match="does not keep it"):
        store.at(12345)


def test_nothing_goes_that_is_young(store: IcebergStore) -> None:
    _compacted(store)
    before = _paths(store)
    assert store.retain(NEVER_MS, NEVER_MS) == Removed()
    assert _paths(store) == before


def test_files_that_nothing_names_go_when_they_are_old(store: IcebergStore) -> None:
    snapshot = _compacted(store)
    abandoned = [
        Path(snapshot.target().root) / write_file(snapshot.target(), [row(9)], {"_day": "2026-11-16"}).path,
        store.place.folder / "metadata" / "snap-1-0-abc.avro",
    ]
    abandoned[1].write_bytes(b"half")
    hint = store.place.folder / "metadata" / "version-hint.text"
    hint.write_text("1")
    foreign = store.place.folder / "notes.txt"
    foreign.write_text("mine")
    named = _paths(store) - {str(each) for each in abandoned}
    for each in abandoned:
        os.utime(each, (1000, 1000))
    assert store.retain(NEVER_MS, 999_000) == Removed()
    removed = store.retain(NEVER_MS, 1_000_001)
    assert (removed.files, removed.versions) == (2, 0)
    assert _paths(store) == named
    # Even with an age of nothing, what is named stays.
    store.retain(NEVER_MS, _later_ms())
    assert _paths(store) == named
    assert offsets_in(store) == [0, 1, 2, 3]


def test_what_a_refused_commit_leaves_goes(store: IcebergStore) -> None:
    snapshot = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    append(snapshot, 1, 2)
    with pytest.raises(ChangedMeanwhileError):
        append(snapshot, 1, 2)
    assert len(list((store.place.folder / "data").rglob("*.parquet"))) == 3
    store.retain(NEVER_MS, _later_ms())
    assert len(list((store.place.folder / "data").rglob("*.parquet"))) == 2
    assert offsets_in(store) == [0, 1]


def test_the_offsets_behind_what_somebody_else_did_stay(store: IcebergStore) -> None:
    append(append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1), 1, 2)
    for _ in range(3):
        table = loaded(store)
        table.append(table.scan(limit=1).to_arrow())
    assert store.retain(_later_ms(), _later_ms()).versions == 1
    found = store.open()
    assert found is not None
    assert found.offsets == {0: 2}
    assert append(found, 2, 3).offsets == {0: 3}


@pytest.mark.parametrize("own_commits", [0, 2])
def test_offsets_survive_that_somebody_else_expires_our_snapshots(store: IcebergStore, own_commits: int) -> None:
    snapshot: Snapshot = store.create(ABOUT, SCHEMA, {0: 7})
    for offset in range(7, 7 + own_commits):
        snapshot = append(snapshot, offset, offset + 1)
    for _ in range(2):
        table = loaded(store)
        table.append(SCHEMA.empty_table())
    for each in loaded(store).metadata.snapshots[:-1]:
        loaded(store).maintenance.expire_snapshots().by_id(each.snapshot_id).commit()
    assert len(loaded(store).metadata.snapshots) == 1
    found = store.open()
    assert found is not None
    assert found.offsets == {0: 7 + own_commits}
    assert append(found, 7 + own_commits, 10).offsets == {0: 10}


def test_offsets_that_are_lost_are_not_made_up(store: IcebergStore) -> None:
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    loaded(store).append(SCHEMA.empty_table())
    ours = loaded(store).metadata.snapshots[0]
    loaded(store).maintenance.expire_snapshots().by_id(ours.snapshot_id).commit()
    for each in loaded(store).metadata.metadata_log:
        Path(each.metadata_file.removeprefix("file://")).unlink()
    with pytest.raises(TableError, match="expired by somebody else"):
        store.open()


def test_branches_and_tags_stay(store: IcebergStore) -> None:
    snapshot = append(append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1), 1, 2)
    tagged = store.history()[1].version
    loaded(store).manage_snapshots().create_tag(tagged, "audit").commit()
    append(snapshot, 2, 3)
    assert store.retain(_later_ms(), _later_ms()).versions == 1
    assert loaded(store).scan(snapshot_id=tagged).to_arrow().num_rows == 1


def test_a_table_that_is_rolled_back_while_snapshots_expire(
    store: IcebergStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    append(append(early, 1, 2), 2, 3)
    catalog = type(loaded(store).catalog)
    commit_table = catalog.commit_table
    rolled = False

    def after_a_rollback(*arguments: object) -> object:
        nonlocal rolled
        if not rolled:
            rolled = True
            loaded(store).manage_snapshots().rollback_to_snapshot(early.version).commit()
        return commit_table(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog, "commit_table", after_a_rollback)
    removed = store.retain(_later_ms(), _later_ms())
    assert removed.versions == 2
    found = store.open()
    assert found is not None
    assert (found.version, found.offsets) == (early.version, {0: 1})
    assert offsets_in(store) == [0]


def test_two_that_expire_the_same_snapshots(store: IcebergStore, monkeypatch: pytest.MonkeyPatch) -> None:
    _compacted(store)
    commit_table = OwnCatalog.commit_table
    others: list[Removed] = []

    def after_another(*arguments: object) -> object:
        monkeypatch.setattr(OwnCatalog, "commit_table", commit_table)
        others.append(store.retain(_later_ms(), NEVER_MS))
        return commit_table(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(OwnCatalog, "commit_table", after_another)
    assert store.retain(_later_ms(), NEVER_MS).versions == 0
    assert [each.versions for each in others] == [4]
    assert offsets_in(store) == [0, 1, 2, 3]


def test_metadata_do_not_pile_up(store: IcebergStore) -> None:
    snapshot: Snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    with loaded(store).transaction() as transaction:
        transaction.set_properties({"write.metadata.previous-versions-max": "3"})
    snapshot = store.open() or snapshot
    for offset in range(8):
        snapshot = append(snapshot, offset, offset + 1)
    assert len(list((store.place.folder / "metadata").glob("*.metadata.json"))) <= 5


def test_upkeep_of_no_table(store: IcebergStore) -> None:
    assert store.retain(_later_ms(), _later_ms()) == Removed()
    assert not store.place.catalog_file.exists()


def test_a_catalog_in_trouble(store: IcebergStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job goes on without upkeep: so it has to hear of it in our own words."""
    _compacted(store)

    def locked(*_: object) -> None:
        raise RuntimeError("database is locked")

    monkeypatch.setattr(OwnCatalog, "commit_table", locked)
    with pytest.raises(TableError, match="database is locked"):
        store.retain(_later_ms(), NEVER_MS)
