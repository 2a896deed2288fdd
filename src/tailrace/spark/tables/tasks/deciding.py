"""Which record of a key is its row.

Records of a key in one partition: the one with the highest offset counts. Of those that count in several partitions the
one with the greatest (timestamp, partition, offset) is the row, unless it is a tombstone: then the key has none. All
others that count are hidden rows. They decide again when the record that went before them is superseded by one that is
older than they are.

The answer is the same whatever the order in which records come, and when some of them come again. A row that somebody
else put into the table, without partition, offset and time, is older than all records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace.spark.tables import columns as names

_FOREIGN: Final = -1
_OLDEST: Final = -(1 << 63)


@dataclass(frozen=True)
class Decision:
    """About all keys of a batch in one bucket."""

    visible: pa.Table
    """The rows of keys that have one. Sorted by partition and offset, as `hidden` is."""
    hidden: pa.Table
    """All hidden rows of these keys, from now on."""
    upserted: int
    """Rows in `visible` that the table does not have yet."""
    deleted: int
    """Keys that have a row in the table and none in `visible`."""
    changes_main: bool
    changes_hidden: bool


def decide(main: pa.Table, hidden: pa.Table, batch: pa.Table) -> Decision:
    """`main` and `hidden` are what the two tables have of the keys in `batch`; all three have the same columns.

    A row that is to be seen and is a hidden one so far stays among those too: they are committed first, and the table
    does not have it before its own commit. The next decision about its key drops it.
    """
    rows = pa.concat_tables([main, hidden, batch])
    records = _Records(rows, main.num_rows, hidden.num_rows)
    counts = records.last_of((records.key, records.partition))
    seen = records.winners(counts) & ~records.is_deleted
    kept = (counts & ~seen) | (seen & records.in_hidden & ~records.in_main)
    had_row, has_row = records.keys_of(records.in_main), records.keys_of(seen)
    return Decision(
        visible=records.taken(rows, seen),
        hidden=records.taken(rows, kept),
        upserted=int(np.count_nonzero(seen & ~records.in_main)),
        deleted=int(np.count_nonzero(had_row & ~has_row)),
        changes_main=bool(np.any(seen != records.in_main)),
        changes_hidden=bool(np.any(kept != records.in_hidden)),
    )


class _Records:
    """Every record once, sorted by key, partition and offset. Keys are numbers here."""

    def __init__(self, rows: pa.Table, main: int, hidden: int) -> None:
        key = _numbered(rows.column(names.KEY))
        partition = rows.column(names.PARTITION).fill_null(_FOREIGN).to_numpy()
        offset = rows.column(names.OFFSET).fill_null(_FOREIGN).to_numpy()
        order = np.lexsort((offset, partition, key))
        starts = _starts((key[order], partition[order], offset[order]))
        # Of one that is there several times the last is taken: lexsort keeps them in the order of the tables.
        self.row = order[np.append(starts[1:], len(order)) - 1] if len(order) else order
        self.key, self.partition, self.offset = key[self.row], partition[self.row], offset[self.row]
        self.timestamp = rows.column(names.TIMESTAMP).cast(pa.int64()).fill_null(_OLDEST).to_numpy()[self.row]
        self.is_deleted = rows.column(names.DELETED).to_numpy(zero_copy_only=False).astype(bool)[self.row]
        self.in_main = _any_in(order < main, starts)
        self.in_hidden = _any_in((order >= main) & (order < main + hidden), starts)

    def keys_of(self, mask: np.ndarray) -> np.ndarray:
        """A mask of keys: those of the records."""
        found = np.zeros(int(self.key[-1]) + 1 if len(self.key) else 0, bool)
        found[self.key[mask]] = True
        return found

    def last_of(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """A mask of records: those behind which one with other values in these columns comes."""
        mask = np.zeros(len(self.row), bool)
        if len(mask):
            mask[np.append(_starts(columns)[1:], len(mask)) - 1] = True
        return mask

    def winners(self, counting: np.ndarray) -> np.ndarray:
        """A mask of records: of each key, which of the counting ones goes before all others."""
        among = np.flatnonzero(counting)
        columns = (self.offset[among], self.partition[among], self.timestamp[among], self.key[among])
        among = among[np.lexsort(columns)]
        mask = np.zeros(len(self.row), bool)
        if len(among):
            last = np.append(_starts((self.key[among],))[1:], len(among)) - 1
            mask[among[last]] = True
        return mask

    def taken(self, rows: pa.Table, mask: np.ndarray) -> pa.Table:
        chosen = np.flatnonzero(mask)
        chosen = chosen[np.lexsort((self.offset[chosen], self.partition[chosen]))]
        return rows.take(pa.array(self.row[chosen]))


def newest_of_piece(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Of rows of one partition, in the order of offsets: the last of each key."""
    key = _numbered(rows.column(names.KEY))
    last = np.zeros(int(key.max()) + 1 if len(key) else 0, np.int64)
    last[key] = np.arange(len(key))  # where a place is named several times, the last one stays
    return rows if len(last) == len(key) else rows.take(pa.array(np.sort(last)))


def _numbered(keys: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A number for each key, from 0 on."""
    encoded = keys.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries()
        indices = [chunk.indices.to_numpy() for chunk in encoded.chunks]
        return np.concatenate(indices) if indices else np.zeros(0, np.int32)
    numbers: np.ndarray = encoded.indices.to_numpy()
    return numbers


def _starts(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Where a run of equal values begins."""
    size = len(columns[0])
    if not size:
        return np.zeros(0, np.int64)
    differs = np.zeros(size - 1, bool)
    for column in columns:
        differs |= column[1:] != column[:-1]
    return np.flatnonzero(np.append(True, differs))


def _any_in(mask: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.logical_or.reduceat(mask, starts) if len(starts) else np.zeros(0, bool)
