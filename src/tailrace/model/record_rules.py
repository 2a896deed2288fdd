"""What a leader requires of each record of a batch, and the records that break it.

Only these rules are about single records: a batch that breaks one is refused as a whole, and each of its records that
breaks one is reported. A malformed record refuses the batch without a report of single records, as in Kafka.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

NO_KEY, OUT_OF_RANGE, BROKER_STAMPED = range(3)
"""Faults of a record: a compacted topic requires a key; the timestamp is out of range; the batch claims that its
timestamps were set by a broker."""


class RecordRules(NamedTuple):
    """The rules at the time of an append. Timestamps are milliseconds and may lie outside of int64."""

    require_key: bool
    earliest_ms: int
    latest_ms: int


class RejectedRecord(NamedTuple):
    record_index: int
    """In its batch."""
    fault: int
    timestamp: int
    key_length: int
    """−1 for a null key."""
    value_length: int


_COLUMNS = len(RejectedRecord._fields)


class RejectedRecords:
    """The records of one batch that break its rules, in order. Held as int64 rows: there can be thousands."""

    def __init__(self, rules: RecordRules, rows: array[int], *, is_compressed: bool = False) -> None:
        """A row has the fields of a `RejectedRecord`."""
        self.rules = rules
        self.is_compressed = is_compressed
        """Of the batch."""
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows) // _COLUMNS

    def __iter__(self) -> Iterator[RejectedRecord]:
        rows = self._rows
        return (RejectedRecord(*rows[start : start + _COLUMNS]) for start in range(0, len(rows), _COLUMNS))

    def count_of(self, fault: int) -> int:
        return self._rows[1::_COLUMNS].count(fault)
