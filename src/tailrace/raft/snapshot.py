"""Snapshots of the metadata: names, and reading them.

    00000000000000000045-0000000001.checkpoint          the state before offset 45, whose last record is of epoch 1
    00000000000000000045-0000000001-N.checkpoint.part   being written; N is any number
    00000000000000000045-0000000001.checkpoint.deleted  to be unlinked soon

A file is a row of record batches with offsets of their own, from 0:

    control batch   SnapshotHeader; from kraft.version 1 on also KRaftVersion and Voters
    batches         metadata records
    control batch   SnapshotFooter

`bootstrap.checkpoint`, the first records of a new cluster, has the same form. Crash rule: a file has its name only when
all of it is durable. What cannot be read is CorruptMetadataError; memory is bounded by one batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tailrace.env import File, Files, Mode
from tailrace.model.errors import (
    CorruptMetadataError,
    InvalidDataError,
    MessageTooLargeError,
    StorageError,
    UnsupportedVersionError,
)
from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import VersionedRecord, decode_metadata_record
from tailrace.protocol.records.control import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from tailrace.raft.control_batch import MAX_DECOMPRESSED_BYTES, control_records
from tailrace.raft.voters import STATIC_VOTERS, Voter, voters_of
from tailrace.record.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC_V2
from tailrace.record.reader import records_of
from tailrace.record.shallow import UP_TO_MAGIC_BYTES, ShallowBatch, check_integrity, next_batch

SUFFIX: Final = ".checkpoint"
PARTIAL_SUFFIX: Final = SUFFIX + ".part"
DELETED_SUFFIX: Final = SUFFIX + ".deleted"
MAX_BATCH_BYTES: Final = 64 << 20
"""Kafka cuts batches at 8 MiB."""

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})(?:-[^/]*)?(\.checkpoint(?:\.part|\.deleted)?)")


class SnapshotId(NamedTuple):
    """The offset behind the last record that it contains, and that record's epoch. They sort by age."""

    offset: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.offset:020d}-{self.epoch:010d}"

    @property
    def name(self) -> str:
        return f"{self}{SUFFIX}"


class SnapshotName(NamedTuple):
    """What a file name says; `suffix` tells a snapshot from one that is not whole or not wanted any more."""

    id: SnapshotId
    suffix: str


def parse_name(name: str) -> SnapshotName | None:
    """None for a file that is no snapshot."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    offset, epoch = int(found[1]), int(found[2])
    if offset >= 2**63 or epoch >= 2**31:
        return None
    return SnapshotName(SnapshotId(offset, epoch), found[3])


class SnapshotHead(NamedTuple):
    """`timestamp_ms` is of the last record of the log that the snapshot contains."""

    timestamp_ms: int
    kraft_version: int = STATIC_VOTERS
    voters: tuple[Voter, ...] = ()


class SnapshotReader:
    """Opens the file with each call and closes it when the call, or what it returned, ends."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def head(self) -> SnapshotHead:
        for _, _, controls in self._batches():
            return self._head_of(controls)
        raise CorruptMetadataError(f"{self._path} is empty")

    def records(self) -> Iterator[VersionedRecord]:
        """All metadata records. It fails at the end where the footer is missing."""
        is_first, is_ended = True, False
        for data, batch, controls in self._batches():
            if is_ended:
                raise CorruptMetadataError(f"{self._path} goes on behind its footer")
            if is_first:
                self._head_of(controls)
                is_first = False
            is_ended = any(isinstance(control, SnapshotFooterRecord) for control in controls)
            if not batch.is_control:
                yield from self._metadata_records(data, batch)
        if not is_ended:
            raise CorruptMetadataError(f"{self._path} ends without a footer")

    def _head_of(self, controls: list[Record]) -> SnapshotHead:
        if not controls or not isinstance(controls[0], SnapshotHeaderRecord):
            raise CorruptMetadataError(f"{self._path} does not begin with the header of a snapshot")
        head = SnapshotHead(controls[0].last_contained_log_timestamp)
        for control in controls:
            if isinstance(control, KRaftVersionRecord):
                head = head._replace(kraft_version=control.kraft_version)
            elif isinstance(control, VotersRecord):
                head = head._replace(voters=voters_of(control))
        return head

    def _metadata_records(self, data: bytes, batch: ShallowBatch) -> Iterator[VersionedRecord]:
        """Errors of our own file's bytes only: what the caller raises between two records is not ours."""
        try:
            found = [self._decoded(record.value) for record in records_of(data, batch, MAX_DECOMPRESSED_BYTES)]
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(f"{self._path}: {error}") from None
        except (InvalidDataError, MessageTooLargeError) as error:
            raise CorruptMetadataError(f"{self._path}: {error}") from None
        yield from found

    def _decoded(self, value: bytes | None) -> VersionedRecord:
        if value is None:
            raise CorruptMetadataError("a metadata record has no value")
        return decode_metadata_record(value)

    def _batches(self) -> Iterator[tuple[bytes, ShallowBatch, list[Record]]]:
        """Bytes, header, and control records where it is a control batch."""
        try:
            file = self._files.open(self._path, Mode.READ)
        except OSError as cause:
            raise StorageError(f"open {self._path}", cause) from cause
        try:
            position = 0
            while (data := self._batch_at(file, position)) is not None:
                try:
                    batch = next_batch(data, 0, len(data))
                    if batch is None:
                        raise CorruptMetadataError(f"no whole batch at position {position}")
                    check_integrity(data, batch)
                    controls = [record for _, record in control_records(data, batch)] if batch.is_control else []
                except UnsupportedVersionError as error:
                    raise UnsupportedVersionError(f"{self._path} at {position}: {error}") from None
                except (InvalidDataError, MessageTooLargeError) as error:
                    raise CorruptMetadataError(f"{self._path} at {position}: {error}") from None
                yield data, batch, controls
                position += len(data)
        finally:
            file.close()

    def _batch_at(self, file: File, position: int) -> bytes | None:
        """The bytes of one batch, None at the end of the file."""
        try:
            left = file.size() - position
            if left <= 0:
                return None
            start = file.read_at(UP_TO_MAGIC_BYTES, position)
            size = int.from_bytes(start[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
            if len(start) < UP_TO_MAGIC_BYTES or start[-1] != MAGIC_V2:
                raise CorruptMetadataError(f"{self._path} has no batch of magic 2 at {position}")
            if not HEADER_BYTES <= size <= min(left, MAX_BATCH_BYTES):
                raise CorruptMetadataError(f"{self._path} has a batch of {size} bytes at {position} of {left} left")
            return file.read_at(size, position)
        except OSError as cause:
            raise StorageError(f"read {self._path} at {position}", cause) from cause
