"""Many v2 batches of a log at a time, seen from outside: found by a kernel, proven by their CRCs.

A run is what needs no thought: whole batches of magic 2 whose offsets go on from one to the next. It ends before the
first batch that is otherwise; whoever walks looks at that one with `shallow`. The arithmetic is in
`kernels.batch_run`.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from tailrace.model.errors import CorruptMessageError
from tailrace.model.invariant import invariant
from tailrace.model.offsets import GREATEST_OFFSET, TimestampOffset
from tailrace.record import kernels
from tailrace.record.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from tailrace.record.kernels import (
    BATCH_ATTRIBUTES,
    BATCH_CRC,
    BATCH_END,
    BATCH_LAST_OFFSET,
    BATCH_MAX_TIMESTAMP,
    BATCH_PRODUCER_EPOCH,
    BATCH_PRODUCER_ID,
    BATCH_ROW,
    BATCH_START,
)
from tailrace.record.shallow import ShallowBatch, next_batch

_OFFSET_ENTRY_BYTES = 8
_TIME_ENTRY_BYTES = 12


class RunEntries(NamedTuple):
    """The entries of a run in the sparse indexes of its segment, as they stand there."""

    offset_entries: bytes
    time_entries: bytes
    since_entry_bytes: int
    """What follows the last entry."""
    largest: TimestampOffset


class BatchRun:
    """Room for `max_batches`, used for one run after the other. `count` batches are in it.

    `rows` are what kernels take; see `kernels.batch_run`.
    """

    __slots__ = ("count", "rows")

    def __init__(self, max_batches: int) -> None:
        self.rows = array("q", bytes(8 * BATCH_ROW * max_batches))
        self.count = 0

    def walk(
        self, buffer: memoryview, start: int, end: int, next_offset: int, greatest_offset: int, latest_epoch: int
    ) -> None:
        """Take the whole batches of `buffer[start:end]`, the first of which holds `next_offset` or more.

        Ends before a batch that reaches beyond `greatest_offset` or is of a later leader epoch than `latest_epoch`.
        """
        if not 0 <= start <= end <= len(buffer):
            raise CorruptMessageError(f"batches from {start} to {end} are not in a buffer of {len(buffer)} bytes")
        greatest_offset = min(greatest_offset, GREATEST_OFFSET)
        self.count = kernels.walk_run(buffer, start, end, next_offset, greatest_offset, latest_epoch, self.rows)

    def intact(self, buffer: memoryview) -> int:
        """How many batches, from the first on, have the CRC that they state."""
        return kernels.check_run(buffer, self.rows, self.count)

    def keep(self, count: int) -> None:
        """Let go of the batches from number `count` on."""
        invariant(0 <= count <= self.count, f"{count} batches of a run of {self.count}")
        self.count = count

    def add(self, batch: ShallowBatch, start: int) -> None:
        """One more batch, which stands at `start`; there is room for it. It may be of any magic."""
        row = array("q", bytes(8 * BATCH_ROW))
        row[BATCH_START], row[BATCH_END] = start, start + batch.size
        row[BATCH_CRC] = batch.crc
        row[BATCH_LAST_OFFSET] = batch.last_offset
        row[BATCH_MAX_TIMESTAMP] = batch.max_timestamp
        row[BATCH_PRODUCER_ID] = batch.producer_id
        row[BATCH_PRODUCER_EPOCH] = batch.producer_epoch
        row[BATCH_ATTRIBUTES] = batch.attributes
        self.rows[BATCH_ROW * self.count : BATCH_ROW * (self.count + 1)] = row
        self.count += 1

    def part(self, first: int, behind: int) -> BatchRun:
        """A run of its own: the batches from number `first` to the one before `behind`."""
        made = BatchRun(0)
        made.rows = self.rows[BATCH_ROW * first : BATCH_ROW * behind]
        made.count = behind - first
        return made

    def to_replay(self, kept: int) -> list[int]:
        """The numbers of the batches that matter to whoever keeps the last `kept` batches of each producer.

        Those are all that have a producer id, but for what lies between the first and the last ones of a producer
        whose batches are all alike: it would be forgotten again.
        """
        producer_ids = self._column(BATCH_PRODUCER_ID)
        by_producer: dict[int, list[int]] = {}
        if max(producer_ids, default=-1) > -1:
            for place, producer_id in enumerate(producer_ids):
                if producer_id > -1:
                    by_producer.setdefault(producer_id, []).append(place)
        chosen: list[int] = []
        for places in by_producer.values():
            if len(places) > kept + 1 and self._are_alike(places):
                places = [places[0], *places[-kept:]]
            chosen += places
        chosen.sort()
        return chosen

    def _are_alike(self, places: list[int]) -> bool:
        """Data of one producer epoch, all of it in transactions or none."""
        epochs, attributes = self._column(BATCH_PRODUCER_EPOCH), self._column(BATCH_ATTRIBUTES)
        kinds = {(epochs[place], attributes[place] & (TRANSACTIONAL_BIT | CONTROL_BIT)) for place in places}
        return len(kinds) == 1 and not attributes[places[0]] & CONTROL_BIT

    def markers(self) -> list[int]:
        """The numbers of the control batches that have a producer id."""
        if max(self._column(BATCH_PRODUCER_ID), default=-1) < 0:
            return []
        found = zip(self._column(BATCH_PRODUCER_ID), self._column(BATCH_ATTRIBUTES), strict=True)
        return [n for n, (producer_id, attributes) in enumerate(found) if producer_id > -1 and attributes & CONTROL_BIT]

    def batch(self, place: int, buffer: memoryview) -> ShallowBatch:
        """The batch of that number, in the buffer that was walked."""
        at = BATCH_ROW * place
        found = next_batch(buffer, self.rows[at + BATCH_START], self.rows[at + BATCH_END])
        assert found is not None
        return found

    @property
    def end(self) -> int:
        """Where in the buffer the last batch ends."""
        return self.rows[BATCH_ROW * (self.count - 1) + BATCH_END]

    def span(self, place: int) -> tuple[int, int]:
        """Where in the buffer a batch begins and ends."""
        at = BATCH_ROW * place
        return self.rows[at + BATCH_START], self.rows[at + BATCH_END]

    def last_offset(self, place: int) -> int:
        return self.rows[BATCH_ROW * place + BATCH_LAST_OFFSET]

    def max_timestamp(self, place: int) -> int:
        return self.rows[BATCH_ROW * place + BATCH_MAX_TIMESTAMP]

    @property
    def largest_timestamp(self) -> int:
        return max(self._column(BATCH_MAX_TIMESTAMP))

    @property
    def next_offset(self) -> int:
        """After the last batch."""
        return self.rows[BATCH_ROW * (self.count - 1) + BATCH_LAST_OFFSET] + 1

    def entries(
        self,
        position: int,
        *,
        base_offset: int,
        interval_bytes: int,
        since_entry_bytes: int,
        largest: TimestampOffset,
        last_indexed_timestamp: int,
        offset_room: int,
        time_room: int,
    ) -> RunEntries:
        """What the batches add to the indexes of a segment in which they stand from `position` on; see `RunEntries`.

        `offset_room` and `time_room` are how many entries the indexes can take. `largest` is of the batches before.
        """
        offset_entries = bytearray(_OFFSET_ENTRY_BYTES * max(0, min(offset_room, self.count)))
        time_entries = bytearray(_TIME_ENTRY_BYTES * max(0, min(time_room, self.count)))
        offset_bytes, time_bytes, since_entry_bytes, timestamp, offset = kernels.index_run(
            self.rows,
            self.count,
            position,
            base_offset,
            interval_bytes,
            since_entry_bytes,
            largest.timestamp,
            largest.offset,
            last_indexed_timestamp,
            offset_entries,
            time_entries,
        )
        return RunEntries(
            bytes(offset_entries[:offset_bytes]),
            bytes(time_entries[:time_bytes]),
            since_entry_bytes,
            TimestampOffset(timestamp, offset),
        )

    def _column(self, column: int) -> array[int]:
        return self.rows[column : BATCH_ROW * self.count : BATCH_ROW]
