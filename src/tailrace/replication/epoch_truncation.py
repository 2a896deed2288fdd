"""Where a follower's log and its leader's part ways, by leader epochs.

A follower asks its leader where the follower's latest epoch ended. What the follower has beyond that was written by a
leader that was deposed before it was committed, and must go.

    leader   epoch 5 from 100, epoch 7 from 130          5 ended at 130
    follower epoch 5 up to 142                           130…141 go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tailrace.model.errors import OffsetOutOfRangeError
from tailrace.storage.epoch_cache import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from tailrace.storage.unified_log import UnifiedLog


class EpochEnd(NamedTuple):
    """The greatest epoch that is not above the one asked for, and the offset behind its last record."""

    epoch: int
    end_offset: int

    @property
    def is_unknown(self) -> bool:
        return self.epoch == UNDEFINED_EPOCH or self.end_offset == UNDEFINED_EPOCH_OFFSET


class Truncation(NamedTuple):
    offset: int
    is_final: bool
    """Otherwise the follower asks again, with the epoch that is its latest then."""


def divergence(log: UnifiedLog, last_fetched_epoch: int, fetch_offset: int) -> EpochEnd | None:
    """Where a log, whose last record has `last_fetched_epoch` and stands below `fetch_offset`, parts from this one.

    None: it does not. OffsetOutOfRangeError when that cannot be said, or nothing at the offset can be read anyway.
    """
    end = EpochEnd(*log.end_offset_for_epoch(last_fetched_epoch))
    if end.is_unknown:
        raise OffsetOutOfRangeError(f"{log.dir} does not know where leader epoch {last_fetched_epoch} ended")
    if fetch_offset < log.log_start_offset:
        raise OffsetOutOfRangeError(f"offset {fetch_offset} is below the start {log.log_start_offset} of {log.dir}")
    return end if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset else None


def truncation_for(
    answer: EpochEnd, own_end_of: Callable[[int], EpochEnd], own_end: int, own_high_watermark: int
) -> Truncation:
    """What a follower does with its leader's answer; `own_end_of` asks the follower's log the same question.

    A leader that knows no epoch as old as the follower's cannot say where they part: what is committed stays.
    """
    if answer.end_offset == UNDEFINED_EPOCH_OFFSET:
        return Truncation(own_high_watermark, True)
    if answer.epoch == UNDEFINED_EPOCH:
        return Truncation(min(answer.end_offset, own_end), True)
    own = own_end_of(answer.epoch)
    if own.is_unknown:
        return Truncation(min(answer.end_offset, own_end), True)
    if own.epoch != answer.epoch:
        # The follower lacks that epoch: everything above its own next lower one is foreign, maybe more.
        return Truncation(min(own.end_offset, own_end), False)
    return Truncation(min(own.end_offset, answer.end_offset, own_end), True)
