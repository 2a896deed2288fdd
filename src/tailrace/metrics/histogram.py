"""How often which value occurred, in buckets that are fixed, cheap enough for a request's path.

Up to 7 each value has a bucket of its own; from 8 on each power of two is cut into eight equal buckets, so a value is
known within an eighth of itself. Values from 2**36 on are counted in the last bucket. Recording allocates nothing: one
look into a table of bytes and an increment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_CUTS_BITS: Final = 3  # eight buckets to a power of two
_CUTS: Final = 1 << _CUTS_BITS
_TABLE_BITS: Final = 12
_LARGEST_BITS: Final = 36


def _bucket_of(value: int) -> int:
    if value < _CUTS:
        return value
    power = value.bit_length() - 1
    return ((power - _CUTS_BITS + 1) << _CUTS_BITS) + ((value >> (power - _CUTS_BITS)) & (_CUTS - 1))


BUCKETS: Final = _bucket_of((1 << _LARGEST_BITS) - 1) + 1
_TABLE: Final = bytes(_bucket_of(value) for value in range(1 << _TABLE_BITS))


class Histogram:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.total = 0

    def record(self, value: int) -> None:
        """`value` is not negative."""
        self.total += value
        if value < 4096:
            self.counts[_TABLE[value]] += 1
        else:
            self.counts[min(_bucket_of(value), BUCKETS - 1)] += 1

    def record_many(self, value: int, times: int) -> None:
        """The same value several times: the requests of one read take equally long."""
        self.total += value * times
        if value < 4096:
            self.counts[_TABLE[value]] += times
        else:
            self.counts[min(_bucket_of(value), BUCKETS - 1)] += times

    def add(self, other: Histogram) -> None:
        self.counts = [mine + more for mine, more in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


def bounds(bucket: int) -> tuple[int, int]:
    """The least value of the bucket, and the least one above it."""
    power, cut = divmod(bucket, _CUTS)
    if power == 0:
        return bucket, bucket + 1
    width = 1 << (power - 1)
    return (_CUTS + cut) * width, (_CUTS + cut + 1) * width


def quantile(counts: Sequence[int], share: float) -> float:
    """The value below which `share` of all values lie, as if those of a bucket were spread evenly; 0 for none."""
    wanted = share * sum(counts)
    seen = 0
    for bucket, count in enumerate(counts):
        if count and seen + count >= wanted:
            least, above = bounds(bucket)
            return least + (above - least) * (wanted - seen) / count if above - least > 1 else least
        seen += count
    return 0.0
