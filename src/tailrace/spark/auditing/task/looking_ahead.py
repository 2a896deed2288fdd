"""Whether batches that are to be judged still come: a batch before them cannot lie above the high watermark.

A base offset is not covered by a CRC. One with a wrong bit may claim to be above the high watermark, where nothing is
judged; that the log goes on below it says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from tailrace.env import File
from tailrace.model.errors import CorruptMessageError
from tailrace.record.batch import HEADER_BYTES, BatchHeader
from tailrace.record.shallow import ShallowBatch
from tailrace.spark.auditing.task.search import Search
from tailrace.spark.source.files.headers import headers, is_intact

_MOST_DAMAGES: Final = 64


def last_judged(file: File, search: Search, position: int, low: int, judged_to: int) -> int:
    """The position of the last intact batch at or behind `position` whose offsets begin in [low, judged_to); −1
    without one. Below `low` lies what the log had before: such a batch says nothing of those around it."""
    last = -1
    for at, batch in _batches(file, search, position, judged_to):
        if low <= batch.base_offset < judged_to and is_intact(file, at, batch):
            last = at
    return last


def _batches(file: File, search: Search, position: int, judged_to: int) -> Iterator[tuple[int, ShallowBatch]]:
    """All from `position` on, also behind damage."""
    for _ in range(_MOST_DAMAGES):
        with suppress(CorruptMessageError):
            for at, batch in headers(file, position):
                position = at + batch.size
                yield at, batch
        if position >= search.limit or _is_being_written(file, position, search.limit, judged_to):
            return
        found = search.next_batch(position + 1)
        if found is None:
            return
        position = found


def _is_being_written(file: File, position: int, limit: int, judged_to: int) -> bool:
    """Whether a batch above the high watermark begins that the file does not have whole. What its records hold may look
    like batches of any offsets."""
    head = file.read_at(HEADER_BYTES, position)
    if len(head) < HEADER_BYTES:
        return True
    header = BatchHeader.at(head)
    return header.base_offset >= judged_to and position + header.size > limit
