"""The high watermarks of all partitions here, kept in `replication-offset-checkpoint` of each data directory.

Crash rule. They are written from time to time and at shutdown, so the file lags: what it says is a lower bound, which
a leader raises again from what its followers fetch. Only an entry that outlives its log would be too high for the next
log of that name; so one is not made before the file is free of it (`forgetting`).

Cost. Only partitions whose high watermark has moved are looked at; without any, nothing is done and nothing written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tailrace.model.ids import TopicPartition
from tailrace.model.noop import noop
from tailrace.replication.partition import Partition
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.names import directory_of
from tailrace.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)


class HighWatermarkCheckpoints:
    def __init__(self, logs: LogManager) -> None:
        """Touches no file."""
        self._logs = logs
        self.unsaved: list[Partition] = []
        """Partitions enter themselves here when their high watermark moves."""
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        """By directory: what its file is to hold."""
        self._changed: set[str] = set()
        """Directories whose file does not hold it."""

    def read(self) -> None:
        """At start, when the logs are open. Entries of partitions that are not here any more are dropped."""
        for directory in self._logs.directories.live:
            try:
                stored = directory.checkpoints.replication.read_or_reset()
            except OSError as cause:  # a disk that fails is found out by what is written to it
                _log.error("%s: %s; high watermarks begin at 0", directory.checkpoints.replication.path, cause)
                stored = {}
            here = self._logs.logs_in(directory)
            kept = {each: offset for each, offset in stored.items() if each in here or each in self._logs.unloadable}
            self._offsets[directory.path] = kept
            if len(kept) < len(stored):
                self._changed.add(directory.path)

    def of(self, partition: TopicPartition, log: UnifiedLog) -> int:
        """0 where nothing is known."""
        return self._offsets.get(directory_of(log.dir), {}).get(partition, 0)

    def forget(self, partition: TopicPartition) -> None:
        """The partition has no log in any directory, or will be noted anew."""
        for path, offsets in self._offsets.items():
            if offsets.pop(partition, None) is not None:
                self._changed.add(path)

    def forget_directory(self, path: str) -> None:
        """It is offline: its file can be neither read nor written."""
        self._offsets.pop(path, None)
        self._changed.discard(path)

    def forgetting(self, partition: TopicPartition, done: Callable[[], None]) -> None:
        """Call `done` when no directory's file speaks of the partition, which has no log here."""
        self.forget(partition)
        mentioned = [
            each for each in self._logs.directories.live if each.checkpoints.replication.may_mention(partition)
        ]
        self._write(mentioned, done)

    def save(self, done: Callable[[], None] | None = None) -> None:
        """Write what has moved since the last time, as jobs; `done` when that has ended, well or not."""
        unsaved, self.unsaved[:] = self.unsaved.copy(), ()
        for partition in unsaved:
            partition.is_unsaved = False
            log = partition.log
            if log is None:
                continue
            path = directory_of(log.dir)
            offsets = self._offsets.get(path)
            if offsets is not None and offsets.get(partition.id) != log.high_watermark:
                offsets[partition.id] = log.high_watermark
                self._changed.add(path)
        changed = [each for each in self._logs.directories.live if each.path in self._changed]
        self._write(changed, done if done is not None else noop)

    def _write(self, directories: list[LogDirectory], done: Callable[[], None]) -> None:
        left = len(directories)
        if not left:
            done()

        def ended() -> None:
            nonlocal left
            left -= 1
            if not left:
                done()

        for directory in directories:
            self._changed.discard(directory.path)
            # A copy: another thread writes it while this one goes on counting.
            self._logs.checkpoint_high_watermarks(directory, dict(self._offsets.get(directory.path, {})), ended)
