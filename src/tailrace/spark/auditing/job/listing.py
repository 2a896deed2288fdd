"""From paths to what is there now: checkpoints first, then files.

A path is a log directory, or the folder of one partition; several may stand in one text with commas between them. All
folders that serve are taken, the metadata log's among them; those that are deleted, stray or being built by a move are
not, unless a path names one itself.

Checkpoints are read before files: what they say is then true of the files, or of what the files have become since.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from tailrace.env import Entry, Files
from tailrace.model.errors import CorruptCheckpointError, InvalidDataError
from tailrace.model.ids import TopicPartition
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.compacted_topics import compacted_topics
from tailrace.spark.auditing.job.places import FileStatus, Folder, ListedSegment, LogDirectory, Places
from tailrace.spark.auditing.rules import GONE, METADATA, MIXED_CLUSTERS, UNREADABLE
from tailrace.spark.errors import MissingTopicError, OptionError
from tailrace.spark.source.files.folders import Noted
from tailrace.spark.source.files.segments import Segment, segments_among
from tailrace.storage import names
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.manager import directory_names
from tailrace.storage.manager.clean_shutdown import CLEAN_SHUTDOWN_FILE
from tailrace.storage.manager.directory_checkpoints import (
    CLEANER_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_FILE,
)
from tailrace.storage.manager.directory_files import CHECKPOINT_FILES
from tailrace.storage.manager.directory_names import METADATA_TOPIC, Role
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE, MetaProperties
from tailrace.storage.names import directory_of, join
from tailrace.storage.partition_metadata import PartitionMetadata

_TRIES: Final = 10
_YOUNG_NS: Final = 60 * 10**9
"""Brokers note high watermarks every few seconds: a folder that none names for so long is not just young."""
_NOTHING: Final = FileStatus(0, 0, 0, 0, 0)


class PlaceError(OptionError):
    """A path at which there is no log."""

    hint = "give log directories, which have a meta.properties, or folders of partitions, such as orders-0"


def find_places(files: Files, paths: Sequence[str], topics: Sequence[str] | None = None) -> Places:
    """All that `paths` name, of topics that one of `topics` matches (`*` and `?` as in a shell).

    PlaceError for a path that is not there or holds no log, MissingTopicError for topics that are nowhere.
    """
    given = [part for path in paths for part in _parts(files, path)]
    if not given:
        raise OptionError("there is no path to audit")
    directories: dict[str, LogDirectory] = {}
    wanted: dict[str, tuple[TopicPartition, str]] = {}
    findings: list[Finding] = []
    for path in dict.fromkeys(_canonical(files, each) for each in given):
        try:
            entries = files.list(path)
        except NotADirectoryError:
            raise PlaceError(f"path {path!r} is a file; a log directory, or a partition's folder, is audited") from None
        except OSError as error:
            findings.append(Finding(path, None, None, UNREADABLE, f"cannot be listed: {error.strerror or error}"))
            continue
        _take(files, path, entries, directories, wanted)
    if topics is not None:
        wanted = _of_topics(wanted, topics)
    findings += _mixed(directories.values())
    checkpoints = {path: read_checkpoints(files, path) for path in directories}
    cleaned = {path: found.offsets[CLEANER_FILE] for path, found in checkpoints.items()}
    compacted = compacted_topics(files, directories.values(), cleaned)
    folders: list[Folder] = []
    for path, (partition, log_dir) in sorted(wanted.items(), key=lambda item: (item[1][0], item[0])):
        try:
            folder = list_folder(files, partition, path, directories[log_dir], checkpoints[log_dir])
            folders.append(replace(folder, is_compacted=(folder.cluster_id, partition.topic) in compacted))
        except FileNotFoundError:
            findings.append(Finding(path, str(partition), None, GONE, "the folder went away before it was read"))
        except OSError as error:
            words = f"cannot be listed: {error.strerror or error}"
            findings.append(Finding(path, str(partition), None, UNREADABLE, words))
    findings += _other_topics(folders)
    return Places(tuple(directories.values()), tuple(folders), tuple(findings))


# Paths


def _parts(files: Files, path: str) -> list[str]:
    with suppress(OSError, ValueError):
        if files.exists(path):  # a comma may be part of a name
            return [path]
    return [part.strip() for part in path.split(",") if part.strip()]


def _canonical(files: Files, given: str) -> str:
    try:
        return files.canonical(given.removeprefix("file://"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PlaceError(f"path {given!r} cannot be read here: {reason}; driver and executors all need it") from None


def _take(
    files: Files,
    path: str,
    entries: Sequence[Entry],
    directories: dict[str, LogDirectory],
    wanted: dict[str, tuple[TopicPartition, str]],
) -> None:
    listed = frozenset(entry.name for entry in entries if not entry.is_dir)
    within = frozenset(entry.name for entry in entries if entry.is_dir)
    serving = {name: partition for name in within if (partition := _serving(name)) is not None}
    if names.PARTITION_METADATA in listed or any(_is_segment(name) for name in listed):
        try:
            partition = directory_names.parse(path.rpartition("/")[2]).partition
        except InvalidDataError as error:
            raise PlaceError(f"path {path!r} holds segments, but its name does not tell of what: {error}") from None
        log_dir = directory_of(path)
        directories.setdefault(log_dir, _directory(files, log_dir, frozenset(), frozenset(), is_whole=False))
        wanted[path] = (partition, log_dir)
    elif META_PROPERTIES_FILE in listed or serving:
        directories[path] = _directory(files, path, listed, within, is_whole=True)
        wanted.update({join(path, name): (partition, path) for name, partition in serving.items()})
    else:
        raise PlaceError(
            f"path {path!r} is no log directory: it has neither {META_PROPERTIES_FILE} nor folders topic-partition, "
            "and no segments of its own"
        )


def _directory(
    files: Files, path: str, listed: frozenset[str], within: frozenset[str], *, is_whole: bool
) -> LogDirectory:
    meta = None
    with suppress(CorruptCheckpointError, OSError):  # who looks at the directory's own files tells it
        meta = MetaProperties.read(files, join(path, META_PROPERTIES_FILE))
    if meta is None:
        return LogDirectory(path, None, None, listed, within, is_whole)
    return LogDirectory(path, meta.cluster_id, meta.node_id, listed, within, is_whole)


def _is_segment(name: str) -> bool:
    return name.endswith(names.LOG_SUFFIX) and names.parse_offset(name) is not None


def _serving(name: str) -> TopicPartition | None:
    """The partition that a folder of this name serves; None for any other."""
    try:
        found = directory_names.parse(name)
    except InvalidDataError:
        return None
    return found.partition if found.role is Role.CURRENT else None


def _of_topics(
    wanted: Mapping[str, tuple[TopicPartition, str]], topics: Sequence[str]
) -> dict[str, tuple[TopicPartition, str]]:
    there = {partition.topic for partition, _ in wanted.values()}
    missing = [each for each in topics if not any(fnmatchcase(topic, each) for topic in there)]
    if missing:
        raise MissingTopicError(f"no folder here is of topic {', '.join(missing)}", missing)
    chosen = {topic for topic in there if any(fnmatchcase(topic, each) for each in topics)}
    return {path: found for path, found in wanted.items() if found[0].topic in chosen}


# What several directories say of each other


def _mixed(directories: Iterable[LogDirectory]) -> list[Finding]:
    clusters: dict[str, str] = {}
    for directory in directories:
        if directory.cluster_id is not None:
            clusters.setdefault(directory.cluster_id, directory.path)
    if len(clusters) < 2:
        return []
    shown = "; ".join(f"{cluster} in {path}" for cluster, path in list(clusters.items())[:5])
    more = "" if len(clusters) <= 5 else f"; and {len(clusters) - 5} more"
    first = next(iter(clusters.values()))
    words = f"log directories of {len(clusters)} clusters, which are not compared: {shown}{more}"
    return [Finding(first, None, None, MIXED_CLUSTERS, words)]


def _other_topics(folders: Sequence[Folder]) -> list[Finding]:
    """Brokers of one cluster whose folders of one partition have different topic ids."""
    first: dict[tuple[str, TopicPartition], Folder] = {}
    found: list[Finding] = []
    for folder in folders:
        if folder.cluster_id is None or folder.topic_id is None:
            continue
        other = first.setdefault((folder.cluster_id, folder.partition), folder)
        if other.topic_id != folder.topic_id and other.node_id != folder.node_id:
            words = f"is of topic id {folder.topic_id}, but {other.path} is of {other.topic_id}"
            file = join(folder.path, names.PARTITION_METADATA)
            found.append(Finding(file, str(folder.partition), None, METADATA, words))
    return found


# One directory


@dataclass(frozen=True)
class DirectoryCheckpoints:
    """What was noted in one log directory, and when. One that cannot be read counts as one that is not there."""

    offsets: Mapping[str, Mapping[TopicPartition, int]]
    watermarks_ns: int | None
    """When high watermarks were last noted."""
    alive_ns: int
    is_closed: bool = False
    has_log_starts: bool = False

    def of(self, partition: TopicPartition) -> Noted:
        return Noted(
            high_watermark=self.offsets[REPLICATION_FILE].get(partition),
            has_high_watermarks=self.watermarks_ns is not None,
            log_start=self.offsets[LOG_START_FILE].get(partition),
            recovery_point=self.offsets[RECOVERY_POINT_FILE].get(partition),
            cleaned_to=self.offsets[CLEANER_FILE].get(partition),
        )


def read_checkpoints(files: Files, log_dir: str) -> DirectoryCheckpoints:
    offsets: dict[str, Mapping[TopicPartition, int]] = {name: {} for name in CHECKPOINT_FILES}
    alive_ns = 0
    read_ns: dict[str, int] = {}
    for name in CHECKPOINT_FILES:
        path = join(log_dir, name)
        with suppress(CorruptCheckpointError, OSError):
            written_ns = status_of(path).modified_ns
            alive_ns = max(alive_ns, written_ns)
            offsets[name] = OffsetCheckpoint(files, path).read()
            read_ns[name] = written_ns
    return DirectoryCheckpoints(
        offsets,
        read_ns.get(REPLICATION_FILE),
        alive_ns,
        is_closed=files.exists(join(log_dir, CLEAN_SHUTDOWN_FILE)),
        has_log_starts=LOG_START_FILE in read_ns,
    )


def status_of(path: str) -> FileStatus:
    found = os.stat(path)
    return FileStatus(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_dev, found.st_ino)


# One folder


def list_again(files: Files, folder: Folder) -> Folder:
    """As it is now. FileNotFoundError when it is gone."""
    directory = LogDirectory(folder.log_dir, folder.cluster_id, folder.node_id)
    now = list_folder(files, folder.partition, folder.path, directory, read_checkpoints(files, folder.log_dir))
    return replace(now, is_compacted=folder.is_compacted or now.noted.cleaned_to is not None)


def list_folder(
    files: Files, partition: TopicPartition, path: str, directory: LogDirectory, checkpoints: DirectoryCheckpoints
) -> Folder:
    """FileNotFoundError when it is gone; OSError when it cannot be read."""
    noted = checkpoints.of(partition)
    topic_id = None
    with suppress(CorruptCheckpointError, OSError):
        found_id = PartitionMetadata(files, path).read()
        topic_id = None if found_id is None else str(found_id)
    for tries_left in reversed(range(_TRIES)):
        entries = files.list(path)
        listed = frozenset(entry.name for entry in entries if not entry.is_dir)
        segments = segments_among(path, listed)
        statuses = _statuses(path, listed)
        if not tries_left or all(segment.path in statuses for segment in segments.segments):
            break  # else one went while they were looked at: there is a newer list
    places = tuple(_listed_segment(segment, listed, statuses) for segment in segments.segments)
    newest_ns = max((place.status.modified_ns for place in places), default=0)
    last_ns = places[-1].status.modified_ns if places else 0
    watermarks_ns = checkpoints.watermarks_ns
    is_unlisted = (
        noted.high_watermark is None
        and watermarks_ns is not None
        and partition.topic != METADATA_TOPIC  # a quorum notes no high watermark
        and newest_ns > watermarks_ns - _YOUNG_NS
    )
    return Folder(
        partition=partition,
        path=path,
        log_dir=directory.path,
        cluster_id=directory.cluster_id,
        node_id=directory.node_id,
        topic_id=topic_id,
        noted=noted,
        segments=places,
        snapshots=tuple(segments.snapshots),
        names=listed,
        statuses={at.rpartition("/")[2]: status for at, status in statuses.items()},
        directories=frozenset(entry.name for entry in entries if entry.is_dir),
        is_closed=checkpoints.is_closed,
        has_log_starts=checkpoints.has_log_starts,
        is_being_cleaned=segments.is_being_cleaned,
        alive_ms=max(checkpoints.alive_ns, last_ns) // 10**6,
        is_unlisted=is_unlisted,
    )


def _statuses(path: str, listed: Iterable[str]) -> dict[str, FileStatus]:
    """By path, of those that are still there. PermissionError where the folder may not be entered."""
    found: dict[str, FileStatus] = {}
    for name in listed:
        try:
            found[join(path, name)] = status_of(join(path, name))
        except FileNotFoundError:
            continue
        except PermissionError:  # which is about the folder: the status of a file needs no right on the file
            raise
        except OSError:  # who reads it tells why it cannot be
            found[join(path, name)] = _NOTHING
    return found


def _listed_segment(segment: Segment, listed: frozenset[str], statuses: Mapping[str, FileStatus]) -> ListedSegment:
    prefix = names.prefix_of(segment.base_offset)
    likely = [prefix + suffix + ending for suffix in names.INDEX_SUFFIXES for ending in ("", names.SWAP_SUFFIX)]
    paths = {name: join(segment.folder, name) for name in likely if name in listed}
    return ListedSegment(
        folder=segment.folder,
        base_offset=segment.base_offset,
        next_base=segment.behind,
        is_swap=segment.is_swap,
        status=statuses.get(segment.path, _NOTHING),
        indexes={name: statuses[path] for name, path in paths.items() if path in statuses},
    )
