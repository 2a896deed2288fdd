"""Rows on their way to the task of their bucket."""

from __future__ import annotations

import pyarrow as pa

from tailrace.spark.tables import columns
from tailrace.spark.tables.tasks.buckets import PART_BYTES, bucket_of, by_bucket, unpacked

SCHEMA = pa.schema([(columns.KEY, pa.binary()), ("n", pa.int64()), ("text", pa.string())])


def _rows(keys: list[bytes], text: str) -> pa.RecordBatch:
    numbers = list(range(len(keys)))
    return pa.RecordBatch.from_pydict({columns.KEY: keys, "n": numbers, "text": [text] * len(keys)}, SCHEMA)


def test_each_row_comes_to_its_bucket_in_order() -> None:
    keys = [b"key-%d" % (number % 70) for number in range(500)]
    found: dict[int, list[bytes]] = {}
    for bucket, part in by_bucket(_rows(keys, "x"), 8):
        found.setdefault(bucket, []).append(part)
    assert set(found) == {bucket_of(key, 8) for key in keys}
    for bucket, parts in found.items():
        assert len(parts) == 1
        wanted = [number for number, key in enumerate(keys) if bucket_of(key, 8) == bucket]
        assert unpacked(parts, SCHEMA).column("n").to_pylist() == wanted


def test_a_bucket_that_has_all_rows_comes_in_small_parts() -> None:
    rows = _rows([b"one"] * 5000, "t" * 2000)
    parts = [part for _, part in by_bucket(rows, 32)]
    assert len(parts) == 10
    assert max(map(len, parts)) < 1.1 * PART_BYTES
    assert unpacked(parts, SCHEMA).to_batches() == [rows]


def test_a_row_is_a_part_however_large_it_is() -> None:
    rows = _rows([b"one", b"one"], "t" * (2 * PART_BYTES))
    parts = [part for _, part in by_bucket(rows, 32)]
    assert len(parts) == 2
    assert unpacked(parts, SCHEMA).column("n").to_pylist() == [0, 1]
    assert list(by_bucket(rows.slice(0, 0), 32)) == []
