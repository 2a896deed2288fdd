"""The entries of an index file as columns of numbers, in the order of the file, a few thousand at a time.

    .index      relative offset int32, position int32
    .timeindex  timestamp int64, relative offset int32
    .txnindex   version int16, producer id, first offset, last offset, last stable offset int64

A slot of zeros is the end, as in `storage.index_entries`, which has the same entries one by one.

An entry that does not fit between its neighbours is **out of place**: where all would ascend without it, it is that one
and no other. It is told by the piece that begins a segment and left out by all. Where nobody can say which of two is
wrong, both stay: the log tells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tailrace.env import File
from tailrace.spark.auditing.task.block import Numbers
from tailrace.storage.index_entries import OFFSET_ENTRY, TIME_ENTRY, TXN_ENTRY

Flags = npt.NDArray[np.bool_]

ENTRIES_PER_READ: Final = 8192
_NEIGHBOURS: Final = 2
"""On either side: what is needed to say which entry is out of place."""


class Entries(NamedTuple):
    """Some that follow each other in a file, offsets absolute."""

    number: Numbers
    """Of the slot."""
    columns: tuple[Numbers, ...]

    def __len__(self) -> int:
        return len(self.number)

    def where(self, chosen: Flags | slice) -> Entries:
        return Entries(self.number[chosen], tuple(column[chosen] for column in self.columns))

    def at(self, place: int) -> tuple[int, ...]:
        return tuple(int(column[place]) for column in self.columns)


class IndexLayout(ABC):
    """How entries of one kind stand in their file, and what must be true of them whatever the log holds."""

    entry: Struct
    dtype: np.dtype[np.void]
    key: int
    """The column that says which batch an entry is about."""

    @property
    def size(self) -> int:
        return self.entry.size

    @abstractmethod
    def columns(self, raw: npt.NDArray[np.void], base_offset: int) -> tuple[Numbers, ...]: ...

    @abstractmethod
    def ascends(self, before: tuple[Numbers, ...], behind: tuple[Numbers, ...]) -> Flags:
        """Of two runs of entries that are as long: whether each of `behind` may stand behind that of `before`."""

    @abstractmethod
    def impossible(self, columns: tuple[Numbers, ...], base_offset: int) -> Flags: ...

    @abstractmethod
    def shown(self, fields: tuple[int, ...]) -> str: ...


class OffsetLayout(IndexLayout):
    """Offset and position."""

    entry = OFFSET_ENTRY
    dtype = np.dtype([("offset", ">i4"), ("position", ">i4")])
    key = 1

    def columns(self, raw: npt.NDArray[np.void], base_offset: int) -> tuple[Numbers, ...]:
        return raw["offset"].astype(np.int64) + base_offset, raw["position"].astype(np.int64)

    def ascends(self, before: tuple[Numbers, ...], behind: tuple[Numbers, ...]) -> Flags:
        return (before[0] < behind[0]) & (before[1] < behind[1])

    def impossible(self, columns: tuple[Numbers, ...], base_offset: int) -> Flags:
        return (columns[0] < base_offset) | (columns[1] < 0)

    def shown(self, fields: tuple[int, ...]) -> str:
        return f"entry says offset {fields[0]} at position {fields[1]}"


class TimeLayout(IndexLayout):
    """Timestamp and offset."""

    entry = TIME_ENTRY
    dtype = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
    key = 1

    def columns(self, raw: npt.NDArray[np.void], base_offset: int) -> tuple[Numbers, ...]:
        return raw["timestamp"].astype(np.int64), raw["offset"].astype(np.int64) + base_offset

    def ascends(self, before: tuple[Numbers, ...], behind: tuple[Numbers, ...]) -> Flags:
        return (before[0] < behind[0]) & (before[1] <= behind[1])

    def impossible(self, columns: tuple[Numbers, ...], base_offset: int) -> Flags:
        return (columns[0] < 0) | (columns[1] < base_offset)

    def shown(self, fields: tuple[int, ...]) -> str:
        return f"entry says timestamp {fields[0]} at offset {fields[1]}"


class TransactionLayout(IndexLayout):
    """Version, producer id, first offset, last offset, last stable offset."""

    entry = TXN_ENTRY
    dtype = np.dtype([("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")])
    key = 3

    def columns(self, raw: npt.NDArray[np.void], base_offset: int) -> tuple[Numbers, ...]:
        del base_offset  # its offsets are absolute
        return tuple(raw[name].astype(np.int64) for name in ("version", "producer", "first", "last", "stable"))

    def ascends(self, before: tuple[Numbers, ...], behind: tuple[Numbers, ...]) -> Flags:
        return before[3] < behind[3]

    def impossible(self, columns: tuple[Numbers, ...], base_offset: int) -> Flags:
        version, producer, first, last, stable = columns
        of_log = (first < 0) | (first > last) | (last < base_offset) | (stable < 0)
        found: Flags = (version != 0) | (producer < 0) | of_log
        return found

    def shown(self, fields: tuple[int, ...]) -> str:
        if fields[0]:
            return f"entry of the unknown version {fields[0]}"
        return (
            f"entry says that producer {fields[1]} aborted at offset {fields[3]} what began at {fields[2]}, "
            f"with the last stable offset {fields[4]}"
        )


class Placed(NamedTuple):
    """Entries, and which of them are out of place or impossible."""

    entries: Entries
    out_of_place: Flags
    impossible: Flags
    is_last: bool
    """There are no more behind them."""


class IndexFile:
    """Entries of one file by their numbers. Bytes are read when they are asked for; a file may shrink meanwhile."""

    def __init__(self, file: File, layout: IndexLayout, base_offset: int) -> None:
        self.file = file
        self.layout = layout
        self._base_offset = base_offset
        self.size = file.size()
        """When it was opened. What is added later is not looked at."""
        self.slots = self.size // layout.size

    def read(self, number: int, count: int) -> tuple[Entries, bool]:
        """Up to `count` entries from slot `number` on, and whether a slot of zeros or the end of the file follows."""
        count = min(count, self.slots - number)
        size = self.layout.size
        data = self.file.read_at(count * size, number * size) if count > 0 else b""
        whole = len(data) // size
        raw = np.frombuffer(data, np.uint8, whole * size).reshape(whole, size)
        empty = np.flatnonzero(~raw.any(axis=1))
        if number == 0 and isinstance(self.layout, TimeLayout):
            empty = empty[empty > 0]  # it may truly say timestamp 0 at the base offset
        filled = int(empty[0]) if len(empty) else whole
        structured = np.frombuffer(data, self.layout.dtype, filled)
        numbers = np.arange(number, number + filled, dtype=np.int64)
        is_end = filled < whole or number + filled >= self.slots or whole < count
        return Entries(numbers, self.layout.columns(structured, self._base_offset)), is_end

    def placed(self, number: int, count: int) -> Placed:
        """Up to `count` entries from slot `number` on."""
        before = min(number, _NEIGHBOURS)
        found, is_end = self.read(number - before, before + count + _NEIGHBOURS)
        inner = slice(before, before + count)
        is_last = is_end and len(found) <= before + count
        entries = found.where(inner)
        return Placed(
            entries,
            self._out_of_place(found.columns)[inner],
            self.layout.impossible(entries.columns, self._base_offset),
            is_last,
        )

    def all(self) -> Iterator[Placed]:
        number = 0
        while True:
            placed = self.placed(number, ENTRIES_PER_READ)
            yield placed
            number += len(placed.entries)
            if placed.is_last or not len(placed.entries):
                return

    def first_from(self, key: int) -> int:
        """The slot of the first entry whose key is at least `key`, if all ascend."""
        low, high = 0, self.slots
        while low < high:
            middle = (low + high) // 2
            found, _ = self.read(middle, 1)
            if len(found) and int(found.columns[self.layout.key][0]) < key:
                low = middle + 1
            else:
                high = middle
        return low

    def _out_of_place(self, columns: tuple[Numbers, ...]) -> Flags:
        """Those without which their neighbours would ascend; where no single one is to blame, the later one."""
        count = len(columns[0])
        found = np.zeros(count, np.bool_)
        if count < 2:
            return found
        falls = ~self._ascends(columns, 1)
        if not falls.any():
            return found
        skipping = self._ascends(columns, 2) if count > 2 else np.zeros(0, np.bool_)
        fits_without_first = np.concatenate(([True], skipping))
        fits_without_second = np.concatenate((skipping, [False]))
        found[:-1] |= falls & fits_without_first & ~fits_without_second
        found[1:] |= falls & ~fits_without_first
        keys = columns[self.layout.key]
        if falls[-1] and keys[-1] == keys[-2]:  # said twice: nothing behind them tells, and the later one is too many
            found[-2:] = False, True
        return found

    def _ascends(self, columns: tuple[Numbers, ...], step: int) -> Flags:
        before = tuple(column[:-step] for column in columns)
        behind = tuple(column[step:] for column in columns)
        return self.layout.ascends(before, behind)


class EntryCursor:
    """Goes through those entries that are in their place, once, beside a walk over the log."""

    def __init__(self, index: IndexFile) -> None:
        self._index = index
        self._next_slot = 0
        self._is_over = False
        self._held, _ = index.read(0, 0)
        self._is_sorted = True  # as they are wherever nothing is wrong
        self.left_out: list[tuple[int, ...]] = []
        """The fields of entries that are not in their place, at most ENTRIES_PER_READ of them."""

    def seek(self, key: int) -> None:
        """Begin with the first entry whose key is at least `key`. Only before anything else."""
        self._next_slot = self._index.first_from(key)

    def below(self, limit: int) -> Entries:
        """Those that come next, up to the first whose key is `limit` or more; a few thousand at most."""
        self._fill()
        keys = self._held.columns[self._index.layout.key]
        if self._is_sorted:
            count = int(np.searchsorted(keys, limit))
        else:
            above = np.flatnonzero(keys >= limit)
            count = int(above[0]) if len(above) else len(keys)
        return self._held.where(slice(0, count))

    def take(self, count: int) -> None:
        """They are done with."""
        self._held = self._held.where(slice(count, None))

    def following_key(self, count: int) -> int | None:
        """The key of the entry behind the next `count`, None without one."""
        keys = self._held.columns[self._index.layout.key]
        return int(keys[count]) if count < len(keys) else None

    def _fill(self) -> None:
        """Always have more than are asked for, so that a run of them has one that follows."""
        while not self._is_over and len(self._held) < ENTRIES_PER_READ:
            placed = self._index.placed(self._next_slot, ENTRIES_PER_READ)
            self._next_slot += len(placed.entries)
            self._is_over = placed.is_last or not len(placed.entries)
            odd = placed.out_of_place | placed.impossible
            if odd.any():
                self._leave_out(placed.entries.where(odd))
            kept = placed.entries.where(~odd) if odd.any() else placed.entries
            self._held = kept if not len(self._held) else _joined(self._held, kept)
            self._is_sorted = bool((np.diff(self._held.columns[self._index.layout.key]) >= 0).all())

    def _leave_out(self, entries: Entries) -> None:
        room = ENTRIES_PER_READ - len(self.left_out)
        self.left_out.extend(entries.at(place) for place in range(min(len(entries), room)))


def _joined(first: Entries, second: Entries) -> Entries:
    columns = zip(first.columns, second.columns, strict=True)
    return Entries(
        np.concatenate((first.number, second.number)),
        tuple(np.concatenate(pair) for pair in columns),
    )
