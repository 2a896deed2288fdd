"""Partitions whose clean failed: why, and when it is tried again.

A failed clean leaves the log as it was, only uncompacted. It is tried again after a pause that doubles with every
failure, so a partition heals by itself once its cause is gone, and costs little until then. Meanwhile others go on.

The file `tailrace-uncleanable` in the data directory tells people the same; without entries there is no file. Nothing
reads it back: a start tries everything anew.

    {"version": 0, "partitions": [{"topic": "orders", "partition": 0, "reason": "…", "since_ms": …, "failed_ms": …,
                                   "failures": 3, "pause_ms": 60000}, …]}

Crash rule: replaced as a whole by a rename, not synced; one that is torn or stale misinforms and does no harm.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from tailrace.env import Env, Files
from tailrace.model.errors import CorruptCheckpointError
from tailrace.model.ids import TopicPartition
from tailrace.storage.checkpoint import read_small_file, write_temporary
from tailrace.storage.names import TEMPORARY_SUFFIX, join

_log = logging.getLogger(__name__)

UNCLEANABLE_FILE: Final = "tailrace-uncleanable"
VERSION: Final = 0
LONGEST_PAUSE_MS: Final = 3_600_000
_MAX_FILE_BYTES: Final = 64 << 20
_MAX_REASON_CHARACTERS: Final = 500


class Uncleanable(NamedTuple):
    """Times are by the wall clock."""

    reason: str
    since_ms: int
    failed_ms: int
    """When it failed last."""
    failures: int
    pause_ms: int

    @property
    def retry_at_ms(self) -> int:
        return self.failed_ms + self.pause_ms


class UncleanablePartitions:
    """Who may call: the owner's thread."""

    def __init__(self, env: Env, first_pause_ms: int) -> None:
        self.first_pause_ms = first_pause_ms
        self._env = env
        self._entries: dict[str, dict[TopicPartition, Uncleanable]] = {}
        self._retries: dict[TopicPartition, int] = {}  # by the clock that never jumps
        self._files: dict[str, _OrderedFile] = {}

    def of(self, directory: str) -> Mapping[TopicPartition, Uncleanable]:
        return self._entries.get(directory, {})

    @property
    def directories(self) -> list[str]:
        return [directory for directory, entries in self._entries.items() if entries]

    def must_wait(self, partition: TopicPartition) -> bool:
        return self._retries.get(partition, 0) > self._env.clock.monotonic_ms()

    def failed(self, directory: str, partition: TopicPartition, error: Exception) -> Uncleanable:
        """A clean has failed, once more maybe."""
        now_ms = self._env.clock.now_ms()
        entries = self._entries.setdefault(directory, {})
        before = entries.get(partition)
        failures = before.failures + 1 if before is not None else 1
        pause_ms = min(max(self.first_pause_ms, 1) << min(failures - 1, 40), LONGEST_PAUSE_MS)
        since_ms = before.since_ms if before is not None else now_ms
        reason = f"{type(error).__name__}: {error}"[:_MAX_REASON_CHARACTERS]
        entry = Uncleanable(reason, since_ms, now_ms, failures, pause_ms)
        entries[partition] = entry
        self._retries[partition] = self._env.clock.monotonic_ms() + pause_ms
        self._write(directory)
        return entry

    def forget(self, directory: str, partition: TopicPartition) -> None:
        """It was cleaned, or needs no cleaning any more."""
        if self._entries.get(directory, {}).pop(partition, None) is not None:
            self._retries.pop(partition, None)
            self._write(directory)

    def directory_failed(self, directory: str) -> None:
        for partition in self._entries.pop(directory, {}):
            self._retries.pop(partition, None)

    def begin(self, directory: str) -> None:
        """Remove what an earlier run has left."""
        self._write(directory)

    def _write(self, directory: str) -> None:
        if directory not in self._files:
            self._files[directory] = _OrderedFile(self._env.files, join(directory, UNCLEANABLE_FILE))
        write = self._files[directory].prepare(dict(self.of(directory)))
        self._env.jobs.run("write uncleanable partitions", write)


class _OrderedFile:
    """Written by several threads in the order in which its owner asked."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._lock = threading.Lock()
        self._prepared = 0
        self._written = 0

    def prepare(self, entries: Mapping[TopicPartition, Uncleanable]) -> Callable[[], None]:
        self._prepared += 1
        number = self._prepared

        def write() -> None:
            with self._lock:
                if number > self._written:
                    self._written = number
                    self._replace(entries)

        return write

    def _replace(self, entries: Mapping[TopicPartition, Uncleanable]) -> None:
        try:
            if entries:
                write_temporary(self._files, self._path + TEMPORARY_SUFFIX, _text_of(entries).encode(), sync=False)
                self._files.rename(self._path + TEMPORARY_SUFFIX, self._path)
            else:
                with suppress(FileNotFoundError):
                    self._files.unlink(self._path)
        except OSError as error:
            _log.warning("%s could not be written and is out of date: %s", self._path, error)


def _text_of(entries: Mapping[TopicPartition, Uncleanable]) -> str:
    partitions = [
        {"topic": partition.topic, "partition": partition.partition, **entry._asdict()}
        for partition, entry in entries.items()
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, indent=1) + "\n"


def read_uncleanable(files: Files, directory: str) -> dict[TopicPartition, Uncleanable]:
    """What the file of a data directory says. CorruptCheckpointError when it says nothing that can be understood."""
    path = join(directory, UNCLEANABLE_FILE)
    text = read_small_file(files, path, _MAX_FILE_BYTES)
    if text is None:
        return {}
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']!r}")
        return {
            TopicPartition(str(each["topic"]), int(each["partition"])): Uncleanable(
                str(each["reason"]), *(int(each[name]) for name in Uncleanable._fields[1:])
            )
            for each in document["partitions"]
        }
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError) as error:
        raise CorruptCheckpointError(f"{path} cannot be understood: {error}") from None
