"""Files of a table: split by partition values and by size, whole and on disk before they are told of."""

from __future__ import annotations

import errno
import io
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from support.tables.tasks import files_in, rows_of, target_of
from tailrace.spark.errors import TableError
from tailrace.spark.tables.store import FileTarget
from tailrace.spark.tables.tasks import files
from tailrace.spark.tables.tasks.compact import compact_group
from tailrace.spark.tables.tasks.files import FileWriter, check_columns, row_groups

SCHEMA = pa.schema([("n", pa.int64()), ("city", pa.string())])


def batch(*rows: tuple[int, str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"n": n, "city": city} for n, city in rows], SCHEMA)


@pytest.fixture
def flat(tmp_path: Path) -> FileTarget:
    return target_of(tmp_path / "table", SCHEMA)


@pytest.fixture
def by_city(tmp_path: Path) -> FileTarget:
    return target_of(tmp_path / "table", SCHEMA, ("city",), holds=False, staging="_staging")


def test_rows_are_in_one_file_in_their_order(flat: FileTarget) -> None:
    with FileWriter(flat, "name") as writer:
        writer.write(batch((1, "a"), (2, None)))
        writer.write(batch())
        writer.write(batch((3, "b")))
        (file,) = writer.close()
    assert (file.path, dict(file.partition)) == ("name-00000.parquet", {})
    assert [row["n"] for row in rows_of(flat, [file])] == [1, 2, 3]
    assert file.footer is not None
    assert file.footer.num_row_groups == 1
    assert file.footer.row_group(0).column(0).statistics.max == 3
    assert file.footer.row_group(0).column(0).compression == "SNAPPY"


def test_without_rows_there_is_no_file(flat: FileTarget) -> None:
    with FileWriter(flat, "name") as writer:
        assert writer.close() == []


def test_each_partition_value_has_files_of_its_own(by_city: FileTarget) -> None:
    with FileWriter(by_city, "name") as writer:
        writer.write(batch((1, "a/b"), (2, None), (3, "")))
        writer.write(batch((4, "a/b"), (5, None)))
        found = writer.close()
    assert [(file.path, file.partition["city"]) for file in found] == [
        ("city=a%2Fb/name-00000.parquet", "a/b"),
        ("city=__HIVE_DEFAULT_PARTITION__/name-00001.parquet", None),
        ("city=__HIVE_DEFAULT_PARTITION__/name-00002.parquet", ""),
    ]
    assert [rows_of(by_city, [file]) for file in found] == [[{"n": 1}, {"n": 4}], [{"n": 2}, {"n": 5}], [{"n": 3}]]
    assert files_in(Path(by_city.root)) == sorted(file.path for file in found)  # none is left in staging


def test_partition_columns_stay_where_files_hold_them(tmp_path: Path) -> None:
    target = target_of(tmp_path, SCHEMA, ("city",))
    with FileWriter(target, "name") as writer:
        writer.write(batch((1, "a")))
        found = writer.close()
    assert rows_of(target, found) == [{"n": 1, "city": "a"}]


def test_files_get_about_as_large_as_asked(flat: FileTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "GROUP_BYTES", 4000)
    with FileWriter(flat, "name", codec="none", target_bytes=8000) as writer:
        for first in range(0, 3000, 100):
            writer.write(batch(*((n, "x") for n in range(first, first + 100))))
        found = writer.close()
    assert len(found) == 3
    assert all(7000 < file.size_bytes < 16000 for file in found[:-1])
    assert [row["n"] for row in rows_of(flat, found)] == list(range(3000))


def test_one_large_write_becomes_several_row_groups(flat: FileTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "GROUP_ROWS", 10)
    with FileWriter(flat, "name") as writer:
        writer.write(batch(*((n, "x") for n in range(35))))
        (file,) = writer.close()
    assert file.footer is not None
    assert file.footer.num_row_groups == 4
    assert pickle.loads(pickle.dumps(file)).footer.row_group(3).column(0).statistics.max == 34


def test_any_number_of_partition_values_fits_into_memory(by_city: FileTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WAITING_BYTES", 2000)
    monkeypatch.setattr(files, "MOST_OPEN", 3)
    with FileWriter(by_city, "name") as writer:
        for first in range(0, 1000, 100):
            writer.write(batch(*((n, f"city {n % 20}") for n in range(first, first + 100))))
            assert writer._waiting_bytes <= 2000
            assert sum(part.file is not None for part in writer._parts.values()) <= 3
        found = writer.close()
    for number in range(20):
        of_city = [file for file in found if file.partition["city"] == f"city {number}"]
        assert [row["n"] for row in rows_of(by_city, of_city)] == list(range(number, 1000, 20))


def test_what_is_not_closed_is_taken_away(by_city: FileTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "GROUP_ROWS", 1)

    def fail() -> None:
        with FileWriter(by_city, "name", target_bytes=1) as writer:
            writer.write(batch((1, "a"), (2, "b")))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert files_in(Path(by_city.root)) == []


def test_files_and_their_folders_are_synced(by_city: FileTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd)))
    with FileWriter(by_city, "name") as writer:
        writer.write(batch((1, "a")))
        writer.close()
    root = by_city.root
    assert synced == [f"{root}/_staging/name-00000.parquet", root, f"{root}/city=a"]


def assert_told_as_full(target: FileTarget) -> None:
    def write() -> None:
        with FileWriter(target, "name") as writer:
            writer.write(batch((1, "a")))
            writer.close()

    with pytest.raises(TableError, match=r"cannot be written: No space left on device"):
        write()


def test_a_full_disk_is_told(flat: FileTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "no")

    monkeypatch.setattr(os, "fsync", full)

    assert_told_as_full(flat)
    assert files_in(Path(flat.root)) == []


class FullAfter(io.BytesIO):
    """A file on a disk that has room for so many bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def write(self, data: Any) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, "no")
        return super().write(data)


@pytest.mark.parametrize("room", [10, 150])
def test_a_disk_that_is_full_before_a_file_is_whole_is_told(
    flat: FileTarget, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(pa, "OSFile", lambda path, mode: pa.PythonFile(FullAfter(room), mode))

    assert_told_as_full(flat)


def test_field_ids_are_in_the_files_nested_ones_too(tmp_path: Path) -> None:
    def with_id(name: str, type_: Any, number: int) -> pa.Field:
        return pa.field(name, type_, metadata={"PARQUET:field_id": str(number)})

    inner = pa.struct([with_id("k", pa.string(), 7)])
    schema = pa.schema([with_id("l", pa.list_(with_id("element", inner, 3)), 2)])
    target = target_of(tmp_path, schema)
    with FileWriter(target, "name") as writer:
        writer.write(pa.RecordBatch.from_pylist([{"l": [{"k": "x"}]}]))
        (file,) = writer.close()
    found = pq.ParquetFile(tmp_path / file.path).schema_arrow.field(0)
    assert found.metadata[b"PARQUET:field_id"] == b"2"
    assert found.type.value_field.metadata[b"PARQUET:field_id"] == b"3"
    assert found.type.value_type.field(0).metadata[b"PARQUET:field_id"] == b"7"


# Files that are there already


def test_small_files_become_one_with_the_columns_of_today(flat: FileTarget) -> None:
    written = []
    for number in range(3):
        with FileWriter(flat, f"small-{number}") as writer:
            writer.write(batch((number, "a")))
            written += writer.close()
    today = target_of(Path(flat.root), pa.schema([*SCHEMA, pa.field("more", pa.int32())]))
    (file,) = compact_group(today, "zstd", 1 << 20, written)
    assert rows_of(today, [file]) == [{"n": n, "city": "a", "more": None} for n in range(3)]


def test_files_of_several_partition_values_are_not_mixed(by_city: FileTarget) -> None:
    with FileWriter(by_city, "name") as writer:
        writer.write(batch((1, "a"), (2, "b")))
        found = writer.close()
    with pytest.raises(TableError, match="several partition values"):
        compact_group(by_city, "snappy", 1 << 20, found)


def test_a_file_that_is_gone_or_damaged_is_named(flat: FileTarget) -> None:
    with FileWriter(flat, "name") as writer:
        writer.write(batch((1, "a")))
        found = writer.close()
    place = Path(flat.root) / found[0].path
    place.write_bytes(place.read_bytes()[:-9])
    with pytest.raises(TableError, match=r"name-00000.parquet cannot be read"):
        list(row_groups(flat, found, SCHEMA))
    place.unlink()
    with pytest.raises(TableError, match=r"name-00000.parquet is in the table, and is not there"):
        list(row_groups(flat, found, SCHEMA))


def test_a_column_without_a_place_is_refused(by_city: FileTarget) -> None:
    check_columns(["n", "city"], by_city)
    with pytest.raises(TableError, match="has no column more"):
        check_columns(["n", "more"], by_city)
