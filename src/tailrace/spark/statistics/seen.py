"""The batches of a buffer, from outside, as columns of numbers: what statistics are made of beside records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError
from tailrace.model.offsets import GREATEST_OFFSET
from tailrace.record.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TRANSACTIONAL_BIT,
)
from tailrace.record.batch_run import BatchRun
from tailrace.record.kernels import BATCH_END, BATCH_ROW, BATCH_START
from tailrace.record.shallow import ShallowBatch, next_batch
from tailrace.spark.auditing.task.columns import headers_at
from tailrace.spark.source.damage import next_sound_batch

Numbers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

_WALKED_TOGETHER: Final = 2048
_LATEST_EPOCH: Final = (1 << 31) - 1


@dataclass(frozen=True)
class Seen:
    """Columns, a number for each batch. Messages older than format v2 have no producer; of a wrapper only `last_offset`
    is known, which is also its `base_offset`, and `record_count` is 0 until it is opened."""

    start: Numbers
    """Where in the buffer it stands."""
    size: Numbers
    base_offset: Numbers
    last_offset: Numbers
    attributes: Numbers
    base_timestamp: Numbers
    max_timestamp: Numbers
    producer_id: Numbers
    producer_epoch: Numbers
    record_count: Numbers
    is_wrapper: Marks

    def __len__(self) -> int:
        return len(self.start)

    def where(self, chosen: Marks) -> Seen:
        return Seen(**{name: column[chosen] for name, column in vars(self).items()})

    @property
    def codec(self) -> Numbers:
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> Marks:
        return self._has(CONTROL_BIT)

    @property
    def is_transactional(self) -> Marks:
        return self._has(TRANSACTIONAL_BIT)

    def has_passed(self, now_ms: int) -> Marks:
        """Whether it has a delete horizon, and that lies behind."""
        return self._has(DELETE_HORIZON_BIT) & (self.base_timestamp <= now_ms)

    def _has(self, bit: int) -> Marks:
        has: Marks = (self.attributes & bit) != 0
        return has


def batches_in(buffer: Buffer, next_offset: int, end_offset: int, *, skips_corrupt: bool) -> Iterator[Seen]:
    """The whole batches of a buffer that begins with one, as far as they begin before `end_offset`.

    Ends early where bytes are no batch: a decoder says what that means. With `skips_corrupt` it goes on behind them.
    """
    view = memoryview(buffer)
    run = BatchRun(_WALKED_TOGETHER)
    position, next_offset = 0, max(next_offset, 0)
    while position < len(view) and next_offset < end_offset:
        run.walk(view, position, len(view), next_offset, GREATEST_OFFSET, _LATEST_EPOCH)
        if run.count:
            seen = _columns(view, run)
            position, next_offset = run.end, run.next_offset
            yield seen.where(seen.base_offset < end_offset)
            continue
        try:
            batch = next_batch(view, position, len(view))
        except CorruptMessageError:
            batch = next_sound_batch(view, position + 1, next_offset, end_offset) if skips_corrupt else None
        if batch is None:
            return
        position = batch.end
        if next_offset <= batch.last_offset:
            next_offset = batch.next_offset
            seen = _of_one(batch)
            yield seen.where(seen.base_offset < end_offset)


def _columns(buffer: memoryview, run: BatchRun) -> Seen:
    rows = np.frombuffer(run.rows, np.int64, BATCH_ROW * run.count).reshape(-1, BATCH_ROW)
    starts = rows[:, BATCH_START].copy()
    headers = headers_at(buffer, starts)
    base_offset = headers["base_offset"].astype(np.int64)
    return Seen(
        start=starts,
        size=rows[:, BATCH_END] - starts,
        base_offset=base_offset,
        last_offset=base_offset + headers["last_offset_delta"].astype(np.int64),
        attributes=headers["attributes"].astype(np.int64),
        base_timestamp=headers["base_timestamp"].astype(np.int64),
        max_timestamp=headers["max_timestamp"].astype(np.int64),
        producer_id=headers["producer_id"].astype(np.int64),
        producer_epoch=headers["producer_epoch"].astype(np.int64),
        record_count=np.maximum(headers["record_count"].astype(np.int64), 0),
        is_wrapper=np.zeros(len(starts), np.bool_),
    )


def _of_one(batch: ShallowBatch) -> Seen:
    return Seen(
        start=_one(batch.position),
        size=_one(batch.size),
        base_offset=_one(batch.last_offset if is_wrapper(batch) else batch.base_offset),
        last_offset=_one(batch.last_offset),
        # Only the codec of old messages is where v2 has it.
        attributes=_one(batch.attributes if batch.is_v2 else batch.codec),
        base_timestamp=_one(batch.base_timestamp),
        max_timestamp=_one(batch.max_timestamp),
        producer_id=_one(batch.producer_id),
        producer_epoch=_one(batch.producer_epoch),
        record_count=_one(max(batch.record_count, 0)),
        is_wrapper=np.array([is_wrapper(batch)]),
    )


def _one(number: int) -> Numbers:
    return np.array([number], np.int64)


def is_wrapper(batch: ShallowBatch) -> bool:
    """An old message with messages in it: how many, and from which offset on, is known when it is opened."""
    return batch.base_offset < 0
