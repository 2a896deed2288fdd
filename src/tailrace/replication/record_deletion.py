"""Forgetting the records below an offset, as a client asks for it (DeleteRecords)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from tailrace.model.errors import OffsetOutOfRangeError, PolicyViolationError, StorageError
from tailrace.model.ids import TopicPartition
from tailrace.storage.unified_log import UnifiedLog

UP_TO_HIGH_WATERMARK: Final = -1
"""As the offset."""


class LogStarts(Protocol):
    """What moves log starts durably: the log manager."""

    def increment_log_start(
        self, partition: TopicPartition, offset: int, done: Callable[[], None], failed: Callable[[StorageError], None]
    ) -> None: ...


def start_asked_for(log: UnifiedLog, offset: int) -> int:
    """PolicyViolationError where records are only compacted; OffsetOutOfRangeError for what is no offset.

    Whether it lies beyond the high watermark is found out when the log start is moved.
    """
    if not log.config.deletes:
        raise PolicyViolationError(f"records of {log.dir} cannot be deleted: its cleanup.policy is compact")
    start = log.high_watermark if offset == UP_TO_HIGH_WATERMARK else offset
    if start < 0:
        raise OffsetOutOfRangeError(f"{start} is no offset of {log.dir}")
    return start
