"""A share group at work on a partition: any story of members, locks, writes that fail and restarts."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from suite.seeds import examples
from tailrace.broker.share_records import Acknowledgement, Rules, ShareRecords, Transition, Want
from tailrace.coordinator.share_state.batches import TERMINAL, DeliveryState, StateBatch, combined
from tailrace.model.errors import InvalidRecordStateError, RefusedRequestError

ACQUIRED = DeliveryState.ACQUIRED


class ShareGroupAtWork(RuleBasedStateMachine):
    """Members that come, read, say something or nothing, and go; a broker that is started anew; a log that shrinks."""

    @initialize(limit=st.integers(2, 5), locks=st.integers(5, 40), size=st.integers(1, 7))
    def begin(self, limit: int, locks: int, size: int) -> None:
        self.rules = Rules(locks, limit)
        self.batch_size = size
        self.log_start = 0
        self.records = ShareRecords(0)
        self.written: tuple[StateBatch, ...] = ()
        self.written_start = 0
        self.now_ms = 0
        self.holder: dict[int, str] = {}
        self.deliveries: dict[int, int] = {}
        self.done: set[int] = set()
        self.pending: list[tuple[Transition, int]] = []

    def found_from(self, offset: int, count: int) -> list[tuple[int, int]]:
        first = max(offset, self.log_start) // self.batch_size * self.batch_size
        return [(at, at + self.batch_size - 1) for at in range(first, first + count * self.batch_size, self.batch_size)]

    def write(self, batches: tuple[StateBatch, ...], start: int) -> None:
        self.written = combined(self.written, batches, start)
        self.written_start = max(self.written_start, start)

    @rule(
        member=st.sampled_from("abc"),
        most=st.integers(1, 20),
        size=st.integers(1, 10),
        exact=st.booleans(),
        count=st.integers(1, 4),
    )
    def fetch(self, member: str, most: int, size: int, exact: bool, count: int) -> None:
        if not self.records.can_acquire(self.rules):
            return
        offset = self.records.next_offset()
        if offset < self.log_start:
            self.records.log_starts_at(self.log_start)
            return
        found = self.found_from(offset, count)
        given = self.records.acquire(Want(member, most, size, exact, self.now_ms + 10), self.rules, offset, found)
        total = 0
        for each in given:
            for record in range(each.first, each.last + 1):
                assert record not in self.holder, "two hold one record"
                assert record not in self.done, "a record comes again that is done with"
                assert found[0][0] <= record <= found[-1][1], "it was not read"
                self.holder[record] = member
                self.deliveries[record] = self.deliveries.get(record, 0) + 1
                assert each.delivery_count <= self.rules.delivery_limit
                total += 1
        assert not exact or total <= most

    @precondition(lambda self: self.holder)
    @rule(data=st.data(), fails=st.booleans(), late=st.booleans())
    def acknowledge(self, data: st.DataObject, fails: bool, late: bool) -> None:
        first = data.draw(st.sampled_from(sorted(self.holder)))
        last = data.draw(st.integers(first, first + 5))
        member = self.holder[first]
        types = data.draw(st.lists(st.integers(0, 4), min_size=last - first + 1, max_size=last - first + 1))
        said = [Acknowledgement(first, last, types)]
        try:
            transition = self.records.acknowledge(member, said, self.rules, self.now_ms + 10)
        except (InvalidRecordStateError, RefusedRequestError):
            in_flight = {
                record for each, _ in self.pending for run in each.runs for record in range(run.first, run.last + 1)
            }
            wanted = range(max(first, self.records.start), last + 1)
            assert any(self.holder.get(record) != member or record in in_flight for record in wanted)
            return
        if late:
            self.pending.append((transition, fails))
        else:
            self.settle(transition, fails)

    def settle(self, transition: Transition, fails: bool) -> None:
        if fails:
            self.records.roll_back(transition, self.rules, self.now_ms)
            self.forget_released()
            return
        self.write(transition.batches, self.records.start)
        for run in transition.runs:
            assert run.next is not None
            for record in range(run.first, run.last + 1):
                self.holder.pop(record, None)
                if run.next.state in TERMINAL:
                    self.done.add(record)
        self.records.complete(transition)

    @precondition(lambda self: self.pending)
    @rule()
    def written_at_last(self) -> None:
        self.settle(*self.pending.pop(0))

    @rule(ms=st.integers(1, 12))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        changed = self.records.expire(self.rules, self.now_ms)
        self.write(changed, self.records.start)
        self.forget_released()
        self.records.advance()

    def forget_released(self) -> None:
        held = {
            record: run.holder
            for run in self.records.runs
            if run.state is ACQUIRED
            for record in range(run.first, run.last + 1)
        }
        for record in [record for record in self.holder if record not in held]:
            del self.holder[record]
        for run in self.records.runs:
            if run.is_done:
                self.done.update(range(run.first, run.last + 1))

    @rule(member=st.sampled_from("abc"))
    def leave(self, member: str) -> None:
        self.settle(self.records.release(member, self.rules), False)

    @rule(by=st.integers(1, 6))
    def log_shrinks(self, by: int) -> None:
        self.log_start = min(self.log_start + by, self.records.end)
        self.records.log_starts_at(self.log_start)
        for record in [record for record in self.holder if record < self.records.start]:
            del self.holder[record]

    @rule()
    def restart(self) -> None:
        """Locks end with the broker; what was written is what is known."""
        self.pending.clear()
        self.records = ShareRecords(self.written_start, self.written)
        self.holder.clear()
        self.done = {
            record for batch in self.written if batch.state in TERMINAL for record in range(batch.first, batch.last + 1)
        } | {record for record in self.done if record < self.written_start}
        self.records.log_starts_at(self.log_start)

    @invariant()
    def runs_cover_what_is_in_flight(self) -> None:
        if not hasattr(self, "records"):
            return
        at = self.records.start
        for run in self.records.runs:
            assert run.first == at <= run.last
            assert (run.state is ACQUIRED) == bool(run.holder)
            assert run.delivery_count <= self.rules.delivery_limit
            at = run.last + 1
        assert at == self.records.end
        assert not self.records.runs or not self.records.runs[0].is_done
        held = {
            record for run in self.records.runs if run.state is ACQUIRED for record in range(run.first, run.last + 1)
        }
        assert held == set(self.holder)

    def teardown(self) -> None:
        """Members that only ever fail: in the end nothing is left, and nothing came too often."""
        if not hasattr(self, "records"):
            return
        while self.pending:
            self.written_at_last()
        end = self.records.end
        for _ in range(40 * self.rules.delivery_limit * max(self.records.count, 1)):
            self.time_passes(10)
            offset = self.records.next_offset()
            if offset >= end:
                break
            found = [each for each in self.found_from(offset, 4) if each[1] < end + self.batch_size]
            self.records.acquire(Want("z", 500, 500, False, self.now_ms + 10), self.rules, offset, found)
            self.holder = {
                record: "z"
                for run in self.records.runs
                if run.state is ACQUIRED
                for record in range(run.first, run.last + 1)
            }
        assert self.records.start >= end


TestShareGroupAtWork = ShareGroupAtWork.TestCase
TestShareGroupAtWork.settings = settings(max_examples=examples(120), stateful_step_count=40)
