"""In which bucket a key is: the CRC-32 (zlib) of its bytes, modulo how many there are. For good, once a table is made.

Rows go to the task of their bucket as bytes: Arrow's stream format.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace.spark.tables import columns as names

PART_BYTES: Final = 1 << 20
"""Spark's Python side keeps hundreds of parts, whatever their size, before it writes them. With all keys of a piece in
one bucket, parts as large as they come would be all of it in memory, and more than 2 GiB in one write."""


def bucket_of(key: bytes, buckets: int) -> int:
    return zlib.crc32(key) % buckets


def by_bucket(rows: pa.RecordBatch, buckets: int) -> Iterator[tuple[int, bytes]]:
    """The rows of each bucket that has some, in parts of about `PART_BYTES` at most."""
    if not rows.num_rows:
        return
    keys = rows.column(names.KEY).cast(pa.binary()).to_pylist()
    numbers = np.fromiter(map(zlib.crc32, keys), np.uint32, len(keys)) % np.uint32(buckets)
    # Numbers of 16 bits are sorted by their digits.
    order = np.argsort(numbers.astype(np.uint16) if buckets <= 1 << 16 else numbers, kind="stable")
    in_order = rows.take(pa.array(order))
    found, starts, counts = np.unique(numbers[order], return_index=True, return_counts=True)
    for bucket, start, count in zip(found.tolist(), starts.tolist(), counts.tolist(), strict=True):
        for some in _parts(in_order.slice(start, count)):
            yield bucket, packed(some)


def _parts(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    each = max(rows.num_rows * PART_BYTES // max(rows.nbytes, 1), 1)
    for start in range(0, rows.num_rows, each):
        yield rows.slice(start, each)


def packed(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked(parts: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    tables = [pa.ipc.open_stream(part).read_all() for part in parts]
    return pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
