"""The greatest offset of each key of the dirty part of a log, in 24 bytes a key whatever its size.

Slot: digest of the key (16 bytes), offset (int64). The table has open addressing and no deletes; see the kernel of the
same name for empty slots and the order of probing. It is in memory only.

Why a digest may stand for the key. Two keys with the same digest would be taken for one, and a live record would go.
The digest is SipHash-2-4 with 128 bits under a secret of 128 random bits, drawn anew for each pass and never shown:
as far as is known nobody without the secret does better than chance at finding keys that collide, however the keys
are chosen. (An MD5 of the key, by contrast, collides at will.) By chance, n keys collide with a probability below
n² / 2¹²⁹. The largest table, 2 GiB, has less than 2²⁷ keys: 2⁻⁷⁵. Of 2⁴⁰ records looked up in it, one is taken for
another key's with a probability below 2⁴⁰ · 2²⁷ / 2¹²⁸ = 2⁻⁶¹. A disk misreads sooner.

Beside the table there is a bit for each offset of the dirty part, as far as there is room. When a key is put that is in
the table already, the record of the lower offset is obsolete, and its bit says so: of a record that was put itself
nothing has to be looked up any more. Of a log that is all dirty that saves half the work.

One thread at a time uses a map.
"""

from __future__ import annotations

import random
from array import array
from typing import Final

from tailrace.env import Buffer
from tailrace.env.memory import zeroed_memory
from tailrace.model.invariant import invariant
from tailrace.record import kernels
from tailrace.record.kernels import PlainRun

SLOT_BYTES: Final = 24
GREATEST_MEMORY_BYTES: Final = 2**31 - 1
LOAD_FACTOR: Final = 0.9
NOT_FOUND: Final = -1
MARKED_OFFSETS: Final = 1 << 27
"""16 MiB of bits."""


def memory_per_thread(dedupe_buffer_bytes: int, threads: int) -> int:
    """What `log.cleaner.dedupe.buffer.size` gives each cleaner thread's map."""
    return min(dedupe_buffer_bytes // threads, GREATEST_MEMORY_BYTES)


class OffsetMap:
    """Fill it with `put`, `put_rows` or `put_run` until `is_full`; ask with `get`, `keep_rows` or `sift_run`; `clear`
    it before the next log.

    `latest_offset`: everything up to it, from where the dirty part begins, is in the map.
    """

    __slots__ = ("_dice", "_obsolete", "_secret", "_table", "entries", "latest_offset", "limit", "slots")

    def __init__(self, memory_bytes: int, dice: random.Random, load_factor: float = LOAD_FACTOR) -> None:
        """`dice` must be seeded with what nobody else knows, outside of tests."""
        self.slots = memory_bytes // SLOT_BYTES
        self.limit = int(self.slots * load_factor)
        invariant(
            1 <= self.limit <= self.slots,
            f"an offset map of {memory_bytes} bytes, filled up to {load_factor}, must have room for a key",
        )
        self._dice = dice
        self._obsolete: tuple[Buffer, int]
        self._table: memoryview = zeroed_memory(SLOT_BYTES * self.slots).cast("Q")
        self._forget()

    def clear(self) -> None:
        """Forget every key, and draw another secret. Takes milliseconds, without the GIL."""
        kernels.clear_table(self._table)
        self._forget()

    def expect(self, start: int, end: int) -> None:
        """Offsets from `start` to `end` − 1 will be put: make room for what becomes obsolete among them.

        Without it, or for more offsets than MARKED_OFFSETS, everything is looked up.
        """
        invariant(not self.entries and 0 <= start <= end, f"offsets from {start} to {end} for {self.entries} keys")
        count = min(end - start, MARKED_OFFSETS)
        if count:
            self._obsolete = (zeroed_memory((count + 7) // 8), start)

    def _forget(self) -> None:
        self._obsolete = (bytearray(), 0)
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
        _, self.entries, _ = kernels.put_rows(
            self._table, self.entries, self.slots, *self._secret, key, row, 1, 0, *self._obsolete
        )
        self.mapped_to(offset)

    def put_rows(self, buffer: Buffer, rows: array[int], count: int, from_offset: int) -> bool:
        """Enter the keys of records that were walked in `buffer`, from `from_offset` on; False when the map got full.

        `latest_offset` is then that of the last record entered.
        """
        taken, self.entries, last_put = kernels.put_rows(
            self._table, self.entries, self.limit, *self._secret, buffer, rows, count, from_offset, *self._obsolete
        )
        self.mapped_to(last_put)
        return taken == count

    def put_run(self, run: PlainRun, data: Buffer, start: int, from_offset: int) -> int:
        """Enter the keys of plain batches from `data[start]` on; returns why the kernel has stopped."""
        reason = run.map(
            data,
            start,
            len(data),
            self._table,
            self.entries,
            self.limit,
            *self._secret,
            from_offset,
            *self._obsolete,
        )
        self.entries = run.entries
        self.mapped_to(run.latest_offset)
        return reason

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
            *self._obsolete,
        )

    def sift_run(
        self,
        run: PlainRun,
        data: Buffer,
        start: int,
        now_ms: int,
        horizon_ms: int,
        out: bytearray,
        written: int,
        made: array[int],
        made_count: int,
    ) -> int:
        """Write what stays of plain batches from `data[start]` on; returns why the kernel has stopped."""
        return run.sift(
            data,
            start,
            len(data),
            self._table,
            *self._secret,
            self.latest_offset,
            *self._obsolete,
            now_ms,
            horizon_ms,
            out,
            written,
            made,
            made_count,
        )
