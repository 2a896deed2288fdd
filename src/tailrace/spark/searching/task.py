"""A piece of a partition searched where it is read: only what is found leaves the task, and of that only the best.

Everything is decoded by the kernels and compared column by column; a record becomes an object when it is found and not
before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.options.source import SourceOptions
from tailrace.spark.searching.found import Found
from tailrace.spark.searching.wish import Kept, Wish
from tailrace.spark.source import columns as names
from tailrace.spark.source.columns import Columns
from tailrace.spark.source.piece_reader import Piece, read_piece
from tailrace.spark.source.ranges import OffsetRange

READ_COLUMNS = Columns((*names.ALL, names.HEADERS))


@dataclass(frozen=True)
class PieceFound:
    kept: Kept
    total: int


def search_piece(options: SourceOptions, wish: Wish, piece: OffsetRange) -> PieceFound:
    """Runs in a task."""
    kept = Kept([])
    total = 0
    for records in read_piece(options, READ_COLUMNS, Piece(piece, wish.times)):
        matching = with_key(records, wish.key)
        total += matching.num_rows
        worst = wish.rank(kept.found[-1]) if len(kept.found) == wish.limit else kept.cut
        better = best_rows(matching, wish, None if worst is None else worst[0])
        if better.num_rows:
            kept = wish.kept([*kept.found, *found_in(better)], kept.cut)
    return PieceFound(kept, total)


def with_key(records: pa.RecordBatch, key: bytes | None) -> pa.RecordBatch:
    if key is None:
        return records
    return records.filter(pc.equal(records.column(names.KEY), pa.scalar(key, pa.binary())))


def best_rows(records: pa.RecordBatch, wish: Wish, worst: int | None) -> pa.RecordBatch:
    """Those that may be kept: not farther than the worst that is, and no more than the limit and what equals them."""
    if not records.num_rows:
        return records
    distances = wish.distances(times_ms(records))
    if len(distances) > wish.limit:
        limit = int(np.partition(distances, wish.limit - 1)[wish.limit - 1])
        worst = limit if worst is None else min(worst, limit)
    if worst is None:
        return records
    return records.filter(pa.array(distances <= worst))


def times_ms(records: pa.RecordBatch) -> np.ndarray:
    times: np.ndarray = records.column(names.TIMESTAMP).cast(pa.int64()).to_numpy()
    return times // 1_000


def found_in(records: pa.RecordBatch) -> Iterator[Found]:
    times = times_ms(records).tolist()
    kinds = records.column(names.TIMESTAMP_TYPE).to_pylist()
    offsets = records.column(names.OFFSET).to_pylist()
    keys = records.column(names.KEY).to_pylist()
    values = records.column(names.VALUE).to_pylist()
    headers = records.column(names.HEADERS).to_pylist()
    topic = records.column(names.TOPIC)[0].as_py()
    partition = records.column(names.PARTITION)[0].as_py()
    for place, offset in enumerate(offsets):
        yield Found(
            topic,
            partition,
            offset,
            times[place],
            kinds[place],
            keys[place],
            values[place],
            tuple((header["key"], header["value"]) for header in headers[place] or ()),
        )
