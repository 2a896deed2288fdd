"""The checkpoint files of one data directory, each an `OffsetCheckpoint`.

    recovery-point-offset-checkpoint      below it everything is durable; recovery begins there
    log-start-offset-checkpoint           below it everything is deleted, whatever the files still hold
    replication-offset-checkpoint         high watermarks
    cleaner-offset-checkpoint             up to where a compacted log is clean

A damaged recovery-point or log-start file counts as empty: recovery then reads whole logs, and they begin at their
first segment.

The owner stamps what shall be written (`prepare`), any thread writes it: an older stamp never overwrites a newer one,
however late its thread comes. It counts as written if the newer one is, and fails if the newer one has failed: its
caller is about to rely on it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from tailrace.env import Files
from tailrace.model.errors import CorruptCheckpointError
from tailrace.model.ids import TopicPartition
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.names import join

_log = logging.getLogger(__name__)

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
REPLICATION_FILE: Final = "replication-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"


class OrderedCheckpoint:
    """A checkpoint file written by several threads in the order in which its owner asked."""

    __slots__ = ("_error", "_file", "_lock", "_mentioned", "_prepared", "_written", "_written_number", "path")

    def __init__(self, files: Files, path: str) -> None:
        """Touches no file."""
        self.path = path
        self._file = OffsetCheckpoint(files, path)
        self._lock = threading.Lock()
        self._prepared = 0
        self._written_number = 0
        self._written: Mapping[TopicPartition, int] | None = None  # what the file holds, durably; None: unknown
        self._error: OSError | None = None
        """Of the last write."""
        self._mentioned: set[TopicPartition] = set()

    def read(self) -> dict[TopicPartition, int]:
        """CorruptCheckpointError for a damaged file."""
        found = self._file.read()
        self._mentioned.update(found)
        return found

    def read_or_reset(self) -> dict[TopicPartition, int]:
        """Nothing for a damaged file."""
        try:
            return self.read()
        except CorruptCheckpointError as error:
            _log.warning("%s; it counts as empty", error)
            return {}

    def may_mention(self, partition: TopicPartition) -> bool:
        """False when the file surely has no entry of the partition."""
        return partition in self._mentioned

    def prepare(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """Stamp `offsets`, on the owner's thread; the function returned makes them, or newer ones, durable, on any.

        OSError if that write, or the newer one that took its place, has failed.
        """
        self._prepared += 1
        number = self._prepared
        self._mentioned.update(offsets)

        def write() -> None:
            with self._lock:
                if number <= self._written_number:
                    if self._error is not None:
                        raise OSError(self._error.errno, f"a later write of {self.path} failed: {self._error}")
                    return
                self._written_number = number  # even if it fails: an older one would be no better
                if offsets != self._written:
                    self._written = None
                    try:
                        self._file.write(offsets)
                    except OSError as error:
                        self._error = error.with_traceback(None)
                        raise
                    self._written, self._error = offsets, None

        return write

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Durable when it returns."""
        self.prepare(offsets)()


class DirectoryCheckpoints:
    __slots__ = ("cleaner", "log_start", "recovery_point", "replication")

    def __init__(self, files: Files, directory: str) -> None:
        """Touches no file."""
        self.recovery_point = OrderedCheckpoint(files, join(directory, RECOVERY_POINT_FILE))
        self.log_start = OrderedCheckpoint(files, join(directory, LOG_START_FILE))
        self.replication = OrderedCheckpoint(files, join(directory, REPLICATION_FILE))
        self.cleaner = OrderedCheckpoint(files, join(directory, CLEANER_FILE))
