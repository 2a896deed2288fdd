"""Writing a snapshot of the metadata; see `snapshot` for the file.

Crash rule. It is written under another name, synced, renamed, and the directory synced. A crash leaves the part, which
the next load removes, or the whole.

Who may call. The calls may come from any thread, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from tailrace.env import Clock, File, Files, Mode, write_fully
from tailrace.model.invariant import invariant
from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import VersionedRecord, encode_metadata_record
from tailrace.protocol.records.control import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord
from tailrace.raft.control_batch import control_batch
from tailrace.raft.snapshot import SnapshotHead
from tailrace.raft.voters import STATIC_VOTERS, voters_record
from tailrace.record.builder import BatchBuilder
from tailrace.storage.names import directory_of
from tailrace.storage.steps import Steps

BATCH_BYTES: Final = 128 << 10
"""A batch ends with the record that reaches it: so much is encoded in one step, while a thread elsewhere waits."""


class SnapshotWriter:
    """One snapshot. An error leaves the part; `discard` removes it."""

    def __init__(self, files: Files, clock: Clock, part: str, path: str, *, epoch: int, head: SnapshotHead) -> None:
        """Touches no file."""
        self._files = files
        self._clock = clock
        self._part = part
        self._path = path
        self._epoch = epoch
        self._head = head
        self._file: File | None = None
        self._next_offset = 0
        self.size = 0

    def in_steps(self, records: Iterator[VersionedRecord]) -> Steps[int]:
        """Returns the size of the file. What is left of it is removed when the work is called off or fails."""
        try:
            yield self.begin
            while (yield partial(self.write_some, records)):
                pass
            yield self.finish
        except Exception:
            yield self.discard
            raise
        return self.size

    def begin(self) -> None:
        self._file = self._files.open(self._part, Mode.REPLACE)
        head = self._head
        records: list[Record] = [SnapshotHeaderRecord(version=0, last_contained_log_timestamp=head.timestamp_ms)]
        if head.kraft_version > STATIC_VOTERS:
            records.append(KRaftVersionRecord(version=0, kraft_version=head.kraft_version))
            if head.voters:
                records.append(voters_record(head.voters))
        self._write_control(records)

    def write_some(self, records: Iterator[VersionedRecord]) -> int:
        """The next batch of records; returns its bytes, 0 when there were no more."""
        builder = BatchBuilder(self._next_offset, leader_epoch=self._epoch)
        now_ms = self._clock.now_ms()
        for record, version in records:
            builder.append(now_ms, None, encode_metadata_record(record, version))
            if builder.uncompressed_bytes >= BATCH_BYTES:
                break
        if not builder.record_count:
            return 0
        self._write(builder.build(), builder.record_count)
        return builder.uncompressed_bytes

    def finish(self) -> int:
        """Returns the size; the snapshot is durable under its name."""
        self._write_control([SnapshotFooterRecord(version=0)])
        assert self._file is not None
        self._file.sync()
        self._file.close()
        self._files.rename(self._part, self._path)
        self._files.sync_dir(directory_of(self._path))
        return self.size

    def discard(self) -> None:
        """After an error, or when it is not wanted any more."""
        if self._file is not None:
            self._file.close()
        with suppress(OSError):  # the next load removes it
            self._files.unlink(self._part)

    def _write_control(self, records: list[Record]) -> None:
        self._write(control_batch(records, self._next_offset, self._epoch, self._clock.now_ms()), len(records))

    def _write(self, batch: bytearray, record_count: int) -> None:
        invariant(self._file is not None, f"{self._part} was begun")
        assert self._file is not None
        write_fully(self._file, (batch,), self.size)
        self.size += len(batch)
        self._next_offset += record_count


def write_snapshot(
    files: Files, clock: Clock, path: str, records: Iterator[VersionedRecord], head: SnapshotHead, epoch: int = 0
) -> None:
    """All of it before returning: for a directory that is being formatted, which nobody serves from yet."""
    writer = SnapshotWriter(files, clock, path + ".tmp", path, epoch=epoch, head=head)
    try:
        writer.begin()
        while writer.write_some(records):
            pass
        writer.finish()
    except OSError:
        writer.discard()
        raise
