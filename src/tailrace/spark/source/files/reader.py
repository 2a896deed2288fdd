"""A task's piece of a partition, read from the files of its folder.

Segments are read in large blocks into one buffer, from the batch that holds the first offset wanted to the one that
holds the last, both found through the indexes. A file that is open stays readable whatever its owner does with its
name, so only the step from one segment to the next meets a log that has changed: the folder is then listed again and
reading goes on at the same offset. Blocks are copied, not mapped: a mapping of a file that is cut ends the process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace.client.offsets import READ_COMMITTED
from tailrace.env import File, Files
from tailrace.spark.errors import PipelineError
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.source.decoding import Decoder
from tailrace.spark.source.files.folders import Checkpoints, LogFolders, Noted, PartitionFolder, Pause
from tailrace.spark.source.files.gaps import GapJudge
from tailrace.spark.source.files.read_only import ReadOnlyFiles
from tailrace.spark.source.files.segment_reader import SegmentReader
from tailrace.spark.source.files.segments import Segment, SegmentList, list_segments
from tailrace.spark.source.files.transactions import Aborted, aborted_in
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.ranges import EVER, OffsetRange
from tailrace.storage.transaction_index import AbortedTxn

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES: Final = 20


def read_files(
    options: SourceOptions,
    piece: OffsetRange,
    decoder: Decoder,
    loss: LossPolicy,
    *,
    files: Files | None = None,
    pause: Pause = time.sleep,
) -> Iterator[pa.RecordBatch]:
    """Exactly `piece`, all but what the decoder still holds (`Decoder.rest`).

    Raises PipelineError where `path` is not there or may not be read, DataLossError or CorruptMessageError as loss and
    damage go.
    """
    if options.path is None:
        raise PipelineError("there is no path to read files from")
    readable = ReadOnlyFiles(files)
    folder = LogFolders(readable, options.path, pause=pause).one(piece.partition)
    if folder is None:
        loss.lost(piece.partition, piece.start, piece.end, f"path {options.path!r} does not hold it any more")
        return
    try:
        yield from _FolderReader(options, folder, piece, decoder, loss, readable, pause).batches()
    except PermissionError as error:  # unlike other errors of files it is the same however often it is tried
        raise PipelineError(f"{error.filename} may not be read here: {error.strerror}") from error


class _FolderReader:
    """`decoder.next_offset` is how far it has come: everything below is given out, told as lost, or not wanted."""

    def __init__(
        self,
        options: SourceOptions,
        folder: PartitionFolder,
        piece: OffsetRange,
        decoder: Decoder,
        loss: LossPolicy,
        files: Files,
        pause: Pause,
    ) -> None:
        self._folder = folder
        self._piece = piece
        self._decoder = decoder
        self._loss = loss
        self._files = files
        self._topic_id = piece.topic_id or folder.topic_id(files)
        self._gaps = GapJudge(files, folder, decoder, loss, pause)
        self._reads_committed = options.isolation == READ_COMMITTED
        self._skips_corrupt = options.skip_corrupt
        self._noted = Noted()
        self._segments = SegmentList([], [], False)
        self._aborted = Aborted()
        self._passed: set[AbortedTxn] = set()
        self._exhausted: Segment | None = None
        self._misses = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        piece, decoder = self._piece, self._decoder
        self._noted = Checkpoints(self._files, self._folder.log_dir).of(piece.partition)
        if not self._list():
            return
        if self._noted.log_start is not None and decoder.next_offset < self._noted.log_start:
            self._lose_up_to(self._noted.log_start, f"the log starts at offset {self._noted.log_start} now")
        reader = SegmentReader(
            self._files, piece, decoder, self._gaps, self._noted.recovery_point, skips_corrupt=self._skips_corrupt
        )
        while decoder.next_offset < piece.end:
            segment = self._next_segment()
            if segment is None:
                return
            try:
                file = segment.open(self._files)
            except FileNotFoundError:
                if not self._list():
                    return
                continue
            try:
                if self._is_of_another_topic():
                    return
                if self._reads_committed and not self._aborted.is_true_of(segment, file):
                    if not self._list():
                        return
                    continue
                if decoder.times.first_ms > EVER[0] and self._skip_older(reader, segment, file):
                    continue
                self._misses = 0
                yield from reader.read(segment, file, self._to_pass(segment))
                self._exhausted = segment
            finally:
                file.close()

    # From segment to segment

    def _list(self) -> bool:
        """What the folder holds now. False when it is gone, or another topic's, which is told."""
        self._misses += 1
        if self._misses > _TRIES:
            raise PipelineError(f"the files of {self._folder.path} change faster than they can be read")
        self._exhausted = None
        try:
            if self._reads_committed:
                start, end = self._decoder.next_offset, self._piece.end
                self._segments, self._aborted = aborted_in(self._files, self._folder.path, start, end)
            else:
                self._segments = list_segments(self._files, self._folder.path)
        except FileNotFoundError:
            self._lose_up_to(self._piece.end, f"folder {self._folder.path} is not there any more")
            return False
        if self._is_of_another_topic():
            return False
        if self._reads_committed:
            self._refuse_forgotten()
        return True

    def _is_of_another_topic(self) -> bool:
        """Whether the folder has become that of a topic of the same name, which is told."""
        found_id = self._folder.topic_id(self._files)
        if found_id is None or self._topic_id in (None, found_id):
            return False
        why = f"the topic was deleted and made again: its id was {self._topic_id} and is {found_id}"
        self._lose_up_to(self._piece.end, why)
        return True

    def _refuse_forgotten(self) -> None:
        """A transaction that the decoder waits for the end of must still have one."""
        known = {(each.producer_id, each.first_offset) for each in self._aborted.transactions}
        for each in self._passed:
            if each.last_offset >= self._decoder.next_offset and (each.producer_id, each.first_offset) not in known:
                raise PipelineError(
                    f"{self._folder.partition} was compacted while it was read, and the end of an aborted transaction "
                    f"at offset {each.last_offset} went with it: read it again"
                )

    def _next_segment(self) -> Segment | None:
        """The one that should hold the next offset, or comes after it. None when that is all, which is told."""
        offset = self._decoder.next_offset
        segment = self._segments.at(offset)
        if segment is None:
            return self._behind_start(offset)
        exhausted = self._exhausted
        if exhausted is None or exhausted.base_offset < segment.base_offset:
            return segment
        # Any number of segments in a row may be empty: a cleaner leaves such where all records were superseded.
        following = self._segments.behind(exhausted.base_offset)
        if following is None:
            return self._behind_end(offset)
        if following.base_offset >= self._piece.end:
            self._pass_gap(self._piece.end)
            return None
        return following

    def _behind_start(self, offset: int) -> Segment | None:
        first = self._segments.first
        if first is None:
            self._lose_up_to(self._piece.end, f"folder {self._folder.path} has no segments")
            return None
        self._lose_up_to(first.base_offset, f"the first segment begins at offset {first.base_offset} now")
        return first if self._decoder.next_offset < self._piece.end else None

    def _behind_end(self, offset: int) -> Segment | None:
        """The last segment that is listed has no more. It may have rolled since."""
        before = self._segments.segments
        if not self._list():
            return None
        if self._segments.segments != before:
            return self._next_segment()
        if not self._decoder.goes_with_damage(offset, self._piece.end):
            self._lose_up_to(self._piece.end, f"the log in {self._folder.path} ends at offset {offset}")
        return None

    # What is passed over

    def _lose_up_to(self, end: int, why: str) -> None:
        start, end = self._decoder.next_offset, min(end, self._piece.end)
        if start < end:
            self._loss.lost(self._folder.partition, start, end, why)
            self._decoder.next_offset = end

    def _pass_gap(self, end: int) -> None:
        self._gaps.judge(self._decoder.next_offset, end)
        self._decoder.next_offset = end

    def _skip_older(self, reader: SegmentReader, segment: Segment, file: File) -> bool:
        """Pass over what is older than the times wanted; True when that is all of the segment.

        The decoder sees the end of each aborted transaction that it was told of: such a marker is not passed over.
        """
        target = reader.floor_of(segment, file)
        offset = self._decoder.next_offset
        if target <= offset or any(offset <= each.last_offset < target for each in self._passed):
            return False
        self._decoder.next_offset = min(target, self._piece.end)
        return segment.behind is not None and target >= segment.behind

    def _to_pass(self, segment: Segment) -> list[AbortedTxn]:
        """The aborted transactions that begin in this segment or before, and were not passed on yet."""
        offset, behind = self._decoder.next_offset, segment.behind
        new = [
            each
            for each in self._aborted.transactions
            if each not in self._passed
            and each.last_offset >= offset
            and (behind is None or each.first_offset < behind)
        ]
        self._passed.update(new)
        return new
