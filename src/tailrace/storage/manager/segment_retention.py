"""Retention of one open log, as the log manager and the cleaner both ask for it.

The log start is checkpointed before files go: see `segment_deletion`. Blocks the owner's thread for that write.
"""

from __future__ import annotations

import logging

from tailrace.model.errors import TailraceError
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)


def delete_old_segments_of(store: LogStore, log: UnifiedLog) -> int:
    """How many segments went. Where the disk refuses they stay, and go another time; so they do during a truncation."""
    if log.is_truncating:
        return 0
    directory = store.directory_of(log)

    def checkpoint(log_start: int) -> None:
        directory.checkpoints.log_start.write(store.log_starts(directory))

    try:
        return len(log.delete_old_segments(checkpoint))
    except TailraceError as error:
        _log.error("%s: old segments stay for now: %s", log.dir, error)
        return 0
