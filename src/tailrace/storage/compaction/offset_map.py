"""The greatest offset of each key of the dirty part of a log, in 24 bytes a key whatever its size.

Slot: digest of the key (16 bytes), offset (int64). The table has open addressing and no deletes; see the kernel of the
same name for empty slots and the order of probing. It is in memory only.

Why a digest may stand for the key. Two keys with the same digest would be taken for one, and a live record would go.
The digest is SipHash-2-4 with 128 bits under a secret of 128 random bits, drawn anew for each pass and never shown:
as far as is known nobody without the secret does better than chance at finding keys that collide, however the keys
are chosen. (An MD5 of the key, by contrast, collides at will.) By chance, n keys collide with a probability below
n² / 2¹²⁹. The largest table, 2 GiB, has less than 2²⁷ keys: 2⁻⁷⁵. Of 2⁴⁰ records looked up in it, one is taken for
another key's with a probability below 2⁴⁰ · 2²⁷ / 2¹²⁸ = 2⁻⁶¹. A disk misreads sooner.

One thread at a time uses a map.
"""

from __future__ import annotations

import random
from array import array
from typing import Final

from tailrace.env import Buffer
from tailrace.model.invariant import invariant
from tailrace.record import kernels

SLOT_BYTES: Final = 24
GREATEST_MEMORY_BYTES: Final = 2**31 - 1
LOAD_FACTOR: Final = 0.9
NOT_FOUND: Final = -1


def memory_per_thread(dedupe_buffer_bytes: int, threads: int) -> int:
    """What `log.cleaner.dedupe.buffer.size` gives each cleaner thread's map."""
    return min(dedupe_buffer_bytes // threads, GREATEST_MEMORY_BYTES)


class OffsetMap:
    """Fill it with `put` or `put_rows` until `is_full`; ask with `get` or `keep_rows`; `clear` it before the next log.

    `latest_offset`: everything up to it, from where the dirty part begins, is in the map.
    """

    __slots__ = ("_dice", "_secret", "_table", "entries", "latest_offset", "limit", "slots")

    def __init__(self, memory_bytes: int, dice: random.Random, load_factor: float = LOAD_FACTOR) -> None:
        """`dice` must be seeded with what nobody else knows, outside of tests."""
        self.slots = memory_bytes // SLOT_BYTES
        self.limit = int(self.slots * load_factor)
        invariant(
            1 <= self.limit <= self.slots,
            f"an offset map of {memory_bytes} bytes, filled up to {load_factor}, must have room for a key",
        )
        self._dice = dice
        self.clear()

    def clear(self) -> None:
        """Forget every key, and draw another secret."""
        self._table: memoryview = memoryview(b"")  # the old table goes before the new one comes
        self._table = memoryview(bytearray(SLOT_BYTES * self.slots)).cast("Q")
        self._secret = (self._dice.getrandbits(64), self._dice.getrandbits(64))
        self.entries = 0
        self.latest_offset = NOT_FOUND

    @property
    def is_full(self) -> bool:
        """Up to the load factor: beyond it a search takes ever longer."""
        return self.entries >= self.limit

    @property
    def utilization(self) -> float:
        return self.entries / self.slots

    def put(self, key: Buffer, offset: int) -> None:
        """The load factor does not stop this; a map without an empty slot does."""
        invariant(self.entries < self.slots, f"a key for a map whose {self.slots} slots are taken")
        row = array("q", (offset, 0, 0, len(key), 0, 0, 0, 0))
        _, self.entries, _ = kernels.put_rows(self._table, self.entries, self.slots, *self._secret, key, row, 1, 0)
        self.mapped_to(offset)

    def put_rows(self, buffer: Buffer, rows: array[int], count: int, from_offset: int) -> bool:
        """Enter the keys of records that were walked in `buffer`, from `from_offset` on; False when the map got full.

        `latest_offset` is then that of the last record entered.
        """
        taken, self.entries, last_put = kernels.put_rows(
            self._table, self.entries, self.limit, *self._secret, buffer, rows, count, from_offset
        )
        self.mapped_to(last_put)
        return taken == count

    def mapped_to(self, offset: int) -> None:
        """Everything up to `offset` is in the map, as far as it has a key that counts."""
        self.latest_offset = max(self.latest_offset, offset)

    def get(self, key: Buffer) -> int:
        """The greatest offset put for the key, or NOT_FOUND."""
        return kernels.find(self._table, *self._secret, key)

    def keep_rows(
        self, buffer: Buffer, rows: array[int], count: int, kept: bytearray, kept_at: int, *, keeps_tombstones: bool
    ) -> int:
        """Mark in `kept` which of the walked records stay; returns how many go because they have no key.

        See the kernel for the marks and the rule.
        """
        return kernels.keep_rows(
            self._table,
            *self._secret,
            self.latest_offset,
            keeps_tombstones,
            buffer,
            rows,
            count,
            kept,
            kept_at,
        )
