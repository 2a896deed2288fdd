"""Which partitions the option `path` names, where their folders are, and what is noted beside them.

    /data/kafka                      a log directory: folders topic-partition, checkpoints, meta.properties
    /disk1/kafka,/disk2/kafka        several, as a broker with several disks has them
    /copies/orders-3                 the folder of one partition, alone or within its log directory

Folders of partitions that are deleted, stray or being built by a move are passed over; one that `path` names itself is
read whatever it is. A log directory holds what one broker holds: of a topic spread over several brokers, some
partitions.

Everything is looked up anew each time it is asked for: a broker may be at work.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from tailrace.env import Files
from tailrace.model.errors import CorruptCheckpointError, InvalidDataError
from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import PipelineError
from tailrace.storage import names
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.manager import directory_names
from tailrace.storage.manager.directory_checkpoints import (
    CLEANER_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_FILE,
)
from tailrace.storage.manager.directory_names import Role
from tailrace.storage.names import directory_of, join
from tailrace.storage.partition_metadata import PartitionMetadata

META_PROPERTIES: Final = "meta.properties"
_MOVE_TRIES: Final = 10
_MOVE_PAUSE_S: Final = 0.1

_log: Final = logging.getLogger("tailrace.spark")

Pause = Callable[[float], None]


class PartitionFolder(NamedTuple):
    partition: TopicPartition
    path: str
    log_dir: str
    """Where its checkpoints are, if there are any."""

    def topic_id(self, files: Files) -> str | None:
        """As Kafka prints it; None where the folder does not say."""
        found = PartitionMetadata(files, self.path).read()
        return None if found is None else str(found)


class Noted(NamedTuple):
    """What the checkpoints of a log directory say of one partition; None where they say nothing."""

    high_watermark: int | None = None
    has_high_watermarks: bool = False
    """Whether there is a checkpoint of high watermarks at all."""
    log_start: int | None = None
    recovery_point: int | None = None
    cleaned_to: int | None = None


class Checkpoints:
    """The checkpoints of one log directory, each read when it is first asked about."""

    def __init__(self, files: Files, log_dir: str) -> None:
        self._files = files
        self._log_dir = log_dir
        self._read: dict[str, Mapping[TopicPartition, int]] = {}

    def of(self, partition: TopicPartition) -> Noted:
        return Noted(
            high_watermark=self._offsets(REPLICATION_FILE).get(partition),
            has_high_watermarks=self._files.exists(join(self._log_dir, REPLICATION_FILE)),
            log_start=self._offsets(LOG_START_FILE).get(partition),
            recovery_point=self._offsets(RECOVERY_POINT_FILE).get(partition),
            cleaned_to=self._offsets(CLEANER_FILE).get(partition),
        )

    def _offsets(self, name: str) -> Mapping[TopicPartition, int]:
        if name not in self._read:
            try:
                self._read[name] = OffsetCheckpoint(self._files, join(self._log_dir, name)).read()
            except CorruptCheckpointError as error:
                if name == REPLICATION_FILE:  # without it nobody knows what is committed
                    raise
                _log.warning("%s; it counts as empty", error)
                self._read[name] = {}
        return self._read[name]


class LogFolders:
    """What `path` names. The directories have to be there on every machine that reads."""

    def __init__(self, files: Files, path: str, *, pause: Pause = time.sleep) -> None:
        """Raises PipelineError for a path that is missing or no log directory."""
        self._files = files
        self._pause = pause
        self._log_dirs: list[str] = []
        self._single: dict[TopicPartition, PartitionFolder] = {}
        for each in self._parts(path):
            self._take(each)

    def _parts(self, path: str) -> list[str]:
        with suppress(OSError, ValueError):
            if self._files.exists(path):  # a comma may be part of a name
                return [path]
        parts = [part.strip() for part in path.split(",")]
        if not all(parts):
            raise PipelineError(f"path {path!r} has an empty part between commas")
        return parts

    def _take(self, given: str) -> None:
        try:
            path = self._files.canonical(given.removeprefix("file://"))
            entries = self._files.list(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise PipelineError(
                f"path {given!r} cannot be read here: {reason}; driver and executors all need it at this place"
            ) from None
        listed = {entry.name for entry in entries if not entry.is_dir}
        if names.PARTITION_METADATA in listed or any(_is_segment(name) for name in listed):
            folder = self._named_itself(given, path)
            self._single[folder.partition] = folder
        elif META_PROPERTIES in listed or any(entry.is_dir and _current(entry.name) for entry in entries):
            if path not in self._log_dirs:
                self._log_dirs.append(path)
        else:
            raise PipelineError(
                f"path {given!r} is no log directory: it has neither {META_PROPERTIES} nor folders topic-partition, "
                "and no segments of its own"
            )

    def _named_itself(self, given: str, path: str) -> PartitionFolder:
        name = path.rpartition("/")[2]
        try:
            partition = directory_names.parse(name).partition
        except InvalidDataError as error:
            raise PipelineError(f"path {given!r} holds segments, but its name does not tell of what: {error}") from None
        return PartitionFolder(partition, path, directory_of(path))

    def all(self) -> dict[TopicPartition, PartitionFolder]:
        """PipelineError for a partition that is in two directories, and stays there."""
        tries = _MOVE_TRIES
        while True:
            found, twice = self._list()
            if twice is None:
                return found
            tries -= 1
            if not tries:
                other = found[twice.partition].path
                raise PipelineError(f"{twice.partition} is in two directories: {other} and {twice.path}")
            self._pause(_MOVE_PAUSE_S)  # at the end of a move between disks both have it for a moment

    def _list(self) -> tuple[dict[TopicPartition, PartitionFolder], PartitionFolder | None]:
        found = dict(self._single)
        for log_dir in self._log_dirs:
            for entry in self._files.list(log_dir):
                partition = _current(entry.name) if entry.is_dir else None
                if partition is None:
                    continue
                folder = PartitionFolder(partition, join(log_dir, entry.name), log_dir)
                if found.setdefault(partition, folder).path != folder.path:
                    return found, folder
        return found, None

    def one(self, partition: TopicPartition) -> PartitionFolder | None:
        """None when it is in none of the directories."""
        if partition in self._single:
            return self._single[partition]
        for attempt in range(2):  # a move from a directory already looked at to one still to come
            if attempt:
                self._pause(_MOVE_PAUSE_S)
            for log_dir in self._log_dirs:
                path = join(log_dir, str(partition))
                if self._files.exists(path):
                    return PartitionFolder(partition, path, log_dir)
        return None


def _is_segment(name: str) -> bool:
    return name.endswith(names.LOG_SUFFIX) and names.parse_offset(name) is not None


def _current(name: str) -> TopicPartition | None:
    """The partition that a folder of this name serves; None for any other folder."""
    if directory_names.is_ours(name):
        return None
    try:
        found = directory_names.parse(name)
    except InvalidDataError:
        return None
    return found.partition if found.role is Role.CURRENT else None
