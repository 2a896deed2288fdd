"""What an audit is about: log directories, folders of partitions in them, and their files as they were at one moment.

All of it is plain, frozen and picklable: folders go to executors as they are. `job.listing` makes them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tailrace.model.ids import TopicPartition
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.source.files.folders import Noted
from tailrace.storage import names
from tailrace.storage.names import join


class FileStatus(NamedTuple):
    """Two that are equal are of one file that nobody changed between."""

    size: int
    modified_ns: int
    changed_ns: int
    device: int
    inode: int

    @property
    def identity(self) -> tuple[int, int]:
        """As `PieceResult.identity` has it."""
        return self.device, self.inode


@dataclass(frozen=True)
class ListedSegment:
    """A segment of a folder when it was listed."""

    folder: str
    base_offset: int
    next_base: int | None
    """Base offset of the next one; None for the last, which may be being written."""
    is_swap: bool
    """The log file still has the ending `.swap`: whole, and about to take its name."""
    status: FileStatus
    """Of the log file."""
    indexes: Mapping[str, FileStatus] = field(default_factory=dict)
    """Names of its index files, as they were listed."""

    @property
    def name(self) -> str:
        return names.log_name(self.base_offset) + (names.SWAP_SUFFIX if self.is_swap else "")

    @property
    def path(self) -> str:
        return join(self.folder, self.name)

    @property
    def size(self) -> int:
        return self.status.size


@dataclass(frozen=True)
class Folder:
    """Of one partition: one replica of it."""

    partition: TopicPartition
    path: str
    log_dir: str
    """Where its checkpoints are, if there are any."""
    cluster_id: str | None = None
    """None where no meta.properties says so."""
    node_id: int | None = None
    """Of the broker whose log directory it is."""
    topic_id: str | None = None
    """As Kafka prints it; None where the folder does not say, or cannot."""
    noted: Noted = field(default_factory=Noted)
    """What the checkpoints of its log directory said just before the files were listed."""
    segments: tuple[ListedSegment, ...] = ()
    """By base offset. A compaction that is under way may make them overlap."""
    snapshots: tuple[int, ...] = ()
    """Offsets of the producer snapshots, ascending."""
    names: frozenset[str] = frozenset()
    """Of all files that were listed, segments and snapshots among them."""
    directories: frozenset[str] = frozenset()
    """Names of what is in it and no file. None of a log's are."""
    statuses: Mapping[str, FileStatus] = field(default_factory=dict)
    """Of all files, by name."""
    is_closed: bool = False
    """The log directory says that all of its logs were closed: nobody is writing them."""
    has_log_starts: bool = False
    """The log directory has a checkpoint of log starts that can be read."""
    is_compacted: bool = False
    """The topic is known to be compacted, here or at another replica (`job.compacted_topics`)."""
    is_being_cleaned: bool = False
    """Something in it tells of a compaction: under way, or done within the delay of deletion."""
    alive_ms: int = 0
    """The newest sign of life of its broker: when a checkpoint of the log directory, or its own last segment, was last
    written. How long ago something was is measured against this, not against a clock: a copy of a log does not age."""
    is_unlisted: bool = False
    """The log directory has a checkpoint of high watermarks that does not name this partition, and the folder is about
    as young as that: nothing of it is known to be committed yet."""

    @property
    def log_start(self) -> int:
        """The first offset that the log has: noted, or the first segment's where that is higher."""
        first = self.segments[0].base_offset if self.segments else 0
        return max(first, self.noted.log_start or 0)

    def not_written_before_ms(self, offset: int, *, is_last: bool) -> int:
        """When the batch with this offset was written at the earliest, by the times of files. `is_last`: none that is
        judged stands behind it in its segment.

        Whatever a producer says of the time: the folder was there before the batch, the segment before was complete.
        """
        own = max(bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1, 0)
        times = [segment.status.modified_ns for segment in self.segments[max(own - 1, 0) : own + 1 if is_last else own]]
        metadata = self.statuses.get(names.PARTITION_METADATA)
        return max([*times, 0 if metadata is None else metadata.modified_ns]) // 10**6

    @property
    def judged_to(self) -> int | None:
        """The high watermark; what lies at or above it may still change. None: all can be judged, nobody notes one."""
        return 0 if self.is_unlisted else self.noted.high_watermark

    @property
    def cleaned_to(self) -> int:
        """The cleaner's point: below it compaction has been. 0 where it never was, and where it cannot be where the
        point says: a log that was closed ends at its recovery point."""
        point, end = self.noted.cleaned_to or 0, self.noted.recovery_point
        is_behind = self.is_closed and end is not None and point > max(end, self.log_start)
        return 0 if is_behind else point

    def is_same_as(self, other: Folder) -> bool:
        """Whether nobody changed anything that findings are made of."""
        mine, others = self.noted, other.noted
        return (
            self.statuses == other.statuses
            and self.is_closed == other.is_closed
            and self.directories == other.directories
            and (mine.log_start, mine.cleaned_to) == (others.log_start, others.cleaned_to)
        )

    @property
    def size(self) -> int:
        """Of its segments, in bytes, without indexes."""
        return sum(segment.size for segment in self.segments)


@dataclass(frozen=True)
class LogDirectory:
    path: str
    cluster_id: str | None = None
    node_id: int | None = None
    names: frozenset[str] = frozenset()
    """Of the files beside the folders."""
    directories: frozenset[str] = frozenset()
    """Of all folders in it, those of no partition, too."""
    is_whole: bool = True
    """False where only folders within it were asked for: its own files are then nobody's question."""


@dataclass(frozen=True)
class Places:
    """All that paths name, and what was wrong with them on the way."""

    directories: tuple[LogDirectory, ...] = ()
    folders: tuple[Folder, ...] = ()
    findings: tuple[Finding, ...] = ()


class ReplicaGroup(NamedTuple):
    """Folders of one partition of one cluster, of different brokers: at least two, by node id."""

    partition: TopicPartition
    folders: tuple[Folder, ...]


def replica_groups(folders: tuple[Folder, ...]) -> list[ReplicaGroup]:
    """What can be compared.

    Of one cluster, as meta.properties says; where none does, topic ids that are the same say it as well. A broker has a
    partition once: a node id that comes twice is a copy, or a move between disks about to end, and only the first is
    taken. Folders with different topic ids are of different topics.
    """
    groups: dict[tuple[str | None, str | None, TopicPartition], dict[object, Folder]] = {}
    for folder in folders:
        if folder.cluster_id is None and folder.topic_id is None:
            continue
        key = (folder.cluster_id, folder.topic_id, folder.partition)
        broker: object = folder.log_dir if folder.node_id is None else folder.node_id
        groups.setdefault(key, {}).setdefault(broker, folder)
    return [
        ReplicaGroup(partition, tuple(group.values())) for (_, _, partition), group in groups.items() if len(group) > 1
    ]
