"""The batches of one replica from an offset on, across its segments, as runs of bytes.

A run is what is whole and ascends; its CRCs are not looked at. What cannot be framed is a hole, told by the offsets
that it may have had. The folder may be in use: segments that went away are looked for again under what
took their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tailrace.env import File, Files
from tailrace.model.errors import CorruptMessageError
from tailrace.model.offsets import GREATEST_OFFSET
from tailrace.record.batch import HEADER_BYTES
from tailrace.record.batch_run import BatchRun
from tailrace.record.kernels import BATCH_END, BATCH_LAST_OFFSET, BATCH_ROW, BATCH_START
from tailrace.record.shallow import ShallowBatch, next_batch
from tailrace.spark.source.files.headers import batch_at
from tailrace.spark.source.files.seeking import next_indexed, seek
from tailrace.spark.source.files.segments import Segment, list_segments

BLOCK_BYTES: Final = 2 << 20
MAX_BATCH_BYTES: Final = 128 << 20  # what is larger is a hole: nobody holds so much for a comparison
_MOST_BATCHES: Final = BLOCK_BYTES // HEADER_BYTES + 1
_MOST_EPOCH: Final = 2**31 - 1
_TRIES: Final = 20

Numbers = npt.NDArray[np.int64]


@dataclass
class Run:
    """Batches that follow each other in one file."""

    path: str
    position: int
    """Of `data` in the file."""
    data: bytes
    starts: Numbers
    """Where each batch begins in `data`, and last where the last one ends."""
    firsts: Numbers
    """Base offsets; of compressed messages older than format v2 the last one: they do not say their first."""
    lasts: Numbers

    def __len__(self) -> int:
        return len(self.firsts)

    def from_batch(self, number: int) -> Run:
        return Run(self.path, self.position, self.data, self.starts[number:], self.firsts[number:], self.lasts[number:])

    def before_offset(self, offset: int) -> Run:
        count = int(np.searchsorted(self.firsts, offset))
        return Run(
            self.path, self.position, self.data, self.starts[: count + 1], self.firsts[:count], self.lasts[:count]
        )

    def bytes_from(self, number: int) -> npt.NDArray[np.uint8]:
        first, end = int(self.starts[number]), int(self.starts[-1])
        return np.frombuffer(self.data, np.uint8, end - first, first)

    def batch(self, number: int) -> ShallowBatch:
        """In `data`."""
        found = next_batch(self.data, int(self.starts[number]), int(self.starts[number + 1]))
        assert found is not None
        return found


NO_BATCHES: Final = Run("", 0, b"", np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


class BatchStream:
    """Of batches whose first offset is in [start, end). `holes` grow as runs are taken."""

    def __init__(self, files: Files, folder: str, start: int, end: int) -> None:
        self._files = files
        self._folder = folder
        self._start = start
        self._end = end
        self._next = start
        self._walked = BatchRun(_MOST_BATCHES)
        self.holes: list[tuple[int, int]] = []
        """Stretches [first, behind) of which nothing is known."""

    def runs(self) -> Iterator[Run]:
        """Not empty, in the order of offsets. OSError where the disk fails."""
        for segment, file in self._segments():
            for run in self._runs_in(segment, file):
                wanted = run.from_batch(int(np.searchsorted(run.firsts, self._start))).before_offset(self._end)
                if len(wanted):
                    yield wanted
                if self._next >= self._end:
                    return

    def is_known(self, first: int, behind: int) -> bool:
        """Whether no hole touches [first, behind)."""
        return all(behind <= start or end <= first for start, end in self.holes)

    def _segments(self) -> Iterator[tuple[Segment, File]]:
        """Each open while it is the turn of its batches."""
        tries = 0
        done = -1  # base offset of the last segment that was read to its end
        listed = list_segments(self._files, self._folder)
        while self._next < self._end:
            segment = listed.at(self._next) or listed.first
            if segment is not None and segment.base_offset <= done:
                segment = listed.behind(done)
            if segment is None or segment.base_offset >= self._end:
                return
            try:
                file = segment.open(self._files)
            except FileNotFoundError:
                tries += 1
                if tries > _TRIES:
                    self._hole(segment)
                    return
                listed = list_segments(self._files, self._folder)
                continue
            try:
                yield segment, file
            finally:
                file.close()
            done = segment.base_offset

    def _runs_in(self, segment: Segment, file: File) -> Iterator[Run]:
        position = 0
        if self._next > segment.base_offset:
            position = seek(self._files, segment, file, self._next).position
        wanted = BLOCK_BYTES
        while data := file.read_at(wanted, position):
            run = self._framed(file.path, position, data)
            if run is not None:
                yield run
                if self._next >= self._end:
                    return
                position += int(run.starts[-1])
                wanted = BLOCK_BYTES
                continue
            batch = batch_at(file, position)
            if batch is not None and len(data) < batch.size <= MAX_BATCH_BYTES:
                wanted = batch.size
                continue
            if batch is not None and batch.size <= len(data) and batch.last_offset < self._next:
                position += batch.size  # doubled or swapped: its offsets were there already
                continue
            behind = next_indexed(self._files, segment, file, position, self._next) if any(data) else None
            if behind is None or behind.batch is None:
                if any(data[:HEADER_BYTES]):
                    self._hole(segment)
                return
            self.holes.append((self._next, behind.batch.base_offset))
            position, wanted = behind.position, BLOCK_BYTES

    def _hole(self, segment: Segment) -> None:
        """From here to the end of the segment."""
        behind = self._end if segment.behind is None else max(segment.behind, self._next)
        self.holes.append((self._next, behind))
        self._next = behind

    def _framed(self, path: str, position: int, data: bytes) -> Run | None:
        """The batches at the beginning of `data`, None where none is whole and in order."""
        walked = self._walked
        walked.walk(memoryview(data), 0, len(data), max(self._next_v2(data), 0), GREATEST_OFFSET, _MOST_EPOCH)
        if not walked.count:
            return self._framed_old(path, position, data)
        rows = np.frombuffer(walked.rows, np.int64)[: BATCH_ROW * walked.count].reshape(-1, BATCH_ROW)
        starts = np.append(rows[:, BATCH_START], rows[-1, BATCH_END])
        lasts = rows[:, BATCH_LAST_OFFSET].copy()
        raw = np.frombuffer(data, np.uint8)[starts[:-1, None] + np.arange(8)]
        firsts = np.ascontiguousarray(raw).view(">i8").reshape(-1).astype(np.int64)
        self._next = int(lasts[-1]) + 1
        return Run(path, position, data, starts, firsts, lasts)

    def _next_v2(self, data: bytes) -> int:
        """The first batch of all may begin before the offset that was looked for, and hold it."""
        if self._next > self._start:
            return self._next
        return min(self._next, int.from_bytes(data[:8], "big", signed=True))

    def _framed_old(self, path: str, position: int, data: bytes) -> Run | None:
        """Batches of older formats."""
        ends, lasts = [0], []
        try:
            while (batch := next_batch(data, ends[-1], len(data))) is not None:
                if batch.is_v2 or batch.last_offset < self._next:
                    break
                ends.append(batch.end)
                lasts.append(batch.last_offset)
                self._next = batch.last_offset + 1
        except CorruptMessageError:
            pass
        if not lasts:
            return None
        offsets = np.array(lasts, np.int64)
        return Run(path, position, data, np.array(ends, np.int64), offsets, offsets)
