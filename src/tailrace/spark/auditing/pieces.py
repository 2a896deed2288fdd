"""What goes to executors and what comes back: pieces of segments, and all that the driver must know of each.

A piece is a stretch of one segment's bytes. It begins at a batch, which the offset index or the piece before told, and
goes to the first batch boundary at or behind its `end`. Where that is not the start of the next piece, somebody lied:
the driver then has the segment audited again in one piece.

What one piece cannot know of another is in its `Seam`: the driver holds seams against each other in the order of
offsets (`job.stitching`), so that no task ever waits for another.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.model.ids import TopicPartition
from tailrace.spark.auditing.figures import TopicFigures
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.task.producer_seam import ProducerStretch
from tailrace.storage.epoch_cache import EpochEntry


@dataclass(frozen=True)
class AuditPiece:
    """Of one segment. Picklable; goes to executors."""

    partition: TopicPartition
    folder: str
    base_offset: int
    next_base: int | None
    """Base offset of the next segment; None for the last one, which may be being written."""
    is_swap: bool = False
    """The log file still has the ending `.swap`."""
    start: int = 0
    """The position of its first batch. 0 for the first piece: that one also looks at the segment's files as such."""
    end: int | None = None
    """Ends at the first batch boundary at or behind this position; None: at the end of the file."""
    judged_to: int | None = None
    """The high watermark: what lies at or above it may still change and is only read, not judged; None: judge all."""
    is_closed: bool = False
    """Its broker closed all logs and is not running: bytes above the high watermark have to be whole, too."""
    cleaned_to: int = 0
    """Below this offset compaction has been: offsets and sequences may be missing."""
    is_compacted: bool = False
    """The topic is known to be compacted: what was copied from another replica may lack what compaction took there."""
    is_being_cleaned: bool = False
    """The folder shows a compaction that is under way: gaps anywhere below the last segment may be its work."""
    epochs: tuple[EpochEntry, ...] = ()
    """Those of leader-epoch-checkpoint that ascend."""
    indexes: frozenset[str] = frozenset()
    """Names of the index files of this segment that were listed."""
    snapshot_offsets: tuple[int, ...] = ()
    """Of the folder's producer snapshots, ascending: the state of producers is told at each within the piece."""

    @property
    def is_first(self) -> bool:
        return self.start == 0


@dataclass(frozen=True)
class Seam:
    """The two edges of a piece."""

    start_position: int
    end_position: int
    """Behind the last byte that was framed as a batch, or passed over as damage."""
    is_whole: bool
    """Everything to the end was read; False where nothing from `end_position` on could be framed."""
    first_offset: int | None = None
    """Base offset of the first intact batch; None without one."""
    next_offset: int | None = None
    """Behind the last intact batch."""
    starts_damaged: bool = False
    """Damaged bytes stand before the first intact batch: what lies behind the piece before is not known."""
    ends_damaged: bool = False
    ends_unjudged: bool = False
    """From `end_position` on everything lies at or above the high watermark, and nothing of it was judged."""
    first_epoch: int = -1
    """Leader epoch of the first batch that has one."""
    last_epoch: int = -1
    without_epoch: tuple[int, int] | None = None
    """(offset, position) of the first batch of format v2, if it has no leader epoch."""
    largest_timestamp: int = -1
    first_time_entry: tuple[int, int, int] | None = None
    """(timestamp, offset, position in the index) of the first entry of the time index that is about this piece."""
    last_time_entry: int | None = None
    """Timestamp of the last such entry, −1 without one; None where index or log are damaged, or there is no index."""
    producers: tuple[ProducerStretch, ...] = ()
    """In order; several where producer snapshots were taken within the piece."""


@dataclass
class PieceResult:
    piece: AuditPiece
    seam: Seam
    findings: list[Finding]
    figures: TopicFigures
    read_bytes: int = 0
    identity: tuple[int, int] = (0, 0)
    """Device and inode of the log file that was read."""
    size: int = 0
    """Of that file when it was opened."""
