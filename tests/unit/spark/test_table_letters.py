"""A death between the dead letters and the table, after which values are read in another way."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tables.harness import COMBINATIONS, TableRig
from support.tables.model import Record
from support.tables.readers import dead_letters_at, rows_at
from tailrace.spark.tables.delta.snapshot import DeltaSnapshot
from tailrace.spark.tables.iceberg.snapshot import IcebergSnapshot
from tailrace.spark.tables.parquet.store import ParquetSnapshot
from tailrace.spark.tables.store import ROWS, Change, Snapshot

STRICT, LOOSE = "a BIGINT NOT NULL, b BIGINT", "a BIGINT, b BIGINT"
VALUES = (b'{"a": 1}', b'{"b": 2}', b"{", b'{"a": 3}')


class DiedError(Exception):
    pass


def _dies_before_the_table(patch: pytest.MonkeyPatch) -> None:
    for kind in (DeltaSnapshot, IcebergSnapshot, ParquetSnapshot):
        real = kind.commit

        def commit(snapshot: Snapshot, change: Change, real: object = real) -> Snapshot:
            if snapshot.about.role == ROWS:
                raise DiedError
            assert callable(real)
            committed: Snapshot = real(snapshot, change)
            return committed

        patch.setattr(kind, "commit", commit)


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [(STRICT, LOOSE, [0, 3]), (LOOSE, STRICT, [0, 3]), (LOOSE, LOOSE, [0, 1, 3])],
)
@pytest.mark.parametrize(("kind", "mode"), COMBINATIONS)
def test_each_record_is_a_row_or_has_one_letter(
    kind: str, mode: str, before: str, after: str, rows: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = TableRig(tmp_path, kind, mode)
    rig._write(0, [Record(0, n, 1000 + n, b"k%d" % n, value) for n, value in enumerate(VALUES)])
    with monkeypatch.context() as patch:
        _dies_before_the_table(patch)
        with pytest.raises(DiedError):
            rig.run(schema=before)
    assert list(rows_at(kind, rig.place)) == []
    assert list(dead_letters_at(kind, rig.place))
    rig.run(schema=after)
    letters = [each["_offset"] for each in dead_letters_at(kind, rig.place)]
    assert sorted(each["_offset"] for each in rows_at(kind, rig.place)) == rows
    assert sorted(letters) == [n for n in range(len(VALUES)) if n not in rows]
