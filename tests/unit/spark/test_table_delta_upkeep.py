"""What is taken away from Delta tables: nothing that a retained version, a reader or a running job needs."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.tables.delta import ABOUT, DAY, SCHEMA, append, day, loaded, offsets_in, row, write_file
from tailrace.spark.errors import ChangedMeanwhileError, TableError
from tailrace.spark.tables.delta import lake
from tailrace.spark.tables.delta import log as logs
from tailrace.spark.tables.delta import snapshot as snapshots
from tailrace.spark.tables.delta.store import DeltaStore
from tailrace.spark.tables.store import Change, Removed, Snapshot

NEVER_MS = 0
LONG_AGO_MS = 1_000_000_000_000
LATER_MS = 1 << 45


@pytest.fixture
def store(tmp_path: Path) -> DeltaStore:
    return DeltaStore(str(tmp_path / "orders"))


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version n was made at 1,000 · n ms: deltalake takes the clock's time."""
    monkeypatch.setattr(logs.Entry, "made_ms", property(lambda entry: entry.version * 1000))


def compacted(snapshot: Snapshot) -> Snapshot:
    rows = [row(each) for each in range(snapshot.offsets[0])]
    whole = write_file(snapshot.target(), rows, {"_day": DAY})
    return snapshot.commit(Change("compact", snapshot.offsets, [whole], snapshot.files()))


def grown(store: DeltaStore) -> Snapshot:
    """Versions: 0 nothing, 1 and 2 a row more each, 3 both rows in one file, 4 a row more, 5 all three in one."""
    snapshot: Snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    snapshot = append(append(snapshot, 0, 1), 1, 2)
    return compacted(append(compacted(snapshot), 2, 3))


def is_readable(store: DeltaStore, version: int) -> bool:
    try:
        snapshot = store.at(version)
    except TableError:
        return False
    paths = [store.root / each.path for each in snapshot.files()]
    return sum(pq.read_metadata(each).num_rows for each in paths) == snapshot.offsets[0]


def data_files(store: DeltaStore) -> set[str]:
    return {str(each.relative_to(store.root)) for each in store.root.glob("_day=*/*.parquet")}


@pytest.mark.usefixtures("times")
@pytest.mark.parametrize("since", range(8))
def test_versions_that_were_the_table_since_then_stay_readable(store: DeltaStore, since: int) -> None:
    grown(store)
    before = data_files(store)
    told = store.retain(since * 1000, NEVER_MS, dry_run=True)
    assert data_files(store) == before
    assert store.retain(since * 1000, NEVER_MS) == told
    oldest = min(max(since - 1, 0), 5)
    assert [is_readable(store, each) for each in range(6)] == [each >= oldest for each in range(6)]
    assert told.versions == oldest
    assert told.files == len(before) - len(data_files(store))
    assert offsets_in(store) == [0, 1, 2]
    found = store.open()
    assert found is not None
    assert (found.offsets, found.version) == ({0: 3}, 5)
    assert store.retain(since * 1000, NEVER_MS) == Removed()
    assert append(found, 3, 4).offsets == {0: 4}


@pytest.mark.usefixtures("times")
def test_what_only_old_versions_need_goes(store: DeltaStore) -> None:
    newest = grown(store)
    assert len(data_files(store)) == 5
    assert store.retain(6_000, NEVER_MS).files == 4
    assert data_files(store) == {each.path for each in newest.files()}


def test_files_that_nobody_names_go_when_they_are_old(store: DeltaStore) -> None:
    snapshot = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    abandoned = write_file(snapshot.target(), [row(1)], {"_day": DAY})
    running = write_file(snapshot.target(), [row(1)], {"_day": DAY})
    left = store.root / "_delta_log" / "_commit_1.json.tmp"
    left.write_text("{")
    others = [store.root / "notes.txt", store.root / "_elsewhere" / "a.parquet", store.root / "x.crc"]
    others[1].parent.mkdir()
    for each in others:
        each.write_text("mine")
    old = [store.root / abandoned.path, store.root / snapshot.files()[0].path, left, *others]
    for each in old:
        os.utime(each, (LONG_AGO_MS / 1000 - 1,) * 2)
    assert store.retain(0, LONG_AGO_MS) == Removed(1, abandoned.size_bytes, 0)
    assert data_files(store) == {running.path, snapshot.files()[0].path}
    assert not left.exists()
    assert all(each.exists() for each in others)
    assert offsets_in(store) == [0]


@pytest.mark.usefixtures("times")
def test_a_batch_that_was_planned_before_still_commits(store: DeltaStore) -> None:
    planned = grown(store)
    file = write_file(planned.target(), [row(3)], {"_day": DAY})
    store.retain(planned.version * 1000 + 1, NEVER_MS)
    planned.commit(Change("upsert", {0: 4}, [file], planned.files()))
    assert offsets_in(store) == [3]


@pytest.mark.usefixtures("times")
def test_the_offsets_stay_where_others_committed_last(store: DeltaStore) -> None:
    newest = grown(store)
    for offset in (100, 101):
        write_deltalake(store.name, pa.Table.from_pylist([row(offset, _day=day())], SCHEMA), mode="append")
    assert store.retain(1_000_000, NEVER_MS).versions == newest.version
    found = store.open()
    assert found is not None
    assert found.offsets == {0: 3}
    assert [each.offsets for each in store.history()] == [None, None, {0: 3}]


@pytest.mark.usefixtures("times")
def test_what_a_restored_table_needs_stays(store: DeltaStore) -> None:
    grown(store)
    loaded(store).restore(2)
    store.retain(1_000_000, NEVER_MS)
    found = store.open()
    assert found is not None
    assert found.offsets == {0: 2}
    assert offsets_in(store) == [0, 1]
    append(found, 2, 4)
    store.retain(1_000_000, NEVER_MS)
    assert offsets_in(store) == [0, 1, 2, 3]


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["append", "compact", "abandon", "retain", "theirs"]), max_size=14), st.data())
def test_any_turn_of_events_leaves_what_is_retained(
    tmp_path_factory: pytest.TempPathFactory, events: list[str], data: st.DataObject
) -> None:
    store = DeltaStore(str(tmp_path_factory.mktemp("table") / "orders"))
    snapshot: Snapshot = store.create(ABOUT, SCHEMA, {0: 0})
    counts = [0]
    oldest = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs.Entry, "made_ms", property(lambda entry: entry.version * 1000))
        for event in events:
            at = snapshot.offsets[0]
            if event == "append":
                snapshot = append(snapshot, at, at + 1)
            elif event == "compact":
                snapshot = compacted(snapshot)
            elif event == "abandon":
                write_file(snapshot.target(), [row(at)], {"_day": DAY})
            elif event == "theirs":
                loaded(store).create_checkpoint()
            else:
                since = data.draw(st.integers(0, snapshot.version + 1))
                store.retain(since * 1000, NEVER_MS)
                oldest = max(oldest, since - 1)
            if snapshot.version == len(counts):
                counts.append(snapshot.offsets[0])
            for version in range(oldest, len(counts)):
                assert sum(each.rows for each in store.at(version).files()) == counts[version]
                assert all((store.root / each.path).exists() for each in store.at(version).files())
        assert offsets_in(store) == list(range(snapshot.offsets[0]))


def test_a_log_that_is_cleaned_while_the_table_is_loaded(store: DeltaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    grown(store)
    cleanings = [LATER_MS]

    def listed_too_early(root: str, version: int | None = None) -> DeltaTable:
        if cleanings:
            store.retain(cleanings.pop(), NEVER_MS)
            raise DeltaError("Kernel error: File not found: 00000000000000000003.json")
        return DeltaTable(root, version=version)

    monkeypatch.setattr(lake, "DeltaTable", listed_too_early)
    found = store.open()
    assert found is not None
    assert (found.version, found.offsets) == (5, {0: 3})


def test_a_commit_whose_version_others_have_cleaned_away(store: DeltaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = grown(store)
    synced = snapshots.make_last

    def others_go_on(log: logs.Log, version: int) -> None:
        monkeypatch.setattr(snapshots, "make_last", synced)
        synced(log, version)
        there = store.open()
        assert there is not None
        append(there, 4, 5)
        store.retain(LATER_MS, NEVER_MS)

    monkeypatch.setattr(snapshots, "make_last", others_go_on)
    with pytest.raises(ChangedMeanwhileError, match="went on from version 6"):
        append(snapshot, 3, 4)
    assert offsets_in(store) == [0, 1, 2, 3, 4]
