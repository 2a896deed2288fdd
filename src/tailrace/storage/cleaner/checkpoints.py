"""Up to where each compacted log is clean: `cleaner-offset-checkpoint` of each data directory, and the same in memory.

Crash rule. An offset is written after what it describes is on disk, and lowered before the log is: one that is too low
costs a clean, one that is too high would leave records uncompacted for good. The log starts of the directory are
written first: otherwise a crash brings back deleted records below an offset that assumes they are gone. A damaged file
counts as empty: every log is dirty then.

Who may call: the owner's thread. Writes are jobs, but for `begin`, once for each log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tailrace.model.errors import StorageError
from tailrace.model.ids import TopicPartition
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.unified_log import UnifiedLog


class CleanerCheckpoints:
    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._offsets: dict[str, dict[TopicPartition, int]] = {}

    def read(self, directory: LogDirectory) -> None:
        """At the start, when the logs are open. What is said of partitions that are not here is forgotten: another of
        the same name would inherit it."""
        try:
            found = directory.checkpoints.cleaner.read_or_reset()
        except OSError as cause:
            self._store.report(directory, StorageError(f"read {directory.checkpoints.cleaner.path}", cause))
            return
        here = self._current_in(directory)
        self._offsets[directory.path] = {
            partition: offset
            for partition, offset in found.items()
            if partition in here or partition in self._store.unloadable or partition in self._store.left_out
        }

    def get(self, directory: str, partition: TopicPartition) -> int | None:
        return self._offsets.get(directory, {}).get(partition)

    def set(self, directory: LogDirectory, partition: TopicPartition, offset: int) -> None:
        self._offsets.setdefault(directory.path, {})[partition] = offset
        self._write(directory)

    def begin_all(self, directory: LogDirectory) -> None:
        """Logs with an entry may have gaps in their offsets, which a load must not take for a loss, whatever their
        policy is by then. So every compacted log has one, durably, from the start on. StorageError."""
        logs = self._current_in(directory)
        self._begin(directory, {each: log.log_start_offset for each, log in logs.items() if log.config.compacts})

    def _current_in(self, directory: LogDirectory) -> dict[TopicPartition, UnifiedLog]:
        """What is said of a copy that is being moved here would be about another log of that name, of long ago."""
        current = self._store.current
        return {each: log for each, log in self._store.logs_in(directory).items() if current.get(each) is log}

    def begin(self, directory: LogDirectory, partition: TopicPartition, offset: int) -> None:
        """The same for a log that is about to be cleaned, if it is new since the start, or has a new policy."""
        self._begin(directory, {partition: offset})

    def _begin(self, directory: LogDirectory, new: Mapping[TopicPartition, int]) -> None:
        known = self._offsets.get(directory.path, {})
        if not new.keys() <= known.keys():
            self._write_now(directory, {**new, **known})

    def lower(self, directory: LogDirectory, partition: TopicPartition, bound: int) -> Callable[[], None] | None:
        """To `bound`, where it is above. The function returned makes it durable, on any thread."""
        offset = self.get(directory.path, partition)
        if offset is None or offset <= bound:
            return None
        self._offsets[directory.path][partition] = bound
        return self._prepare(directory, self._offsets[directory.path])

    def _write_now(self, directory: LogDirectory, offsets: dict[TopicPartition, int]) -> None:
        self._store.write_now(directory, "checkpoint the cleaner", self._prepare(directory, offsets))
        self._offsets[directory.path] = offsets

    def remove(self, directory: LogDirectory, partitions: Iterable[TopicPartition]) -> None:
        offsets = self._offsets.get(directory.path, {})
        gone = [partition for partition in partitions if offsets.pop(partition, None) is not None]
        if gone:
            self._write(directory)

    def move(self, partition: TopicPartition, source: LogDirectory, target: LogDirectory) -> None:
        offset = self.get(source.path, partition)
        self.remove(source, (partition,))
        if offset is None:
            self.remove(target, (partition,))
        else:
            self.set(target, partition, offset)

    def drop(self, directory: str) -> None:
        self._offsets.pop(directory, None)

    def _write(self, directory: LogDirectory) -> None:
        write = self._prepare(directory, self._offsets[directory.path])
        self._store.write_in_background(directory, "checkpoint the cleaner", write)

    def _prepare(self, directory: LogDirectory, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """See the crash rule. The function returned makes both files durable, on any thread."""
        write_starts = directory.checkpoints.log_start.prepare(self._store.log_starts(directory))
        write_offsets = directory.checkpoints.cleaner.prepare(dict(offsets))  # what was written is remembered

        def write() -> None:
            write_starts()
            write_offsets()

        return write
