"""What must be in a compacted log, in plain Python: nothing of it is taken from the code under test.

A `Ledger` has one `Entry` for each batch that a log has acknowledged. It is shown the log again and again: all batches
from the log start on (`Seen`), after a crash or while the log works. It says, as an AssertionError, what cannot be:

    invented      a batch or a record that nobody wrote there, or that had been gone before
    missing       the last record of its key, committed, that was durable when power failed (after a kill: any); a
                  tombstone before its delete horizon; anything that no cleaner could reach
    back to life  an older value of a key whose tombstone has been cleaned away
    forgotten     the last sequence, the epoch or the open transaction of a producer
    not clean     two records of a key in the part that the cleaner calls clean

Records that were not durable when power failed may be missing, with no order among them: in a compacted topic a hole
in the offsets tells nothing. What is left then is what the ledger goes on from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import Final, NamedTuple

ABORT: Final = 0
COMMIT: Final = 1
EMPTIED: Final = -1

Headers = tuple[tuple[str, bytes | None], ...]


class Rec(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Entry(NamedTuple):
    """A batch as it was acknowledged. `control` is COMMIT or ABORT for a marker."""

    first: int
    last: int
    records: tuple[Rec, ...]
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False
    control: int | None = None
    at_ms: int = 0

    @property
    def last_sequence(self) -> int:
        return self.sequence + self.last - self.first if self.sequence >= 0 else -1


class Seen(NamedTuple):
    """A batch as it stands in the log. `control` is EMPTIED for a control batch without its record."""

    first: int
    last: int
    records: tuple[Rec, ...]
    producer_id: int
    producer_epoch: int
    sequence: int
    is_transactional: bool
    control: int | None
    horizon_ms: int | None


class Writer(NamedTuple):
    """What a log must know of a producer. `last` is its last batch of this epoch; `at` where it was heard of last."""

    producer_epoch: int
    last: Entry | None
    open_since: int | None
    at: int

    @property
    def next_sequence(self) -> int:
        return 0 if self.last is None else self.last.last_sequence + 1


@dataclass
class Rules:
    """Settings of the topic that decide what may go."""

    delete_retention_ms: int
    min_compaction_lag_ms: int = 0


@dataclass
class Ledger:
    rules: Rules
    entries: list[Entry] = field(default_factory=list)
    attempted: list[Entry] = field(default_factory=list)
    """What an append that did not return, or that failed, may have left."""
    end: int = 0
    durable_end: int = 0
    """What lies below survives a loss of power."""
    reach: int = 0
    """No cleaner can have touched what lies at or above."""
    decided_end: int = 0
    """No cleaner can have known of the end of a transaction at or above."""
    cut_at: int | None = None
    """A truncation that has begun and not returned: what lies at or above may be gone."""
    start_promised: int = 0
    start_asked: int = 0
    retired: set[int] = field(default_factory=set)
    """Producers whose last batches were cut off behind the cleaner's back: what is known of them is not said."""
    _gone: set[int] = field(default_factory=set)
    _vanished: set[int] = field(default_factory=set)  # tombstones that were cleaned away in their time
    _excused: set[int] = field(default_factory=set)  # cleaned away for a newer record that was then cut off
    _horizons: dict[int, int] = field(default_factory=dict)
    _lost_or_cleaned: list[Entry] = field(default_factory=list)
    """Transactional batches that the ledger dropped after a crash. Lost, or removed by a clean that the ledger did not
    see: then a producer snapshot may still know that their transaction began there."""

    # What happens to the log

    def appended(self, entries: Iterable[Entry]) -> None:
        self.entries += entries
        self.attempted = []
        self.end = self.entries[-1].last + 1 if self.entries else self.end

    def will_truncate(self, offset: int, seen: Sequence[Seen]) -> None:
        """Before it happens: what was cleaned away for the sake of what is cut off now will be missing for good."""
        self.cut_at = offset
        self.durable_end = min(self.durable_end, offset)
        found = {batch.first for batch in seen}
        last = {entry.producer_id: entry for entry in self.entries if entry.control is None and entry.last < offset}
        cut = {entry.producer_id for entry in self.entries if entry.last >= offset}
        self.retired |= {each for each in cut if each in last and last[each].first not in found}
        if offset < self.decided_end:
            self._excused |= self._gone | self._hidden_by_what_goes(offset)
            self.retired |= {entry.producer_id for entry in self.entries}

    def _hidden_by_what_goes(self, offset: int) -> set[int]:
        """A clean under way may still take, before the log is cut, what is older than a record or a marker there."""
        keys = {record.key for entry in self.entries if entry.last >= offset for record in entry.records}
        ended = {entry.producer_id for entry in self.entries if entry.last >= offset and entry.control is not None}
        return {
            record.offset
            for entry in self.entries
            for record in entry.records
            if record.key in keys or (entry.is_transactional and entry.producer_id in ended)
        }

    def truncated(self, offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry.last < offset]
        self._end_at(offset)

    def _end_at(self, end: int) -> None:
        """Offsets from here on will be given again."""
        self.end = end
        self.cut_at = None
        self.durable_end = min(self.durable_end, end)
        self.reach = min(self.reach, end)
        self.decided_end = min(self.decided_end, end)
        for offsets in (self._gone, self._vanished, self._excused):
            offsets -= {each for each in offsets if each >= end}
        self._horizons = {each: horizon for each, horizon in self._horizons.items() if each < end}
        self._lost_or_cleaned = [entry for entry in self._lost_or_cleaned if entry.last < end]

    # Producers and transactions

    def writers(self) -> dict[int, Writer]:
        known: dict[int, Writer] = {}
        for entry in self.entries:
            if entry.producer_id < 0:
                continue
            before = known.get(entry.producer_id, Writer(entry.producer_epoch, None, None, entry.last))
            if entry.control is not None:
                last = before.last if before.producer_epoch == entry.producer_epoch else None
                known[entry.producer_id] = Writer(entry.producer_epoch, last, None, entry.last)
            else:
                open_since = before.open_since
                if entry.is_transactional and open_since is None:
                    open_since = entry.first
                known[entry.producer_id] = Writer(entry.producer_epoch, entry, open_since, entry.last)
        return known

    def fates(self) -> dict[int, int | None]:
        """By first offset of each batch in a transaction: how it ended, None while it is open."""
        fates: dict[int, int | None] = {}
        begun: dict[int, list[int]] = {}
        for entry in self.entries:
            if entry.control is not None:
                fates.update(dict.fromkeys(begun.pop(entry.producer_id, ()), entry.control))
            elif entry.is_transactional:
                begun.setdefault(entry.producer_id, []).append(entry.first)
                fates[entry.first] = None
        return fates

    def stable_ends(self, start: int, high_watermark: int) -> tuple[int, int]:
        """The least and the greatest possible last stable offset. A transaction holds it back until its marker is below
        the high watermark. A reopened log may rely on a marker of before, and may know nothing of a transaction that
        began below the log start."""
        undecided, _ = self._undecided(self.entries, high_watermark)
        known = [first for each, first in undecided.items() if first >= start and each not in self.retired]
        most = min([high_watermark, *known])
        possible, unreplicated = self._undecided(merge(self.entries, sorted(self._lost_or_cleaned)), high_watermark)
        return max(min([most, *possible.values(), *unreplicated]), start), max(most, start)

    @staticmethod
    def _undecided(entries: Iterable[Entry], high_watermark: int) -> tuple[dict[int, int], list[int]]:
        """First offsets of open transactions by producer, and of those with a marker at or above the high watermark."""
        undecided: dict[int, int] = {}
        unreplicated: list[int] = []
        for entry in entries:
            if entry.control is not None:
                first = undecided.pop(entry.producer_id, None)
                if first is not None and entry.last >= high_watermark:
                    unreplicated.append(first)
            elif entry.is_transactional:
                undecided.setdefault(entry.producer_id, entry.first)
        return undecided, unreplicated

    # What the log shows

    def check(self, seen: Sequence[Seen], *, start: int, end: int, now_ms: int, power_lost: bool = False) -> None:
        """`start` and `end` are the log's; with `power_lost`, what was not durable may be missing."""
        safe_end = self.durable_end if power_lost else self.end if self.cut_at is None else self.cut_at
        self._check_ends(start, end, safe_end)
        self._check_sound(seen)
        found = {batch.first for batch in seen}
        self.entries += [entry for entry in self.attempted if entry.first in found]
        self.attempted = []
        self._drop_lost(found, max(safe_end, start), start)
        # Whether batches below the log start were lost, nobody can see.
        self.retired |= {entry.producer_id for entry in self.entries if safe_end <= entry.last < start}
        self._check_missing(seen, start, now_ms)
        self._end_at(end)

    def _check_ends(self, start: int, end: int, safe_end: int) -> None:
        greatest = max([self.end, *(entry.last + 1 for entry in self.attempted)])
        assert safe_end <= end <= greatest, f"the log ends at {end}, not within {safe_end} to {greatest}"
        asked = max(self.start_asked, self.start_promised)
        assert self.start_promised <= start <= asked, (
            f"it starts at {start}, not within {self.start_promised} to {asked}"
        )

    def _check_sound(self, seen: Sequence[Seen]) -> None:
        written = {entry.first: entry for entry in (*self.attempted, *self.entries)}
        next_offset = 0
        for batch in seen:
            assert batch.first >= next_offset, f"{batch} stands behind offset {next_offset - 1}"
            next_offset = batch.last + 1
            entry = written.get(batch.first)
            assert entry is not None, f"nobody wrote {batch}"
            assert batch[:2] == entry[:2], f"{batch} was written as {entry}"
            assert batch[3:7] == entry[3:7], f"{batch} was written as {entry}"
            is_emptied = batch.control == EMPTIED and entry.control is not None
            assert batch.control == entry.control or is_emptied, f"{batch} was written as {entry}"
            if entry.control is None:
                assert set(batch.records) <= set(entry.records), f"{batch} was written as {entry}"
                offsets = [record.offset for record in batch.records]
                assert offsets == sorted(set(offsets)), f"{batch} is not in order"
            self._note_horizon(batch)

    def _note_horizon(self, batch: Seen) -> None:
        if batch.horizon_ms is not None:
            for record in batch.records:
                known = self._horizons.setdefault(record.offset, batch.horizon_ms)
                assert known == batch.horizon_ms, f"{batch} had the delete horizon {known}"

    def _drop_lost(self, found: set[int], safe_end: int, start: int) -> None:
        """Of what was not safe, the ledger goes on with what is found. A marker that is missing as all safe batches of
        its transaction are was cleaned away after them; it has still ended it."""
        left: list[Entry] = []
        cleaned: dict[int, bool] = {}  # of open transactions: whether safe batches of it are there no more
        for entry in self.entries:
            is_found = entry.first in found
            is_there = is_found or entry.last < safe_end
            if entry.control is not None:
                is_there |= entry.last < self.reach and cleaned.pop(entry.producer_id, False)
            elif entry.is_transactional and is_there and entry.first >= start:
                cleaned[entry.producer_id] = cleaned.get(entry.producer_id, True) and not is_found
            if is_there:
                left.append(entry)
            elif entry.is_transactional and entry.control is None and entry.last < self.reach:
                self._lost_or_cleaned.append(entry)
        self.entries = left

    def _check_missing(self, seen: Sequence[Seen], start: int, now_ms: int) -> None:
        present = {record.offset for batch in seen if batch.control is None for record in batch.records}
        fates = self.fates()
        covered: set[bytes] = set()  # keys of which a later record is there
        deleted: set[bytes] = set()  # keys whose last record is a tombstone that is there no more
        for entry in reversed(self.entries):
            if entry.control is not None:
                continue
            fate = fates.get(entry.first, COMMIT)
            for record in reversed(entry.records):
                if record.offset < start:
                    continue
                if record.offset in present:
                    assert record.offset not in self._gone, f"{record} has come back"
                    if fate == COMMIT and record.key is not None:
                        is_old_value = record.value is not None and record.key in deleted
                        assert not is_old_value, f"{record} is shown again, its tombstone is gone"
                        covered.add(record.key)
                    continue
                self._check_reachable(record, now_ms)
                self._gone.add(record.offset)
                if record.offset in self._excused:
                    continue
                assert fate is not None, f"{record} of an open transaction is missing"
                if fate == COMMIT and record.key is not None and record.key not in covered | deleted:
                    self._check_was_due(record, entry, now_ms)
                    deleted.add(record.key)

    def _check_reachable(self, record: Rec, now_ms: int) -> None:
        assert record.offset < self.reach, f"{record} is missing; nothing at or above {self.reach} could be cleaned"
        lag_ms = self.rules.min_compaction_lag_ms
        is_young = lag_ms and record.offset not in self._gone and record.timestamp > now_ms - lag_ms
        assert not is_young, f"{record} is missing, {now_ms - record.timestamp} ms old, with a lag of {lag_ms} ms"

    def _check_was_due(self, record: Rec, entry: Entry, now_ms: int) -> None:
        if record.offset in self._vanished:
            return
        assert record.value is None, f"{record} is missing, and it was the last of its key"
        due_ms = self._horizons.get(record.offset, entry.at_ms + self.rules.delete_retention_ms)
        assert now_ms >= due_ms, f"{record} is a tombstone that was gone at {now_ms}, before {due_ms}"
        self._vanished.add(record.offset)

    def check_clean(self, seen: Sequence[Seen], start: int, cleaner_point: int) -> None:
        """Below the cleaner's point a key has one record that counts, at most."""
        keys = [record.key for record in self.committed(seen, start, cleaner_point) if record.key is not None]
        assert len(keys) == len(set(keys)), (
            f"clean up to {cleaner_point}, and yet keys stand there twice: {sorted(keys)}"
        )

    def committed(self, seen: Sequence[Seen], start: int, end: int) -> list[Rec]:
        """What a reader of committed records must get of what stands in the log between two offsets."""
        fates = self.fates()
        return [
            record
            for batch in seen
            if batch.control is None and fates.get(batch.first, COMMIT) == COMMIT
            for record in batch.records
            if start <= record.offset < end
        ]
