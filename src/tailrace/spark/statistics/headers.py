"""Headers of records by name. Names of pieces add up, as far as there is room for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.statistics.sizes import Numbers, lengths
from tailrace.spark.statistics.topic_stats import HeaderName, HeaderStats

MOST_NAMES: Final = 1000
MOST_LISTED: Final = 100
MOST_NAME_CHARACTERS: Final = 200

_VARINT_BOUNDS: Final = np.array([1 << 6, 1 << 13, 1 << 20, 1 << 27])


@dataclass
class Headers:
    records: int = 0
    count: int = 0
    bytes: int = 0
    names: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Records, count, bytes. Those that come when there are MOST_NAMES already are only counted in all."""
    is_full: bool = False

    def add(self, headers: pa.ListArray) -> tuple[Numbers, Numbers]:
        """Those of some records; gives how many bytes each has of them: of names and values, and with their lengths."""
        sizes = np.zeros(len(headers), np.int64)
        framed = np.zeros(len(headers), np.int64)
        if headers.null_count == len(headers):
            return sizes, framed
        of_record = pc.list_parent_indices(headers).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = pc.list_flatten(headers)
        if not len(flat):
            return sizes, framed
        names, values = flat.field("key"), flat.field("value")
        name_sizes, value_sizes = lengths(names.cast(pa.binary()), of_null=0), lengths(values, of_null=0)
        own = name_sizes + value_sizes
        np.add.at(sizes, of_record, own)
        np.add.at(framed, of_record, own + _varint_bytes(name_sizes) + _varint_bytes(value_sizes))
        self.records += len(np.unique(of_record))
        self.count += len(flat)
        self.bytes += int(own.sum())
        self._add_names(names, of_record, own)
        return sizes, framed

    def _add_names(self, names: pa.StringArray, of_record: Numbers, sizes: Numbers) -> None:
        encoded = names.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        known = len(encoded.dictionary)
        counts = np.bincount(codes, minlength=known)
        bytes_ = np.zeros(known, np.int64)
        np.add.at(bytes_, codes, sizes)
        once = np.unique(of_record * known + codes) % known
        records = np.bincount(once, minlength=known)
        for code in np.argsort(-bytes_, kind="stable")[:MOST_NAMES].tolist():
            name = encoded.dictionary[code].as_py()[:MOST_NAME_CHARACTERS]
            self._put(name, int(records[code]), int(counts[code]), int(bytes_[code]))
        self.is_full |= known > MOST_NAMES

    def _put(self, name: str, records: int, count: int, bytes_: int) -> None:
        if name not in self.names and len(self.names) >= MOST_NAMES:
            self.is_full = True
            return
        before = self.names.get(name, (0, 0, 0))
        self.names[name] = before[0] + records, before[1] + count, before[2] + bytes_

    def take(self, other: Headers) -> None:
        self.records += other.records
        self.count += other.count
        self.bytes += other.bytes
        self.is_full |= other.is_full
        for name, sums in other.names.items():
            self._put(name, *sums)

    def stats(self) -> HeaderStats:
        listed = sorted(self.names.items(), key=lambda each: (-each[1][2], each[0]))
        return HeaderStats(
            records=self.records,
            count=self.count,
            bytes=self.bytes,
            names=tuple(HeaderName(name, *sums) for name, sums in listed[:MOST_LISTED]),
            other_names=max(len(listed) - MOST_LISTED, 0),
            has_more_names=self.is_full,
        )


def _varint_bytes(lengths: Numbers) -> Numbers:
    """What a length takes before the bytes."""
    return np.searchsorted(_VARINT_BOUNDS, lengths, side="right") + 1
