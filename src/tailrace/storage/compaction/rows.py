"""Room for the rows of walked records, and payloads walked through it piece by piece.

A batch can have more records than anyone wants to have rows for at once (a row is 64 bytes, a record may be seven), so
a payload is walked in pieces of up to ROWS records.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from tailrace.env import Buffer
from tailrace.model.errors import InvalidRecordError
from tailrace.record import kernels
from tailrace.record.batch import LOG_APPEND_TIME
from tailrace.record.shallow import ShallowBatch
from tailrace.record.walk import new_rows

ROWS: Final = 16_384


class Rows:
    """One array, used again and again. `cells` are what the kernels take."""

    __slots__ = ("cells",)

    def __init__(self) -> None:
        self.cells: array[int] = new_rows(ROWS)

    def walk_payload(self, buffer: Buffer, start: int, end: int, batch: ShallowBatch) -> Iterator[int]:
        """Walk the uncompressed records of one batch; yields for each piece how many it has.

        Raises InvalidRecordError unless they are exactly as many as the batch states, and have its offsets in order.
        """
        count = batch.record_count
        same_timestamp, base_timestamp = timestamps_of(batch)
        position, left, first_offset = start, count, batch.base_offset
        while left > 0:
            taken, position = kernels.walk_some(
                buffer, position, end, left, batch.base_offset, base_timestamp, same_timestamp, self.cells
            )
            if taken < min(left, ROWS):
                raise InvalidRecordError(
                    f"record {count - left + taken} of the batch at offset {batch.base_offset} is not well formed"
                )
            if not kernels.are_in_order(self.cells, taken, first_offset, batch.last_offset):
                raise InvalidRecordError(
                    f"records {count - left} to {count - left + taken - 1} of the batch at offset {batch.base_offset} "
                    f"do not have ascending offsets up to {batch.last_offset}"
                )
            first_offset = self.cells[kernels.ROW * (taken - 1) + kernels.OFFSET] + 1
            left -= taken
            yield taken
        if position != end or count < 0:
            raise InvalidRecordError(
                f"batch at offset {batch.base_offset} has {end - position} bytes behind its {count} records"
            )


def timestamps_of(batch: ShallowBatch) -> tuple[bool, int]:
    """Whether all records have the same timestamp, and which, or what their deltas count from."""
    if batch.timestamp_type == LOG_APPEND_TIME:
        return True, batch.max_timestamp
    return False, batch.base_timestamp
