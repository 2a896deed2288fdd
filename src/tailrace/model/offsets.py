"""Places in a log: a logical offset and where its bytes are."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN_POSITION = -1
GREATEST_OFFSET = 2**63 - 2
"""Of a record: the one after it, where a log ends, must be an int64 too."""
MAX_RELATIVE_OFFSET = 2**31 - 1


class LogOffsetMetadata(NamedTuple):
    """An offset with the segment and byte position that hold it; either may be unknown (−1)."""

    offset: int
    segment_base: int = -1
    position: int = UNKNOWN_POSITION

    @property
    def is_offset_only(self) -> bool:
        return self.position == UNKNOWN_POSITION


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class OffsetPosition(NamedTuple):
    offset: int
    position: int
