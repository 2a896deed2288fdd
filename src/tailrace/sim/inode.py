"""A file without a name: its bytes as running code sees them, and what of them is safe.

Pages are immutable and stored sparsely: a page that is not in the dictionary reads as zeros. Of each page the inode
keeps the durable version and the patches since; a crash picks a version out of them (the rules stand in `sim.disk`).
Bytes of a page behind the end of the file are always zero.
"""

from __future__ import annotations

import random
from typing import Final

from tailrace.sim.faults import Survival

PAGE_BYTES: Final = 4096
SECTOR_BYTES: Final = 512
_ZEROS: Final = bytes(PAGE_BYTES)


class Inode:
    __slots__ = (
        "_durable_modified_ms",
        "_durable_pages",
        "_durable_size",
        "_growth",
        "_pages",
        "_patches",
        "_strays",
        "modified_ms",
        "size",
    )

    def __init__(self, now_ms: int) -> None:
        self.size = 0
        self.modified_ms = now_ms
        self._pages: dict[int, bytes] = {}
        self._durable_size = 0
        self._durable_modified_ms = now_ms
        self._durable_pages: dict[int, bytes] = {}
        # Since the last sync, in order: page → (position in page, bytes), and each change of size as (from, to);
        # a write grows a file page by page, a truncate in one step, which is (to, to).
        self._patches: dict[int, list[tuple[int, bytes]]] = {}
        self._growth: list[tuple[int, int]] = []
        # Pages whose live and durable versions differ though they count as clean, after a failed sync.
        self._strays: set[int] = set()

    @property
    def allocated_bytes(self) -> int:
        return len(self._pages) * PAGE_BYTES

    def read(self, size: int, position: int) -> bytes:
        count = min(size, self.size - position)
        if count <= 0:
            return b""
        first, start = divmod(position, PAGE_BYTES)
        last = (position + count - 1) // PAGE_BYTES
        pages = self._pages
        if first == last:
            return pages.get(first, _ZEROS)[start : start + count]
        return b"".join([pages.get(page, _ZEROS) for page in range(first, last + 1)])[start : start + count]

    def write(self, data: bytes, position: int) -> int:
        end = position + len(data)
        page, start = divmod(position, PAGE_BYTES)
        done = 0
        while done < len(data):
            chunk = data[done : done + PAGE_BYTES - start]
            self._patch(page, start, chunk)
            done += len(chunk)
            page += 1
            start = 0
        if end > self.size and data:
            self._growth.append((self.size, end))
            self.size = end
        return len(data)

    def room(self, size: int, position: int, free_bytes: int) -> int:
        """How many of `size` bytes can be written at `position` when new pages may take `free_bytes`."""
        written = 0
        page, start = divmod(position, PAGE_BYTES)
        while written < size:
            if page not in self._pages:
                free_bytes -= PAGE_BYTES
                if free_bytes < 0:
                    break
            written += PAGE_BYTES - start
            page += 1
            start = 0
        return min(written, size)

    def truncate(self, size: int) -> None:
        if size == self.size:
            return
        if size < self.size:
            kept, tail = divmod(size, PAGE_BYTES)
            if tail and kept in self._pages:
                self._patch(kept, tail, _ZEROS[tail:])
            cut = kept + 1 if tail else kept
            for page in [page for page in self._pages if page >= cut]:
                self._patch(page, 0, _ZEROS)
                del self._pages[page]
        self._growth.append((size, size))
        self.size = size

    def _patch(self, page: int, start: int, chunk: bytes) -> None:
        if len(chunk) == PAGE_BYTES:
            whole = chunk
        else:
            old = self._pages.get(page, _ZEROS)
            whole = b"".join((old[:start], chunk, old[start + len(chunk) :]))
        self._pages[page] = whole
        if page in self._strays:
            # Its durable version lacks what was dropped: from here on the page is written back whole.
            self._strays.discard(page)
            start, chunk = 0, whole
        patches = self._patches.get(page)
        if patches is None:
            self._patches[page] = [(start, chunk)]
        else:
            patches.append((start, chunk))

    def flip_bit(self, bit: int) -> None:
        """Damage on the medium and in the cache alike."""
        position, shift = divmod(bit, 8)
        page, at = divmod(position, PAGE_BYTES)
        self._pages[page] = _flipped(self._pages.get(page, _ZEROS), at, shift)
        if position < self._durable_size:
            self._durable_pages[page] = _flipped(self._durable_pages.get(page, _ZEROS), at, shift)

    def sync(self) -> None:
        for page in self._patches:
            self._keep(page, self._pages.get(page, _ZEROS))
        if self._growth:
            self._durable_size = self.size
        self._durable_modified_ms = self.modified_ms
        self._patches = {}
        self._growth = []

    def drop_dirty(self, rng: random.Random, garbage_probability: float) -> None:
        """A sync failed: some of the dirty pages reached the disk, all are called clean."""
        self._strays.update(self._patches)
        self._settle(rng, Survival.ANY, garbage_probability)
        self._patches = {}
        self._growth = []

    def restart(self, rng: random.Random, survival: Survival, garbage_probability: float) -> None:
        """Power was lost: settle what survived, which is now all there is."""
        if self._patches or self._growth:
            self._settle(rng, survival, garbage_probability)
        elif not self._strays:
            return
        self._pages = dict(self._durable_pages)
        self.size = self._durable_size
        self.modified_ms = self._durable_modified_ms
        self._patches = {}
        self._growth = []
        self._strays.clear()

    def _settle(self, rng: random.Random, survival: Survival, garbage_probability: float) -> None:
        """Choose the durable state among everything a crash may leave."""
        if survival is Survival.ANY:
            # All or nothing is legal and frequent in reality, yet would never happen if each page of a
            # long file threw its own coin.
            survival = rng.choice((Survival.NOTHING, Survival.EVERYTHING, Survival.ANY, Survival.ANY, Survival.ANY))
        if survival is Survival.NOTHING:
            return
        if survival is Survival.EVERYTHING:
            self.sync()
            return
        size = self._any_size(rng)
        newest_probability = rng.random()
        for page, patches in self._patches.items():
            self._keep(page, self._any_version(rng, page, patches, newest_probability, garbage_probability))
        self._durable_size = size
        if rng.random() < 0.5:
            self._durable_modified_ms = self.modified_ms
        self._cut_durable()

    def _any_size(self, rng: random.Random) -> int:
        draw = rng.randrange(3)
        if draw == 0 or not self._growth:
            return self._durable_size
        if draw == 1:
            return self.size
        old, new = rng.choice(self._growth)
        boundary = (rng.randint(old, new) if old < new else new) // PAGE_BYTES * PAGE_BYTES
        return boundary if old < boundary < new else new

    def _any_version(
        self,
        rng: random.Random,
        page: int,
        patches: list[tuple[int, bytes]],
        newest_probability: float,
        garbage_probability: float,
    ) -> bytes:
        if rng.random() < newest_probability:
            return self._pages.get(page, _ZEROS)
        draw = rng.randrange(4)
        if draw < 2:
            old = self._version(page, patches, 0)
            return self._with_garbage(rng, page, old) if rng.random() < garbage_probability else old
        one = self._version(page, patches, rng.randint(0, len(patches)))
        if draw == 2:
            return one
        other = self._version(page, patches, rng.randint(0, len(patches)))
        sectors = range(0, PAGE_BYTES, SECTOR_BYTES)
        return b"".join([(one if rng.random() < 0.5 else other)[at : at + SECTOR_BYTES] for at in sectors])

    def _version(self, page: int, patches: list[tuple[int, bytes]], count: int) -> bytes:
        """The page after the first `count` patches."""
        if count == len(patches):
            return self._pages.get(page, _ZEROS)
        content = bytearray(self._durable_pages.get(page, _ZEROS))
        for start, chunk in patches[:count]:
            content[start : start + len(chunk)] = chunk
        return bytes(content)

    def _with_garbage(self, rng: random.Random, page: int, content: bytes) -> bytes:
        """Only sectors wholly behind the durable end can hold what was on the medium before."""
        end = -(-self._durable_size // SECTOR_BYTES) * SECTOR_BYTES
        kept = min(max(end - page * PAGE_BYTES, 0), PAGE_BYTES)
        return content[:kept] + rng.randbytes(PAGE_BYTES - kept)

    def _keep(self, page: int, content: bytes) -> None:
        if content is _ZEROS:
            self._durable_pages.pop(page, None)
        else:
            self._durable_pages[page] = content

    def _cut_durable(self) -> None:
        kept, tail = divmod(self._durable_size, PAGE_BYTES)
        if tail and kept in self._durable_pages:
            self._durable_pages[kept] = self._durable_pages[kept][:tail] + _ZEROS[tail:]
        cut = kept + 1 if tail else kept
        for page in [page for page in self._durable_pages if page >= cut]:
            del self._durable_pages[page]

    def clone(self) -> Inode:
        copy = Inode(self.modified_ms)
        copy.size = self.size
        copy._pages = dict(self._pages)
        copy._durable_size = self._durable_size
        copy._durable_modified_ms = self._durable_modified_ms
        copy._durable_pages = dict(self._durable_pages)
        copy._patches = {page: list(patches) for page, patches in self._patches.items()}
        copy._growth = list(self._growth)
        copy._strays = set(self._strays)
        return copy


def _flipped(page: bytes, at: int, shift: int) -> bytes:
    return page[:at] + bytes((page[at] ^ (1 << shift),)) + page[at + 1 :]
