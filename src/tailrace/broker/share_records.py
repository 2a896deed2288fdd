"""Records of a partition between its share group's start and end: who holds which, and how often each was delivered.

    AVAILABLE ──acquire──▶ ACQUIRED ──accept──▶ ACKNOWLEDGED
        ▲                      ├──reject, gap──▶ ARCHIVED
        └─release, lock ends───┴──the same, but delivered often enough──▶ ARCHIVED

Every record below `start` is done with, no record from `end` on was ever delivered. Between them lie runs: stretches of
records that are alike, in the order of offsets and without a gap, so that each record is in exactly one run and has at
most one holder. What a member acknowledges changes when that is written (`Transition`): until then the records
are still acquired, and nobody can do anything with them.

Plain decisions: no clock, no log, no locks of threads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tailrace.broker.share_run import Run
from tailrace.coordinator.share_state.batches import TERMINAL, DeliveryState, StateBatch, joined
from tailrace.model.errors import InconsistentMetadataError, InvalidRecordStateError, RefusedRequestError

RENEW: Final = 4
_LEAST_THROTTLED_COUNT: Final = 2
_OUTCOMES: Final = {
    0: DeliveryState.ARCHIVED,  # a gap: there is no such record
    1: DeliveryState.ACKNOWLEDGED,
    2: DeliveryState.AVAILABLE,
    3: DeliveryState.ARCHIVED,
}

_AVAILABLE: Final = DeliveryState.AVAILABLE
_ACQUIRED: Final = DeliveryState.ACQUIRED
_ARCHIVED: Final = DeliveryState.ARCHIVED


class Rules(NamedTuple):
    """Of the group, as they are now."""

    max_locks: int
    delivery_limit: int

    @property
    def throttled_from(self) -> int:
        """Records delivered so often are delivered in ever smaller numbers: one of them may be the cause."""
        return max(_LEAST_THROTTLED_COUNT, (self.delivery_limit + 1) // 2)


class Want(NamedTuple):
    """What a member asks for. `is_exact`: never more than `max_records`; else whole batches are given."""

    member: str
    max_records: int
    batch_size: int
    is_exact: bool
    deadline_ms: int


class Acquired(NamedTuple):
    first: int
    last: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """Of the records from first to last: one type for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Transition(NamedTuple):
    """A change that is to be written first."""

    runs: list[Run]
    batches: tuple[StateBatch, ...]

    @classmethod
    def of(cls, runs: list[Run]) -> Transition:
        return cls(runs, tuple(joined(run.next for run in runs if run.next is not None)))


class ShareRecords:
    def __init__(self, start: int, batches: Iterable[StateBatch] = ()) -> None:
        """As it was written. What lies between the batches was delivered to nobody who said anything about it."""
        self.start = start
        self.end = start
        self.runs: list[Run] = []
        for batch in batches:
            if batch.first < self.end or batch.last < batch.first or batch.state not in (*TERMINAL, _AVAILABLE):
                raise InconsistentMetadataError(f"{batch} cannot follow {self.end - 1} in the state of a share group")
            if batch.first > self.end:
                self.runs.append(Run(self.end, batch.first - 1, _AVAILABLE, 0))
            self.runs.append(Run(batch.first, batch.last, DeliveryState(batch.state), batch.delivery_count))
            self.end = batch.last + 1
        self.advance()

    # What there is

    @property
    def count(self) -> int:
        """Of records in flight."""
        return self.end - self.start

    @property
    def complete_count(self) -> int:
        """Of those that need no delivery any more."""
        return sum(run.size for run in self.runs if run.will_be_done and not run.is_gap)

    def next_offset(self) -> int:
        """From where to read for the next acquisition."""
        return next((run.first for run in self.runs if run.can_be_taken), self.end)

    def can_acquire(self, rules: Rules) -> bool:
        return self.count < rules.max_locks or self.next_offset() < self.end

    def next_deadline_ms(self) -> int | None:
        """When the next lock ends."""
        return min((run.deadline_ms for run in self.runs if run.state is _ACQUIRED and run.next is None), default=None)

    def _overlapping(self, first: int, last: int) -> Iterator[Run]:
        """Those with a record from `first` to `last`; they may be cut at `first` or above while this goes on."""
        at = bisect_left(self.runs, first, key=lambda run: run.last)
        while at < len(self.runs) and self.runs[at].first <= last:
            yield self.runs[at]
            at += 1

    def _piece(self, run: Run, first: int, last: int) -> Run:
        """The part of the run from `first` to `last`, as a run of its own."""
        at = bisect_left(self.runs, run.first, key=lambda each: each.first)
        if run.first < first:
            run = run.cut(first)
            at += 1
            self.runs.insert(at, run)
        if run.last > last:
            self.runs.insert(at + 1, run.cut(last + 1))
        return run

    # Acquiring

    def acquire(self, want: Want, rules: Rules, fetch_offset: int, found: Sequence[tuple[int, int]]) -> list[Acquired]:
        """Give the member records out of what was read from `fetch_offset`: batches by their first and last offset."""
        if not found or want.max_records <= 0:
            return []
        first, last = found[0][0], found[-1][1]
        self._skip(fetch_offset, first)
        room = rules.max_locks - self.count
        if room > 0:
            most = min(want.max_records, room)
        elif fetch_offset < self.end:
            most = min(want.max_records, self.end - fetch_offset)
            last = min(last, self.end - 1)
        else:
            return []
        taken, is_throttled = self._take_again(want, rules, max(first, self.start), last, most)
        left = most - sum(each.last - each.first + 1 for each in taken)
        if left > 0 and last >= self.end and not is_throttled:
            taken += self._take_new(want, found, last, left)
        return taken

    def _skip(self, fetch_offset: int, first_found: int) -> None:
        """The log has nothing there any more."""
        for run in list(self._overlapping(fetch_offset, first_found - 1)):
            if run.can_be_taken:
                self._piece(run, fetch_offset, first_found - 1).become(_ARCHIVED, run.delivery_count)
        self.advance()

    def _take_again(self, want: Want, rules: Rules, first: int, last: int, most: int) -> tuple[list[Acquired], bool]:
        """Of records that are in flight. Whether no more may be given with them, because they failed too often."""
        taken: list[Acquired] = []
        count = 0
        for run in self._overlapping(first, last):
            if count >= most:
                break
            if not run.can_be_taken:
                continue
            begin, end = max(run.first, first), min(run.last, last)
            if want.is_exact:
                end = min(end, begin + most - count - 1)
            is_throttled = run.delivery_count >= rules.throttled_from
            if is_throttled:
                if taken:
                    return taken, True
                end = min(end, begin + _throttled_size(run, rules) - 1)
            piece = self._piece(run, begin, end)
            taken.append(self._give(piece, want))
            count += piece.size
            if is_throttled:
                return taken, True
        return taken, False

    def _take_new(self, want: Want, found: Sequence[tuple[int, int]], last: int, left: int) -> list[Acquired]:
        begin = max(self.end, found[0][0])
        if not self.runs:
            self.start = begin
        elif begin > self.end:
            self.runs.append(Run(self.end, begin - 1, _ARCHIVED, 0, is_gap=True))
        end = last
        if end - begin + 1 > left:
            end = min(end, _end_of_batch(found, begin + left - 1))
        self.end = end + 1
        if want.is_exact:
            self.runs.append(Run(begin, end, _AVAILABLE, 0))
            return [self._give(self._piece(self.runs[-1], begin, min(end, begin + left - 1)), want)]
        return [self._give(self._appended(*each), want) for each in _parts(found, begin, end, want.batch_size)]

    def _appended(self, first: int, last: int) -> Run:
        self.runs.append(Run(first, last, _AVAILABLE, 0))
        return self.runs[-1]

    def _give(self, run: Run, want: Want) -> Acquired:
        run.state, run.holder, run.deadline_ms = _ACQUIRED, want.member, want.deadline_ms
        run.delivery_count += 1
        return Acquired(run.first, run.last, run.delivery_count)

    def withdraw(self, taken: list[Acquired], unwanted: Sequence[tuple[int, int]]) -> list[Acquired]:
        """Take back, out of what was just given, the records that nobody may see: those of aborted transactions.

        Both are in the order of offsets and without overlap. What was given is one run each.
        """
        kept: list[Acquired] = []
        at = 0
        for each in taken:
            first = each.first
            while at < len(unwanted) and unwanted[at][0] <= each.last:
                begin, end = max(unwanted[at][0], first), min(unwanted[at][1], each.last)
                if begin <= end:
                    run = next(self._overlapping(begin, end))
                    self._piece(run, begin, end).become(_ARCHIVED, each.delivery_count)
                    if first < begin:
                        kept.append(each._replace(first=first, last=begin - 1))
                    first = end + 1
                if unwanted[at][1] > each.last:
                    break  # it goes on into the next
                at += 1
            if first <= each.last:
                kept.append(each._replace(first=first))
        self.advance()
        return kept

    # Acknowledging

    def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement], rules: Rules, renewed_ms: int
    ) -> Transition:
        """All of it or nothing: InvalidRecordStateError for records that the member does not hold.

        Locks that are renewed last until `renewed_ms`; that needs no writing.
        """
        told_to = -1
        for each in acknowledgements:
            if each.last >= self.start:
                self._check(member, each, told_to)
                told_to = each.last
        runs: list[Run] = []
        for each in acknowledgements:
            for kind, first, last in _by_type(each, self.start):
                for run in list(self._overlapping(first, last)):
                    if run.is_gap:
                        continue
                    piece = self._piece(run, max(first, run.first), min(last, run.last))
                    if kind == RENEW:
                        piece.deadline_ms = renewed_ms
                        continue
                    piece.next = _outcome(piece, _OUTCOMES[kind], piece.delivery_count, rules)
                    runs.append(piece)
        return Transition.of(runs)

    def _check(self, member: str, each: Acknowledgement, told_to: int) -> None:
        for kind in each.types:
            if kind != RENEW and kind not in _OUTCOMES:
                raise RefusedRequestError(f"there is no acknowledgement of type {kind}")
        if not self.runs:
            raise InvalidRecordStateError(f"nobody holds the records from {each.first} to {each.last}")
        if each.last >= self.end:
            raise RefusedRequestError(f"record {each.last} was not delivered: the last one was {self.end - 1}")
        for run in self._overlapping(max(each.first, self.start), each.last):
            if run.is_gap:
                continue
            if run.state is not _ACQUIRED or run.next is not None or each.first <= told_to:
                raise InvalidRecordStateError(f"the records from {run.first} to {run.last} are not acquired")
            if run.holder != member:
                raise InvalidRecordStateError(f"another member holds the records from {run.first} to {run.last}")

    def release(self, member: str, rules: Rules) -> Transition:
        """The member is gone: others get what it holds, as if it had released it."""
        held = [run for run in self.runs if run.state is _ACQUIRED and run.holder == member and run.next is None]
        for run in held:
            run.next = _outcome(run, _AVAILABLE, run.delivery_count, rules)
        return Transition.of(held)

    def complete(self, transition: Transition) -> None:
        """It is written."""
        for run in transition.runs:
            if run.next is not None:
                run.become(DeliveryState(run.next.state), run.next.delivery_count)
        self._join()
        self.advance()

    def roll_back(self, transition: Transition, rules: Rules, now_ms: int) -> None:
        """It could not be written. Locks that ended meanwhile have ended."""
        for run in transition.runs:
            run.next = None
        self.expire(rules, now_ms)
        self.advance()  # with a lock that ended, a record may have been given up

    def expire(self, rules: Rules, now_ms: int) -> tuple[StateBatch, ...]:
        """End the locks whose time is over; what is to be written of it."""
        changed: list[StateBatch] = []
        for run in self.runs:
            if run.state is _ACQUIRED and run.next is None and run.deadline_ms <= now_ms:
                after = _outcome(run, _AVAILABLE, run.delivery_count, rules)
                run.become(DeliveryState(after.state), after.delivery_count)
                changed.append(after)
        return tuple(joined(changed))

    # The window

    def advance(self) -> bool:
        """Move the start over everything that is done with; whether it has moved."""
        done = 0
        while done < len(self.runs) and self.runs[done].is_done:
            done += 1
        if not done:
            return False
        del self.runs[:done]
        self.start = self.runs[0].first if self.runs else self.end
        return True

    def log_starts_at(self, offset: int) -> None:
        """The log has lost everything below."""
        if offset <= self.start:
            return
        self.runs = [run for run in self.runs if run.last >= offset]
        if self.runs:
            self.runs[0].first = max(self.runs[0].first, offset)
        self.start = offset
        self.end = max(self.end, offset)
        self.advance()

    def _join(self) -> None:
        """Runs that have become alike are one again."""
        kept: list[Run] = []
        for run in self.runs:
            if kept and kept[-1].is_like(run) and kept[-1].next is None and run.next is None:
                kept[-1].last = run.last
            else:
                kept.append(run)
        self.runs = kept


def _outcome(run: Run, state: DeliveryState, delivery_count: int, rules: Rules) -> StateBatch:
    is_given_up = state is _AVAILABLE and delivery_count >= rules.delivery_limit
    return StateBatch(run.first, run.last, _ARCHIVED if is_given_up else state, delivery_count)


def _throttled_size(run: Run, rules: Rules) -> int:
    if rules.delivery_limit > _LEAST_THROTTLED_COUNT and run.delivery_count >= rules.delivery_limit - 1:
        return 1  # the last time: alone
    return max(1, run.batch_size >> (run.delivery_count - rules.throttled_from + 1))


def _end_of_batch(found: Sequence[tuple[int, int]], offset: int) -> int:
    """The last offset of the batch that holds `offset`; the offset itself where none does."""
    return next((last for first, last in found if first <= offset <= last), offset)


def _parts(found: Sequence[tuple[int, int]], begin: int, end: int, batch_size: int) -> Iterator[tuple[int, int]]:
    """Pieces of at least `batch_size` records, of whole batches of the log."""
    for first, _ in found:
        if begin + batch_size <= first <= end and batch_size > 0:
            yield begin, first - 1
            begin = first
    yield begin, end


def _by_type(each: Acknowledgement, start: int) -> Iterator[tuple[int, int, int]]:
    """Stretches of one type, from `start` on."""
    first = max(each.first, start)
    if len(each.types) == 1:
        if first <= each.last:
            yield each.types[0], first, each.last
        return
    while first <= each.last:
        kind = each.types[first - each.first]
        last = first
        while last < each.last and each.types[last + 1 - each.first] == kind:
            last += 1
        yield kind, first, last
        first = last + 1
