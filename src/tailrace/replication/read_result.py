"""What a read of a partition gives."""

from __future__ import annotations

from typing import NamedTuple

from tailrace.replication.epoch_truncation import EpochEnd
from tailrace.storage.fetch import FetchData


class ReadResult(NamedTuple):
    """The offsets are those of the moment before the read."""

    data: FetchData
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging: EpochEnd | None = None
    """The reader's log is not this one from here on; there is no data then."""
