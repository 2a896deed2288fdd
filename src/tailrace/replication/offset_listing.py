"""The offset that a client asks for by time or by name, as far as it may see.

    −1 latest            the end that the reader may see
    −2 earliest          the log start
    −3 max timestamp     the first record with the largest timestamp
    −4 earliest local    where data on this disk begins
    −5 latest tiered     nothing is tiered: −1
    −6 earliest pending upload   nothing is tiered: −1
    otherwise            the first record at or after that time

A leader just elected may not know yet how much of the epochs before its own is committed. What it would say then could
be less than it has said before its election: clients are asked to come again.
"""

from __future__ import annotations

from typing import Final

from tailrace.model.errors import OffsetNotAvailableError
from tailrace.storage import offset_lookup
from tailrace.storage.fetch import Isolation
from tailrace.storage.offset_lookup import FoundOffset
from tailrace.storage.unified_log import UnifiedLog

EARLIEST_PENDING_UPLOAD: Final = -6


def found(
    log: UnifiedLog, timestamp: int, isolation: Isolation, leader_epoch: int, epoch_start: int | None
) -> FoundOffset | None:
    """None where no record that the reader may see is as late. LOG_END is a replica's isolation."""
    if timestamp in (offset_lookup.EARLIEST, offset_lookup.EARLIEST_LOCAL):
        return log.offset_by_time(timestamp)
    if timestamp == EARLIEST_PENDING_UPLOAD:
        return FoundOffset(-1, -1)
    if timestamp == offset_lookup.LATEST:
        _check_is_known(log, isolation, epoch_start)
        return FoundOffset(-1, _visible_end(log, isolation), leader_epoch)
    answer = log.offset_by_time(timestamp)
    if answer is None or answer.offset >= _visible_end(log, isolation):
        _check_is_known(log, isolation, epoch_start)
        return None
    return answer


def _visible_end(log: UnifiedLog, isolation: Isolation) -> int:
    if isolation is Isolation.LOG_END:
        return log.log_end_offset
    return log.high_watermark if isolation is Isolation.HIGH_WATERMARK else log.last_stable_offset


def _check_is_known(log: UnifiedLog, isolation: Isolation, epoch_start: int | None) -> None:
    if isolation is not Isolation.LOG_END and epoch_start is not None and log.high_watermark < epoch_start:
        raise OffsetNotAvailableError(
            f"{log.dir}: the high watermark {log.high_watermark} has not reached the start {epoch_start} of the epoch"
        )
