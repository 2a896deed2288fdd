"""Which partition a record goes to, as Kafka's own clients choose: the same key to the same partition everywhere.

A key's partition is murmur2 of its bytes without the sign bit, modulo the number of partitions. Records without a key
stay with one partition until its batch is full, and then go on with another one by chance: large batches, even load.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFF_FFFF
_SHORT_BYTES: Final = 64


def murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2, 32 bits, with the seed that Kafka uses; unsigned."""
    state = _SEED ^ len(data)
    whole = len(data) & ~3
    for each in struct.unpack_from(f"<{whole // 4}I", data):
        word = each * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR & _MASK
        state = state * _FACTOR & _MASK ^ word
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    state = (state ^ state >> 13) * _FACTOR & _MASK
    return state ^ state >> 15


def partition_of_key(key: bytes, partitions: int) -> int:
    state = _murmur2_of_short(key) if len(key) <= _SHORT_BYTES else murmur2(key)
    return (state & 0x7FFF_FFFF) % partitions


_murmur2_of_short: Final = lru_cache(maxsize=1 << 16)(murmur2)  # the same keys come again and again


class Sticky:
    """Of one topic: where records without a key go now. `available` tells the partitions that have a leader."""

    def __init__(self, choose: Callable[[Sequence[int]], int] = random.choice) -> None:
        self._choose = choose
        self._current: int | None = None

    def partition(self, available: Callable[[], Sequence[int]]) -> int:
        """The same until `move_on`."""
        if self._current is None:
            self._current = self._choose(available())
        return self._current

    def move_on(self, available: Callable[[], Sequence[int]]) -> None:
        """To another one, where there is another."""
        others = [each for each in available() if each != self._current]
        self._current = self._choose(others) if others else self._current
