"""Reads of the metadata log and its snapshots for other nodes.

What was written last is read at once, from the page cache; a read further back, or of a snapshot, is a job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from tailrace.env import Env, Jobs, Mode
from tailrace.model.errors import TailraceError
from tailrace.raft.consensus import ErrorCode
from tailrace.record.shallow import batches
from tailrace.storage.fetch import FetchData, Isolation
from tailrace.storage.unified_log import UnifiedLog

HOT_BYTES: Final = 4 << 20
"""Of the end of the active segment, which a read at once may be in."""


class ChunkRead(Protocol):
    def __call__(self, error: ErrorCode, size_bytes: int, chunk: bytes) -> None: ...


def read_batches(
    jobs: Jobs, log: UnifiedLog, offset: int, end_offset: int, max_bytes: int, done: Callable[[bytes], None]
) -> None:
    """Whole batches from `offset` up to `end_offset`; at least one, whatever `max_bytes` says.

    Nothing, if the log was cut or trimmed in the meantime, or cannot be read: the other node asks again.
    """
    try:
        found = log.read(offset, max(max_bytes, 0), Isolation.LOG_END)
    except TailraceError:
        done(b"")
        return
    if _is_hot(log, found):
        done(_whole(found, end_offset))
    else:
        jobs.run("read-metadata-log", lambda: _whole(found, end_offset), done)


def _is_hot(log: UnifiedLog, found: FetchData) -> bool:
    active = log.local.active
    is_active = found.start.segment_base == active.base_offset
    return found.records is None or (is_active and active.size - found.records.position <= HOT_BYTES)


def _whole(found: FetchData, end_offset: int) -> bytes:
    try:
        data = found.read()
        end = 0
        for batch in batches(data):
            if batch.next_offset > end_offset:
                break
            end = batch.end
    except TailraceError:
        return b""
    return data[:end]


def read_chunk(env: Env, path: str, position: int, max_bytes: int, done: ChunkRead) -> None:
    """A part of a snapshot, of at least one byte."""

    def work() -> tuple[ErrorCode, int, bytes]:
        try:
            file = env.files.open(path, Mode.READ)
        except OSError:
            return ErrorCode.SNAPSHOT_NOT_FOUND, 0, b""
        try:
            size_bytes = file.size()
            if position >= size_bytes:
                return ErrorCode.POSITION_OUT_OF_RANGE, 0, b""
            return ErrorCode.NONE, size_bytes, file.read_at(min(max(max_bytes, 1), size_bytes - position), position)
        except OSError:
            return ErrorCode.SNAPSHOT_NOT_FOUND, 0, b""
        finally:
            file.close()

    env.jobs.run("read-snapshot", work, lambda found: done(*found))
