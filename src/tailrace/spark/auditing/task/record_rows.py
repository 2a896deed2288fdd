"""Records of many batches as rows of numbers, held against the headers of their batches all at once.

Kernels make the rows (`record.walk`), batch by batch or many batches at a time. What is left to prove is done here for
thousands of records in a few steps: offsets ascend and lie within the batch, and the greatest timestamp is the one
that the header states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isqrt
from typing import Final

import numpy as np
import numpy.typing as npt

from tailrace.env.files import Buffer
from tailrace.env.memory import zeroed_memory
from tailrace.record.batch import TIMESTAMP_TYPE_BIT
from tailrace.record.kernels import KEY_LENGTH, KEY_START, OFFSET, ROW, TIMESTAMP
from tailrace.spark.auditing.rules import BAD_HEADER, BAD_RECORD
from tailrace.spark.auditing.task.block import Block, Numbers
from tailrace.spark.auditing.task.faults import Fault

MOST_ROWS: Final = 1 << 15
_FACTOR: Final = 0x9E3779B97F4A7C15

MOST_KEY_BYTES: Final = 256
"""That are looked at to see which keys are frequent."""

KeySample = Callable[[list[bytes | None]], None]


class RecordRows:
    """Filled with records of batches of one block, in their order, and checked when it is full or the block is over.

    `raw` is what kernels fill, from row `filled` on.

    On the way keys are sampled, so many of them apart, and from a first one that a hash tells, so that no rhythm of
    keys is missed. Of compressed batches few are chosen, and more of their records: little has to be kept of them.
    """

    def __init__(self, sample: KeySample, sampled_of: int) -> None:
        """`sample` is called with keys, of one of `sampled_of` records; a square."""
        self.raw = zeroed_memory(8 * ROW * MOST_ROWS).cast("q")
        self.filled = 0
        self._table = np.frombuffer(self.raw, np.int64).reshape(MOST_ROWS, ROW)
        self._sample = sample
        self._step = isqrt(sampled_of)
        self._batches: list[int] = []
        self._sources: list[tuple[int, int, int, Buffer]] = []

    def is_sampled(self, base_offsets: Numbers) -> npt.NDArray[np.bool_]:
        """Which batches are in the sample."""
        hashed = (base_offsets.astype(np.uint64) * np.uint64(_FACTOR)) >> np.uint64(40)
        chosen: npt.NDArray[np.bool_] = hashed % np.uint64(self._step) == 0
        return chosen

    def took(self, batch: int, filled: int, source: Buffer | None) -> None:
        """The next `filled` rows are the records of that batch; `source` holds their keys if it is in the sample."""
        self._batches.append(batch)
        if source is not None:
            self._sources.append((self.filled + batch % self._step, self.filled + filled, self._step, source))
        self.filled += filled

    def took_many(self, block: Block, batches: Numbers, filled: int, source: Buffer) -> None:
        """The same of batches whose keys are all in one place."""
        step = self._step**2
        phase = (int(block.base_offset[batches[0]]) * _FACTOR >> 40) % step
        self._sources.append((self.filled + phase, self.filled + filled, step, source))
        self._batches.extend(batches.tolist())
        self.filled += filled

    def check(self, block: Block) -> Iterator[Fault]:
        """What is wrong with the batches that were taken; makes room."""
        if self.filled:
            batches = np.array(self._batches, np.int64)
            counts = block.record_count[batches]
            yield from _faults(block, batches[counts > 0], self._table[: self.filled])
            self._take_sample()
        self.filled = 0
        self._batches.clear()
        self._sources.clear()

    def _take_sample(self) -> None:
        keys: list[bytes | None] = []
        for first, behind, step, source in self._sources:
            for start, length in self._table[first:behind:step, KEY_START : KEY_LENGTH + 1].tolist():
                keys.append(bytes(source[start : start + min(length, MOST_KEY_BYTES)]) if length >= 0 else None)
        self._sample(keys)


def _faults(block: Block, batches: Numbers, rows: Numbers) -> Iterator[Fault]:
    counts = block.record_count[batches]
    behind = np.cumsum(counts)
    first = behind - counts
    offsets, timestamps = rows[:, OFFSET], rows[:, TIMESTAMP]
    ascends = np.ones(len(offsets), bool)
    np.greater(offsets[1:], offsets[:-1], out=ascends[1:])
    ascends[first] = True
    low, high = offsets[first] < block.base_offset[batches], offsets[behind - 1] > block.last_offset[batches]
    greatest = np.maximum(np.maximum.reduceat(timestamps, first), -1)
    has_own_times = block.attributes[batches] & TIMESTAMP_TYPE_BIT == 0
    other_time = (greatest != block.max_timestamp[batches]) & has_own_times
    if ascends.all() and not (low | high | other_time).any():
        return
    disordered = ~np.logical_and.reduceat(ascends, first)
    for place in np.flatnonzero(low | high | other_time | disordered).tolist():
        row = int(batches[place])
        base, last = int(block.base_offset[row]), int(block.last_offset[row])
        stated, count = int(block.max_timestamp[row]), int(counts[place])
        if disordered[place]:
            within = ascends[first[place] : behind[place]]
            at = int(np.argmin(within))
            yield Fault(row, BAD_RECORD, f"the offset of record {at} of {count} does not ascend", last + 1)
        elif low[place] or high[place]:
            found = int(offsets[first[place]] if low[place] else offsets[behind[place] - 1])
            yield Fault(row, BAD_RECORD, f"a record has offset {found} in a batch of offsets {base} to {last}")
        else:
            words = f"states the greatest timestamp {stated}, but its records have {int(greatest[place])}"
            yield Fault(row, BAD_HEADER, words, last + 1)
