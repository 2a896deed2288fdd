"""What a read of a log gives: where it is, a slice of a file, and the aborted transactions in it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tailrace.env import File
from tailrace.model.errors import SegmentGoneError, StorageError
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.storage.records_file import RecordsFile
from tailrace.storage.transaction_index import AbortedTxn


class Isolation(Enum):
    """How far a reader may see."""

    LOG_END = "log_end"  # everything: followers
    HIGH_WATERMARK = "high_watermark"  # what every in-sync replica has: read_uncommitted
    TXN_COMMITTED = "txn_committed"  # below the first open transaction: read_committed


class LogSlice(NamedTuple):
    """`size` bytes of a segment from `position`; holds the handle, so deletion of the segment does not end it."""

    records: RecordsFile
    file: File
    position: int
    size: int
    cuts: int

    def read(self) -> bytes:
        """The bytes; SegmentGoneError when the segment was cut since the slice was taken."""
        try:
            data = self.file.read_at(self.size, self.position)
        except OSError as cause:
            raise StorageError(f"read {self.size} bytes of {self.records.path} at {self.position}", cause) from cause
        self.check()
        return data

    def check(self) -> None:
        """To be called after the bytes were sent some other way (sendfile) as well."""
        if self.records.cuts != self.cuts:
            raise SegmentGoneError(f"{self.records.path} was truncated while it was read")


class FetchData(NamedTuple):
    """`records` is None when there is nothing to read between the offset and the reader's bound."""

    start: LogOffsetMetadata
    records: LogSlice | None
    first_entry_incomplete: bool = False
    aborted: tuple[AbortedTxn, ...] | None = None

    def read(self) -> bytes:
        return b"" if self.records is None else self.records.read()
