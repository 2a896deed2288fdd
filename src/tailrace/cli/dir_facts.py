"""What is in a data directory, read off its files without opening a log: nothing is written, nothing is locked.

May be asked of a directory that a broker uses. Then the facts are those of slightly different moments, checkpoints are
as old as the broker's last ones, and files that go away meanwhile are no fault.

What cannot be read becomes a `Problem`; everything else is told all the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from tailrace.cli.dir_lock import LockHolder, lock_holder
from tailrace.cli.log_end import LogEnd, find_log_end
from tailrace.env import Files
from tailrace.model.errors import InvalidDataError, StorageError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.storage import names
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.cleaner.uncleanable import UNCLEANABLE_FILE, Uncleanable, read_uncleanable
from tailrace.storage.compaction import planner
from tailrace.storage.compaction.planner import SegmentSize
from tailrace.storage.manager import directory_names
from tailrace.storage.manager.clean_shutdown import CLEAN_SHUTDOWN_FILE
from tailrace.storage.manager.directory_files import CHECKPOINT_FILES, KNOWN_FILES
from tailrace.storage.manager.directory_names import Role
from tailrace.storage.manager.log_directory import LOCK_FILE
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE, MetaProperties

INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
"""Always compacted."""

DAMAGE_HINT: Final = "`tailrace log verify {}` tells what is damaged"
_BLOCK_BYTES: Final = 512  # what stat counts in
_ATTEMPTS: Final = 3

T = TypeVar("T")


class Problem(NamedTuple):
    message: str
    hint: str = ""


class Cleaning(NamedTuple):
    """A compacted log in bytes. Those that wait are in the active segment or beyond the high watermark."""

    checkpoint: int | None
    clean_bytes: int
    dirty_bytes: int
    waiting_bytes: int
    dirty_ratio: float
    """What `min.cleanable.dirty.ratio` is held against."""
    uncleanable: Uncleanable | None


class PartitionFacts(NamedTuple):
    """`log_end` is None where it could not be read; checkpoints are None where there is no entry."""

    partition: TopicPartition
    path: str
    log_bytes: int
    disk_bytes: int
    segments: int
    log_start: int
    log_end: int | None
    recovery_point: int | None
    high_watermark: int | None
    cleaning: Cleaning | None
    problem: Problem | None = None


class OtherEntry(NamedTuple):
    """Something beside the logs that serve; `size_bytes` is None for what is not ours to look into."""

    name: str
    kind: str
    size_bytes: int | None


@dataclass(slots=True)
class DirectoryFacts:
    path: str
    is_known: bool = False
    """Something in it is a broker's."""
    meta: MetaProperties | None = None
    holder: LockHolder | None = None
    is_clean: bool = False
    """The marker of a clean shutdown is there."""
    free_bytes: int = 0
    total_bytes: int = 0
    partitions: list[PartitionFacts] = field(default_factory=list)
    others: list[OtherEntry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """Of files beside the partitions."""

    @property
    def log_bytes(self) -> int:
        return sum(each.log_bytes for each in self.partitions)

    @property
    def disk_bytes(self) -> int:
        return sum(each.disk_bytes for each in self.partitions)

    @property
    def segments(self) -> int:
        return sum(each.segments for each in self.partitions)


class _Checkpoints(NamedTuple):
    recovery_point: Mapping[TopicPartition, int]
    log_start: Mapping[TopicPartition, int]
    high_watermark: Mapping[TopicPartition, int]
    cleaner: Mapping[TopicPartition, int]


class _Listed(NamedTuple):
    """A partition's directory: its segments, in order, and the bytes that all files have on the disk."""

    segments: list[SegmentSize]
    disk_bytes: int


class DirectoryReader:
    """Of one data directory. `compacted` are topics that are known to compact though nothing here says so."""

    def __init__(self, files: Files, path: str, compacted: Collection[str] = ()) -> None:
        self._files = files
        self._path = path
        self._compacted = frozenset((*INTERNAL_TOPICS, *compacted))
        self._facts = DirectoryFacts(path)
        self._uncleanable: Mapping[TopicPartition, Uncleanable] = {}

    def read(self, wanted: Callable[[TopicPartition], bool]) -> DirectoryFacts:
        """Of the partitions only those that are wanted. An OSError of listing the directory passes through."""
        facts = self._facts
        entries = sorted(os.scandir(self._path), key=lambda entry: entry.name)
        space = os.statvfs(self._path)
        facts.free_bytes, facts.total_bytes = space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
        facts.meta = self._try(META_PROPERTIES_FILE, self._meta)
        facts.holder = self._try(LOCK_FILE, lambda path: lock_holder(path))
        facts.is_clean = any(entry.name == CLEAN_SHUTDOWN_FILE for entry in entries)
        checkpoints = _Checkpoints(*(self._try(name, self._offsets) or {} for name in CHECKPOINT_FILES))
        self._uncleanable = self._try(UNCLEANABLE_FILE, self._reasons) or {}
        self._compacted |= {each.topic for each in (*checkpoints.cleaner, *self._uncleanable)}
        for entry in entries:
            partition = None if entry.name in KNOWN_FILES else self._partition_of(entry)
            facts.is_known |= partition is not None or entry.name in KNOWN_FILES
            if partition is not None and wanted(partition):
                facts.partitions.append(self._read_partition(partition, entry.path, checkpoints))
        return facts

    # Beside the partitions

    def _try(self, name: str, read: Callable[[str], T]) -> T | None:
        """None, and a problem noted, for a file that cannot be read."""
        try:
            return read(names.join(self._path, name))
        except TailraceError as error:
            self._facts.problems.append(Problem(str(error), error.hint))
        except OSError as cause:
            self._facts.problems.append(_problem_of(names.join(self._path, name), cause))
        return None

    def _meta(self, path: str) -> MetaProperties | None:
        return MetaProperties.read(self._files, path)

    def _offsets(self, path: str) -> dict[TopicPartition, int]:
        return OffsetCheckpoint(self._files, path).read()

    def _reasons(self, path: str) -> Mapping[TopicPartition, Uncleanable]:
        return read_uncleanable(self._files, names.directory_of(path))

    def _partition_of(self, entry: os.DirEntry[str]) -> TopicPartition | None:
        """None, and the entry noted, for what is no log that serves."""
        if not _is_dir(entry):
            self._facts.others.append(OtherEntry(entry.name, "unknown file", _size_of(entry)))
            return None
        if directory_names.is_ours(entry.name):
            is_cache = entry.name == directory_names.REMOTE_INDEX_CACHE
            kind = "index cache of tiered storage" if is_cache else "log of the cluster's metadata"
            self._facts.others.append(OtherEntry(entry.name, kind, _bytes_in(entry.path)))
            return None
        try:
            partition, role = directory_names.parse(entry.name)
        except InvalidDataError:
            self._facts.others.append(OtherEntry(entry.name, "unknown directory", None))
            return None
        if role is Role.CURRENT:
            return partition
        self._facts.others.append(OtherEntry(entry.name, ROLES[role], _bytes_in(entry.path)))
        return None

    # A partition

    def _read_partition(self, partition: TopicPartition, path: str, checkpoints: _Checkpoints) -> PartitionFacts:
        problem = None
        listed, end = _Listed([], 0), None
        try:
            listed, end = self._look_into(path, checkpoints.log_start.get(partition, 0))
            if end.damage:
                name = names.log_name(listed.segments[-1].base_offset)
                problem = Problem(f"{path}/{name}: {end.damage}; what follows is not counted", DAMAGE_HINT.format(path))
        except OSError as cause:
            problem = _problem_of(path, cause)
        first = listed.segments[0].base_offset if listed.segments else 0
        log_start = max(checkpoints.log_start.get(partition, 0), first)
        log_end = None if end is None else end.offset
        return PartitionFacts(
            partition,
            path,
            sum(each.log_bytes for each in listed.segments),
            listed.disk_bytes,
            len(listed.segments),
            log_start,
            log_end,
            checkpoints.recovery_point.get(partition),
            checkpoints.high_watermark.get(partition),
            self._cleaning_of(partition, listed.segments, log_start, log_end, checkpoints),
            problem,
        )

    def _look_into(self, path: str, log_start: int) -> tuple[_Listed, LogEnd]:
        """Again if the last segment went while we looked."""
        for attempt in range(_ATTEMPTS):
            listed = _list(path)
            if not listed.segments:
                return listed, LogEnd(log_start)
            try:
                return listed, find_log_end(self._files, path, listed.segments[-1].base_offset)
            except FileNotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _cleaning_of(
        self,
        partition: TopicPartition,
        segments: list[SegmentSize],
        log_start: int,
        log_end: int | None,
        checkpoints: _Checkpoints,
    ) -> Cleaning | None:
        if partition.topic not in self._compacted or not segments or log_end is None:
            return None
        checkpoint = checkpoints.cleaner.get(partition)
        first_dirty = planner.first_dirty(checkpoint, log_start, log_end).offset
        active_base = segments[-1].base_offset
        bound = min(active_base, checkpoints.high_watermark.get(partition, active_base))
        cleanable = planner.log_to_clean(first_dirty, max(bound, first_dirty), segments)
        dirty = cleanable.cleanable_bytes
        waiting_from = max(cleanable.first_uncleanable_offset, first_dirty)
        waiting = sum(each.log_bytes for each in segments if each.base_offset >= waiting_from)
        # The segment where the dirty part begins counts for both parts in Kafka's ratio; here it is dirty.
        clean = sum(each.log_bytes for each in segments) - dirty - waiting
        return Cleaning(
            checkpoint,
            clean,
            dirty,
            waiting,
            cleanable.cleanable_ratio,
            self._uncleanable.get(partition),
        )


ROLES: Final = {
    Role.DELETED: "deleted, to be removed",
    Role.STRAY: "stray, not served",
    Role.FUTURE: "being moved here",
}


def _problem_of(path: str, cause: OSError) -> Problem:
    error = StorageError(f"read {path}", cause)
    return Problem(str(error), error.hint)


def _list(path: str) -> _Listed:
    segments: list[SegmentSize] = []
    disk_bytes = 0
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                stat = entry.stat()
            except FileNotFoundError:
                continue
            disk_bytes += stat.st_blocks * _BLOCK_BYTES
            offset = names.parse_offset(entry.name) if entry.name.endswith(names.LOG_SUFFIX) else None
            if offset is not None and entry.name == names.log_name(offset):
                segments.append(SegmentSize(offset, stat.st_size))
    segments.sort()
    return _Listed(segments, disk_bytes)


def _is_dir(entry: os.DirEntry[str]) -> bool:
    """A link that leads nowhere, or in circles, is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _size_of(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return None


def _bytes_in(path: str) -> int | None:
    """Of the files in a directory, on the disk; None where it cannot be listed."""
    try:
        return _list(path).disk_bytes
    except OSError:
        return None
