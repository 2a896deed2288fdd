"""What must be in one partition after any number of kills: dictionaries and lists, told by the journals alone.

Whatever was acknowledged is there, byte for byte, at the offset that was answered, unless one of these let it go:

    retention         it lies below the log start, and is old enough, or enough lies behind it, or was deleted on demand
    compaction        of what lies below the active segment and below every open transaction: a record whose key has a
                      newer committed one there; a tombstone that could be cleaned `delete.retention.ms` ago; a record
                      of an aborted transaction

What was attempted and not acknowledged is there whole or not at all, in the order of the attempts. What was once seen
to be gone does not come back: the model forgets it, and a record that it does not know is a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from support.stress.log_kills.journal import COMMITTED, NO_PRODUCER, PLAIN, TRANSACTIONAL, Attempt, Producer
from support.stress.log_kills.opened_logs import Seen
from support.stress.log_kills.workload import Partition
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import ShallowBatch, batches, check_integrity

BATCHES_A_BROKER_REMEMBERS: Final = 5
OPEN: Final = "open"


@dataclass
class Batch:
    """An attempt that is in the log. `fate` is PLAIN, OPEN, COMMITTED or ABORTED."""

    attempt: Attempt
    first: int
    last: int
    runs: frozenset[int]
    fate: str
    marker: int | None = None
    """Where its transaction ended."""
    cleanable_since_ms: int | None = None
    """When a newer segment was begun behind it."""


@dataclass
class Entry:
    """A record in the log."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes], ...]
    batch: Batch

    @property
    def counts(self) -> bool:
        return self.batch.fate in (PLAIN, COMMITTED)


@dataclass
class Counts:
    """How much has happened: a test in which nothing went away proves nothing."""

    acknowledged: int = 0
    resent: int = 0
    probes: int = 0
    in_flight_there: int = 0
    in_flight_lost: int = 0
    records_compacted: int = 0
    tombstones_expired: int = 0
    aborted_dropped: int = 0
    records_retired: int = 0
    batches_emptied: int = 0
    cleans: int = 0


class PartitionModel:
    """One partition. Each method returns the differences it finds, as sentences."""

    def __init__(self, partition: Partition, counts: Counts) -> None:
        self.partition = partition
        self.counts = counts
        self.end = 0
        self.log_start = 0
        """The highest that was ever acknowledged or seen."""
        self.asked_start = 0
        """No higher than this may the log start be without a reason in retention."""
        self.active_base = 0
        self.open_transactions: dict[int, int] = {}
        """The first offset of each, by producer."""
        self.batches: dict[int, Batch] = {}
        self.entries: dict[int, Entry] = {}
        self.sizes: list[tuple[int, int]] = []
        """First offset and size of every batch that was ever in the log, from the log start on."""
        self.producers: dict[int, Producer] = {}
        self.in_flight: list[tuple[Attempt, set[int]]] = []
        """Sent, not answered; with the runs in which they were sent."""
        self.to_resend: dict[int, tuple[Attempt, set[int]]] = {}

    # What the journal tells

    def tried(self, attempt: Attempt, run: int) -> None:
        self.in_flight.append((attempt, {run}))
        if attempt.producer_id == NO_PRODUCER:
            return
        producer = self.producers.setdefault(attempt.producer_id, Producer())
        if attempt.is_marker:
            producer.is_in_transaction = False
            self.to_resend = {
                number: each
                for number, each in self.to_resend.items()
                if not (each[0].is_marker and each[0].producer_id == attempt.producer_id)
            }
            return
        if attempt.epoch != producer.epoch:
            producer.recent = []
        producer.epoch, producer.sequence = attempt.epoch, attempt.sequence + len(attempt.records)
        producer.is_in_transaction = attempt.kind == TRANSACTIONAL

    def sent_again(self, number: int, run: int) -> None:
        attempt, runs = self.to_resend[number]
        self.in_flight.append((attempt, runs | {run}))

    def acknowledged(
        self, number: int, first: int, last: int, is_duplicate: bool, active_base: int, at_ms: int
    ) -> Iterator[str]:
        place = next(place for place, (each, _) in enumerate(self.in_flight) if each.number == number)
        attempt, runs = self.in_flight.pop(place)
        self.counts.acknowledged += 1
        is_resent = self.to_resend.pop(number, None) is not None
        self.counts.resent += is_resent
        known = self.batch_of(number) if is_resent else None
        what = f"batch {number} ({attempt.kind}, producer {attempt.producer_id})"
        if is_duplicate and known is None:
            yield f"{what} is answered as a duplicate at {first}, but it was not in the log"
        elif is_duplicate and (known.first, known.last) != (first, last):
            yield f"{what} is answered with {first}–{last}, but it is at {known.first}–{known.last}"
        elif known is not None and not is_duplicate:
            yield f"{what} survived at {known.first} and was accepted a second time at {first}"
        if not is_duplicate:
            if first != self.end or last != first + len(attempt.records) - 1:
                yield f"{what} of {len(attempt.records)} records got {first}–{last}, the log ended at {self.end}"
            self._place(attempt, first, runs)
        self._remember(attempt)
        self.rolled(active_base, at_ms)

    def batch_of(self, number: int) -> Batch | None:
        return next((each for each in self.batches.values() if each.attempt.number == number), None)

    def _remember(self, attempt: Attempt) -> None:
        producer = self.producers.get(attempt.producer_id)
        if producer is not None and not attempt.is_marker and attempt.epoch == producer.epoch:
            producer.recent = [*producer.recent, attempt][-BATCHES_A_BROKER_REMEMBERS:]

    def rolled(self, active_base: int, at_ms: int) -> None:
        if active_base > self.active_base:
            for batch in self.batches.values():
                if batch.last < active_base and batch.cleanable_since_ms is None:
                    batch.cleanable_since_ms = at_ms
            self.active_base = active_base

    def _place(self, attempt: Attempt, first: int, runs: set[int]) -> None:
        fate = {PLAIN: PLAIN, TRANSACTIONAL: OPEN}.get(attempt.kind, attempt.kind)
        batch = Batch(attempt, first, first + len(attempt.records) - 1, frozenset(runs), fate)
        self.batches[first] = batch
        self.sizes.append((first, attempt.size))
        self.end = batch.last + 1
        if attempt.is_marker:
            self.open_transactions.pop(attempt.producer_id, None)
            for each in self.batches.values():
                if each.fate == OPEN and each.attempt.producer_id == attempt.producer_id:
                    each.fate, each.marker = attempt.kind, first
            return
        if fate == OPEN:
            self.open_transactions.setdefault(attempt.producer_id, first)
        for offset, (timestamp, key, value, header) in enumerate(attempt.records, first):
            headers = () if header is None else (("h", header.encode("latin-1")),)
            self.entries[offset] = Entry(offset, _bytes(key), _bytes(value), timestamp, headers, batch)

    # What a process has seen

    def compare(self, seen: Seen, at_ms: int) -> Iterator[str]:
        found = list(batches(seen.data))
        yield from self._settle_in_flight(seen, found)
        self.rolled(seen.active_base, at_ms)
        yield from seen.errors
        yield from self._bounds(seen, at_ms)
        self.log_start = max(self.log_start, seen.log_start)
        self._let_go_below_start()
        stable = self._last_stable()
        records: dict[int, Record] = {}
        present: set[int] = set()
        before = -1
        for batch in found:
            check_integrity(seen.data, batch)
            if batch.base_offset <= before:
                yield f"batch at {batch.base_offset} stands behind offset {before}"
            before = batch.last_offset
            if batch.last_offset >= self.log_start:
                present.add(batch.base_offset)
                yield from self._same_batch(seen, batch, records)
        if self.partition.is_compacted:
            yield from self._missing_after_compaction(seen, records, stable, at_ms)
            yield from self._missing_markers(present, at_ms)
        else:
            yield from (f"{self._named(offset)} is lost" for offset in self.entries.keys() - records.keys())
        yield from self._committed(seen, records, stable)
        self._forget_what_went(records, present)

    def _settle_in_flight(self, seen: Seen, found: list[ShallowBatch]) -> Iterator[str]:
        waiting = list(self.in_flight)
        for batch in found:
            if batch.base_offset < self.end:
                continue
            if not waiting:
                yield f"the batch at {batch.base_offset} was never sent, or its like was not there before"
                break
            attempt, runs = waiting.pop(0)
            known = self.batch_of(attempt.number)
            if known is not None:
                yield f"batch {attempt.number} survived at {known.first} and is at {batch.base_offset} too"
            self._place(attempt, batch.base_offset, runs)
            self.counts.in_flight_there += 1
        self.counts.in_flight_lost += len(waiting)
        # Clients ask again for what has a sequence; the coordinator writes its markers anew, as new attempts.
        self.to_resend |= {each.number: (each, runs) for each, runs in self.in_flight if each.producer_id >= 0}
        self.in_flight = []

    def _bounds(self, seen: Seen, at_ms: int) -> Iterator[str]:
        if seen.log_end != self.end:
            yield f"the log ends at {seen.log_end}, not at {self.end}"
        if seen.log_start < self.log_start:
            yield f"the log start went back from {self.log_start} to {seen.log_start}"
        if not seen.is_start_kept:
            yield f"offsets below the log start {seen.log_start} can be read"
        expected = max(self._last_stable(), seen.log_start)  # a transaction may have lost its beginning
        if seen.last_stable != expected:
            yield f"the last stable offset is {seen.last_stable}, not {expected}"
        if seen.log_start > self.asked_start:
            yield from self._too_much_retired(seen.log_start, at_ms)

    def _too_much_retired(self, log_start: int, at_ms: int) -> Iterator[str]:
        config = self.partition.config
        behind_bytes = sum(size for first, size in self.sizes if first >= log_start)
        if 0 <= config.retention_bytes <= behind_bytes:
            return
        young = [
            entry.offset
            for entry in self.entries.values()
            if self.asked_start <= entry.offset < log_start
            and (config.retention_ms < 0 or entry.timestamp >= at_ms - config.retention_ms)
        ]
        if young:
            yield f"retention took {len(young)} records from {min(young)} on, to the log start {log_start}, too early"

    def _let_go_below_start(self) -> None:
        start = self.log_start
        gone = [offset for offset in self.entries if offset < start]
        self.counts.records_retired += len(gone)
        for offset in gone:
            del self.entries[offset]
        self.batches = {first: batch for first, batch in self.batches.items() if batch.last >= start}
        self.sizes = [(first, size) for first, size in self.sizes if first >= start]

    def _last_stable(self) -> int:
        return max(min(self.open_transactions.values(), default=self.end), self.log_start)

    def _same_batch(self, seen: Seen, batch: ShallowBatch, records: dict[int, Record]) -> Iterator[str]:
        known = self.batches.get(batch.base_offset)
        if known is None:
            yield f"an unknown batch is at {batch.base_offset}"
            return
        attempt = known.attempt
        wanted = (known.last, attempt.producer_id, attempt.kind != PLAIN, attempt.is_marker)
        got = (batch.last_offset, batch.producer_id, batch.is_transactional, batch.is_control)
        if wanted != got:
            yield f"batch {attempt.number} at {known.first} is {got}, was {wanted}"
        if attempt.producer_id != NO_PRODUCER and batch.producer_epoch != attempt.epoch:
            yield f"batch {attempt.number} at {known.first} has epoch {batch.producer_epoch}, not {attempt.epoch}"
        if not attempt.is_marker and batch.base_sequence != attempt.sequence:
            yield f"batch {attempt.number} at {known.first} has sequence {batch.base_sequence}, not {attempt.sequence}"
        if batch.leader_epoch not in known.runs:
            yield f"batch {attempt.number} at {known.first} has leader epoch {batch.leader_epoch}"
        is_whole = batch.record_count == len(attempt.records) and batch.delete_horizon_ms is None
        if is_whole and batch.crc != attempt.crc:
            yield f"batch {attempt.number} at {known.first} has other bytes than were sent"
        if not is_whole and not self.partition.is_compacted:
            yield f"batch {attempt.number} at {known.first} has {batch.record_count} of {len(attempt.records)} records"
        if attempt.is_marker:
            return
        for record in records_of(seen.data, batch):
            if record.offset >= self.log_start:
                records[record.offset] = record
                yield from self._same_record(record)

    def _same_record(self, record: Record) -> Iterator[str]:
        entry = self.entries.get(record.offset)
        if entry is None:
            yield f"the record at {record.offset} with key {record.key!r} has come back, or never was"
            return
        wanted = (entry.key, entry.value, entry.timestamp, entry.headers)
        got = (record.key, record.value, record.timestamp, record.headers)
        if wanted != got:
            yield f"{self._named(record.offset)} is {got}, was {wanted}"

    def _missing_after_compaction(
        self, seen: Seen, records: Mapping[int, Record], stable: int, at_ms: int
    ) -> Iterator[str]:
        bound = min(self.active_base, stable)
        if seen.cleaner_point > max(bound, self.log_start):
            yield f"the log counts as clean up to {seen.cleaner_point}; nothing from {bound} on can be cleaned yet"
        newest = {entry.key: entry for entry in self._in_order() if entry.counts and entry.offset < bound}
        for entry in self._in_order():
            if entry.offset in records:
                continue
            if entry.offset >= bound:
                yield f"{self._named(entry.offset)} is lost; nothing from {bound} on may be compacted"
            elif entry.counts and newest[entry.key] is entry:
                if entry.value is not None:
                    yield f"{self._named(entry.offset)}, the newest of its key below {bound}, is lost"
                elif not self._has_expired(entry.batch, at_ms):
                    yield f"{self._named(entry.offset)}, a tombstone, went before its time"

    def _missing_markers(self, present: set[int], at_ms: int) -> Iterator[str]:
        for first, batch in self.batches.items():
            if first in present:
                if batch.marker is not None and batch.marker not in present:
                    yield f"the marker at {batch.marker} is lost, and a batch of its transaction is at {first}"
            elif batch.attempt.is_marker and not self._has_expired(batch, at_ms):
                yield f"the marker at {first} went before its time"

    def _has_expired(self, batch: Batch, at_ms: int) -> bool:
        since_ms = batch.cleanable_since_ms
        return since_ms is not None and at_ms >= since_ms + self.partition.config.delete_retention_ms

    def _in_order(self) -> Iterator[Entry]:
        return (self.entries[offset] for offset in sorted(self.entries))

    def _committed(self, seen: Seen, records: Mapping[int, Record], stable: int) -> Iterator[str]:
        shown = {record.offset: record for record in visible(seen) if record.offset >= self.log_start}
        for offset in shown:
            entry = self.entries.get(offset)
            if entry is not None and not entry.counts:
                yield f"{self._named(offset)} is {entry.batch.fate} and shown to a reader of committed records"
        hidden = [
            offset
            for offset in records
            if offset < stable and offset not in shown and offset in self.entries and self.entries[offset].counts
        ]
        yield from (f"{self._named(offset)} is committed and hidden" for offset in hidden)
        if any(offset >= stable for offset in shown):
            yield f"a reader of committed records sees offset {max(shown)}, at or behind {stable}"
        if self.partition.is_compacted:
            newest = {entry.key: entry for entry in self._in_order() if entry.counts and entry.offset < stable}
            table = {shown[offset].key: offset for offset in sorted(shown)}
            for key, offset in table.items():
                if key in newest and newest[key].offset != offset:
                    yield f"a reader sees {self._named(offset)} as the last of its key: {newest[key].offset} is newer"

    def _forget_what_went(self, records: Mapping[int, Record], present: set[int]) -> None:
        for offset in self.entries.keys() - records.keys():
            entry = self.entries.pop(offset)
            self.counts.records_compacted += entry.counts
            self.counts.aborted_dropped += not entry.counts
            self.counts.tombstones_expired += entry.value is None and entry.counts
        kept = {entry.batch.first for entry in self.entries.values()}
        self.counts.batches_emptied += sum(
            first not in kept and not self.batches[first].attempt.is_marker for first in present & self.batches.keys()
        )
        self.batches = {first: batch for first, batch in self.batches.items() if first in present}

    def _named(self, offset: int) -> str:
        entry = self.entries[offset]
        attempt = entry.batch.attempt
        return f"the record at {offset} (key {entry.key!r}, batch {attempt.number}, {entry.batch.fate})"


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


def visible(seen: Seen) -> Iterator[Record]:
    """What a consumer shows to its application of what it was given, with `isolation.level=read_committed`."""
    to_come = sorted(seen.aborted, key=lambda each: each[1])
    aborting: set[int] = set()
    for batch in batches(seen.committed):
        while to_come and to_come[0][1] <= batch.last_offset:
            aborting.add(to_come.pop(0)[0])
        if batch.is_control:
            aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            yield from (record for record in records_of(seen.committed, batch))
