"""Where Iceberg tables may be, in which catalogs, and what is refused without being touched."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sqlite3
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from support.tables.iceberg import ABOUT, SCHEMA, append, loaded, offsets_in, write_file
from tailrace.spark.errors import (
    ForeignTableError,
    OccupiedTargetError,
    OptionError,
    PipelineError,
    TableError,
)
from tailrace.spark.tables.iceberg.catalog import existing_catalog
from tailrace.spark.tables.iceberg.store import IcebergStore
from tailrace.spark.tables.store import About, Change


@pytest.fixture
def store(tmp_path: Path) -> IcebergStore:
    return IcebergStore(str(tmp_path / "lake" / "orders"))


def test_nothing_is_there_before_and_looking_makes_nothing(store: IcebergStore, tmp_path: Path) -> None:
    assert store.open() is None
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TableError, match="there is no table"):
        store.history()


def test_the_tables_beside(store: IcebergStore) -> None:
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    beside = store.beside("_dead_letters")
    assert beside.name == store.name + "_dead_letters"
    assert beside.open() is None
    append(beside.create(ABOUT, SCHEMA, {0: 0}), 0, 2)
    assert offsets_in(store) == [0]
    assert offsets_in(beside) == [0, 1]


def test_a_table_that_somebody_else_made(store: IcebergStore) -> None:
    store.beside("_other").create(ABOUT, SCHEMA, {0: 0})
    theirs = loaded(store.beside("_other")).catalog
    theirs.create_table(("default", "orders"), SCHEMA, location=f"file://{store.place.folder}")
    with pytest.raises(ForeignTableError, match="not made by Tailrace"):
        store.open()


def test_places_that_hold_something_else(store: IcebergStore) -> None:
    folder = store.place.folder
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(OccupiedTargetError, match=r"notes\.txt"):
        store.open()
    with pytest.raises(OccupiedTargetError):
        store.create(ABOUT, SCHEMA, {0: 0})
    assert os.listdir(folder.parent) == ["orders"]
    (folder / "notes.txt").unlink()
    folder.rmdir()
    folder.write_text("mine")
    with pytest.raises(OccupiedTargetError, match="not a folder"):
        store.open()


@pytest.mark.parametrize("what", ["text", "database"])
def test_a_catalog_that_is_something_else(store: IcebergStore, what: str) -> None:
    path = store.place.catalog_file
    path.parent.mkdir()
    if what == "text":
        path.write_text("mine " * 1000)
    else:
        link = sqlite3.connect(path)
        link.execute("create table mine (a)")
        link.commit()
        link.close()
    before = path.read_bytes()
    for act in (store.open, lambda: store.create(ABOUT, SCHEMA, {0: 0})):
        with pytest.raises(OccupiedTargetError):
            act()
    assert path.read_bytes() == before


def test_who_died_while_making_the_table_is_no_obstacle(store: IcebergStore) -> None:
    store.place.catalog_file.parent.mkdir()
    store.place.catalog_file.touch()
    metadata = store.place.folder / "metadata"
    metadata.mkdir(parents=True)
    (metadata / "00000-abc.metadata.json").write_text("{")
    assert store.open() is None
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    assert offsets_in(store) == [0]


def test_a_catalog_without_its_files_and_files_without_their_catalog(store: IcebergStore) -> None:
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    aside = store.place.folder.rename(store.place.folder.with_name("aside"))
    with pytest.raises(TableError, match="not where it says"):
        store.open()
    aside.rename(store.place.folder)
    store.place.catalog_file.unlink()
    with pytest.raises(OccupiedTargetError, match="no table that its catalog knows"):
        store.open()


def test_the_copy_of_a_table_does_not_touch_the_original(store: IcebergStore, tmp_path: Path) -> None:
    snapshot = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    append(snapshot, 1, 2)
    copied = IcebergStore(str(tmp_path / "copy" / "orders"))
    everything = 1 << 45  # a moment in the far future
    for work in (copied.open, copied.history, lambda: copied.at(0), lambda: copied.retain(everything, everything)):
        with pytest.raises(ForeignTableError, match=re.escape(f"its files in {store.place.folder}")):
            work()
    assert offsets_in(store) == [0, 1]


def test_a_table_through_a_link(store: IcebergStore, tmp_path: Path) -> None:
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 1)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    snapshot = IcebergStore(str(tmp_path / "link" / "orders")).open()
    assert snapshot is not None
    append(snapshot, 1, 2)
    assert offsets_in(store) == [0, 1]


@pytest.mark.parametrize("package", ["pyiceberg", "sqlalchemy"])
def test_without_its_packages(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("tailrace.spark.tables.iceberg")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(PipelineError, match=rf"{package}.*pip install 'tailrace\[tables\]'"):
        importlib.import_module("tailrace.spark.tables.iceberg.store")


def test_odd_places_and_names(tmp_path: Path) -> None:
    store = IcebergStore(f"file:{tmp_path}/a lake;ä/orders.v1 %20+é", {})
    schema = pa.schema([("_offset", pa.int64()), ("odd name.ä-1", pa.string())])
    snapshot = store.create(About("orders.v1", None, None, partition_by=("odd name.ä-1",)), schema, {0: 0})
    value = "a/b=c %ä?#"
    file = write_file(snapshot.target(), [{"_offset": 0, "odd name.ä-1": value}], {"odd name.ä-1": value})
    snapshot = snapshot.commit(Change("append", {0: 1}, [file]))
    assert snapshot.files()[0].partition == {"odd name.ä-1": value}
    assert snapshot.files()[0].path == file.path
    assert loaded(store).scan().to_arrow().to_pylist() == [{"_offset": 0, "odd name.ä-1": value}]
    snapshot = snapshot.commit(Change("compact", {0: 1}, [], snapshot.files()))
    assert snapshot.files() == []


@pytest.mark.parametrize(
    ("place", "catalog"),
    [
        ("s3://bucket/orders", None),
        ("/lake/what?", None),
        ("/lake/#1", None),
        ("/lake/or\nders", None),
        ("/la\tke/orders", None),
        ("/lake/orders\r", None),
        ("file:/lake/or\nders", None),
        ("file:/lake/or%0Aders", None),
        ("/", None),
        ("/lake/catalog.db", None),
        ("/lake/orders", {"identifier": "orders"}),
        ("/lake/orders", {"identifier": "sales..orders"}),
    ],
)
def test_places_that_cannot_be(place: str, catalog: dict[str, str] | None) -> None:
    with pytest.raises(OptionError):
        IcebergStore(place, catalog)


def test_another_catalog(tmp_path: Path) -> None:
    settings = {"catalog.uri": f"sqlite:///{tmp_path}/all.db", "name": "prod", "identifier": "sales.eu.orders"}
    store = IcebergStore(str(tmp_path / "lake" / "orders"), settings)
    assert store.name == "sales.eu.orders in the catalog prod"
    assert store.open() is None
    assert list(tmp_path.iterdir()) == []  # who only looks makes no database
    (tmp_path / "all.db").touch()
    assert store.open() is None
    assert (tmp_path / "all.db").stat().st_size == 0
    snapshot = append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 2)
    assert snapshot.target().root == str(tmp_path / "lake" / "orders" / "data")
    assert store.beside("_hidden").place.identifier == ("sales", "eu", "orders_hidden")
    assert store.beside("_hidden").place.folder == tmp_path / "lake" / "orders_hidden"
    assert not (tmp_path / "lake" / "catalog.db").exists()
    for settings in ({"catalog.uri": "nonsense"}, {"catalog.type": "no such"}):
        with pytest.raises(OptionError, match="cannot open the catalog"):
            IcebergStore(str(tmp_path / "orders"), settings).open()


def test_a_catalog_by_a_uri_of_sqlites_own(tmp_path: Path) -> None:
    store = IcebergStore(str(tmp_path / "lake" / "orders"), {"uri": f"sqlite:///file:{tmp_path}/all.db?uri=true"})
    assert store.open() is None
    append(store.create(ABOUT, SCHEMA, {0: 0}), 0, 2)
    found = store.open()
    assert found is not None
    assert found.offsets == {0: 2}


def test_a_catalog_of_the_environment_is_only_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__MINE__URI", f"sqlite:///{tmp_path}/all.db")
    store = IcebergStore(str(tmp_path / "lake" / "orders"), {"name": "mine", "uri": f"sqlite:///{tmp_path}/all.db"})
    assert store.open() is None
    named = IcebergStore(str(tmp_path / "lake" / "orders"), {"name": "mine"})
    assert existing_catalog(named.place) is None
    assert list(tmp_path.iterdir()) == []
