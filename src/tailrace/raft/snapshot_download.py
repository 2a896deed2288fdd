"""A snapshot that is fetched from the leader: written to a `.part` file chunk by chunk, verified, renamed.

Crash rule. The file gets its name when all of it was read back, has a header and a footer, and is durable. A crash
leaves the part, which the next load removes.

Who may call. The driver, on the node's thread. Chunks are written at once, to the page cache; the rest is a job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from tailrace.env import Env, File, Mode, write_fully
from tailrace.model.errors import CorruptMetadataError, TailraceError
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.raft import snapshot
from tailrace.raft.metadata_log import SnapshotFacts
from tailrace.raft.snapshot import SnapshotHead, SnapshotId, SnapshotReader
from tailrace.storage.names import join

_log = logging.getLogger(__name__)


class DownloadedSnapshot(NamedTuple):
    """`prepared` is what `prepare` has made of the records."""

    facts: SnapshotFacts
    head: SnapshotHead
    prepared: Any


class SnapshotDownload:
    """At most one snapshot at a time. An error of the disk is kept until `finish` reports it."""

    def __init__(self, env: Env, directory: str, prepare: Callable[[Iterator[VersionedRecord]], Any]) -> None:
        """`prepare` reads the records of a whole snapshot, in a job."""
        self._env = env
        self._directory = directory
        self._prepare = prepare
        self._id: SnapshotId | None = None
        self._file: File | None = None
        self._part = ""
        self._size = 0
        self._error: OSError | None = None

    def begin(self, snapshot_id: SnapshotId) -> None:
        self.abandon()
        self._id, self._size, self._error = snapshot_id, 0, None
        name = f"{snapshot_id}-{self._env.random.getrandbits(63)}{snapshot.PARTIAL_SUFFIX}"
        self._part = join(self._directory, name)
        try:
            self._file = self._env.files.open(self._part, Mode.REPLACE)
        except OSError as error:
            self._error = error

    def write(self, chunk: bytes, position: int) -> None:
        if self._file is None or self._error is not None:
            return
        if position != self._size:
            self._error = OSError(f"a chunk for position {position} of {self._size} bytes")
            return
        try:
            write_fully(self._file, (chunk,), position)
        except OSError as error:
            self._error = error
        self._size += len(chunk)

    def abandon(self) -> None:
        file, self._file, self._id = self._file, None, None
        if file is not None:
            file.close()
            with suppress(OSError):  # the next load removes it
                self._env.files.unlink(self._part)

    def finish(self, done: Callable[[DownloadedSnapshot], None], failed: Callable[[Exception], None]) -> None:
        """`failed` gets an OSError or TailraceError, and the file is gone."""
        file, snapshot_id, part, error = self._file, self._id, self._part, self._error
        self._file = self._id = None

        def work() -> DownloadedSnapshot:
            if file is None or snapshot_id is None or error is not None:
                raise error or OSError("no snapshot was begun")
            file.sync()
            head, prepared = self._verify(part)
            found = DownloadedSnapshot(SnapshotFacts(file.size(), head.timestamp_ms), head, prepared)
            file.close()
            self._env.files.rename(part, join(self._directory, snapshot_id.name))
            self._env.files.sync_dir(self._directory)
            return found

        def clean_up(reason: Exception) -> None:
            if not isinstance(reason, OSError | TailraceError):
                raise reason
            _log.warning("%s: snapshot %s of the leader is refused: %s", self._directory, snapshot_id, reason)
            with suppress(OSError):
                self._env.files.unlink(part)
            failed(reason)

        self._env.jobs.run("install-snapshot", work, done, clean_up)

    def _verify(self, path: str) -> tuple[SnapshotHead, Any]:
        reader = SnapshotReader(self._env.files, path)
        prepared = self._prepare(reader.records())
        head = reader.head()
        if head.kraft_version > 0 and not head.voters:
            raise CorruptMetadataError(f"{path} has kraft.version {head.kraft_version} and no voters")
        return head, prepared
