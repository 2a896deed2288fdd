"""Batches of a data file by their headers, reading little else."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from tailrace.env import File
from tailrace.model.errors import CorruptMessageError
from tailrace.record.batch import ATTRIBUTES_AT, HEADER_BYTES, MAGIC_AT
from tailrace.record.shallow import ShallowBatch, next_batch

_LEAST_WINDOW_BYTES: Final = 4096
_GREATEST_WINDOW_BYTES: Final = 1 << 20
_FEW: Final = 4
_MANY: Final = 32
_CRC_BYTES: Final = 1 << 20


def headers(file: File, position: int = 0) -> Iterator[tuple[int, ShallowBatch]]:
    """Each whole batch from `position` on with its place in the file; the batch's own `position` is of no file.

    Ends at the end of the file, before a batch that is not whole, and before zeros: a file may be made longer before
    it is filled. Raises CorruptMessageError where other bytes than a batch stand. How much is read at a time
    follows the size of the batches: whole windows of small ones, little more than the headers of large ones.
    """
    size = file.size()
    window_bytes = _LEAST_WINDOW_BYTES
    while position < size:
        wanted = min(window_bytes, size - position)
        window = file.read_at(wanted, position)
        if len(window) < wanted:  # cut meanwhile
            size = position + len(window)
        start, count = position, 0
        while position - start + HEADER_BYTES <= len(window) or start + len(window) >= size:
            batch = _whole_batch(window, position - start, size - start)
            if batch is None:
                return
            yield position, batch
            position += batch.size
            count += 1
            if position - start >= len(window):
                break
        if count > _MANY:
            window_bytes = min(2 * window_bytes, _GREATEST_WINDOW_BYTES)
        elif count < _FEW:
            window_bytes = max(window_bytes // 2, _LEAST_WINDOW_BYTES)


def _whole_batch(window: bytes, at: int, limit: int) -> ShallowBatch | None:
    """None for what is not whole before `limit`, where the file ends, and for zeros."""
    try:
        if at >= len(window):
            return None
        return next_batch(window, at, limit if len(window) - at >= HEADER_BYTES else len(window))
    except CorruptMessageError:
        if not any(window[at : at + HEADER_BYTES]):
            return None
        raise


def batch_at(file: File, position: int) -> ShallowBatch | None:
    """The batch at `position` by its header; None where none stands, or not whole."""
    size = file.size()
    head = file.read_at(HEADER_BYTES, position) if 0 <= position < size else b""
    try:
        return next_batch(head, 0, size - position if len(head) == HEADER_BYTES else len(head)) if head else None
    except CorruptMessageError:
        return None


def is_intact(file: File, position: int, batch: ShallowBatch) -> bool:
    """Whether the batch has the CRC that it states."""
    at = position + (ATTRIBUTES_AT if batch.is_v2 else MAGIC_AT)
    end = position + batch.size
    crc = 0
    while at < end:
        piece = file.read_at(min(_CRC_BYTES, end - at), at)
        if not piece:
            return False
        crc = int(crc32c(piece, crc)) if batch.is_v2 else zlib.crc32(piece, crc)
        at += len(piece)
    return crc == batch.crc
