"""A log on a simulated disk with a model beside it, and what must hold between the two after any crash.

The model is a list of batches as they must stand in the file, byte for byte. Operations are tuples that Hypothesis
makes; each is applied to both. `promised` is what the log may never lose: the batches below its recovery point, and
after a kill everything appended. A file operation that fails (`do_fault`) may make an operation fail with a typed
error; then the log is what it was before or what it should have become, says so, and is so after a kill.

A truncation may run in steps (`do_cut`, `do_start_over`), with other operations between them. The model is then the
shorter log, and `cutting` what the log was before: a crash, a kill or an abandoned log may leave anything between them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from tailrace.config.log import LogConfig
from tailrace.model.errors import LogTruncatingError, StorageError, TailraceError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.record.batch import LOG_APPEND_TIME, BatchHeader, set_base_offset, set_leader_epoch, set_max_timestamp
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.shallow import batches
from tailrace.sim import World
from tailrace.sim.faults import Op, SimulatedCrash
from tailrace.storage import names, producer_replay
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.loader import LoadOptions, load
from tailrace.storage.origin import Origin
from tailrace.storage.producer_state import ProducerStateManager
from tailrace.storage.steps import JobRun, Steps
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.verify import verify_directory
from tailrace.storage.warm import WarmSet

PARTITION = TopicPartition("t", 0)
DIRECTORY = "/data/t-0"
TOPIC_ID = TopicId(bytes(range(16)))
CONFIG = LogConfig(segment_bytes=3000, segment_index_bytes=96, index_interval_bytes=200, file_delete_delay_ms=1000)
CONFIGS: Final = {
    "plain": CONFIG,
    "preallocating": replace(CONFIG, preallocate=True),
    "flushing": replace(CONFIG, flush_messages=3),
    "stamping": replace(CONFIG, message_timestamp_type="LogAppendTime"),
    "compacting": replace(CONFIG, cleanup_policy=("compact",)),
}
CODECS: Final = (0, 0, 0, 1, 4)
REFUSED_WHILE_CUTTING: Final = frozenset(
    {"append", "marker", "roll", "follow", "retain", "truncate", "restart_at", "cut", "start_over"}
)
TRUNCATIONS: Final = frozenset({"truncate", "restart_at", "cut", "start_over"})

Operation = tuple[Any, ...]


class Item(NamedTuple):
    first: int
    last: int
    data: bytes


class Rig:
    def __init__(self, seed: int, config: LogConfig = CONFIG) -> None:
        self.world = World(seed)
        self.config = config
        self.dice = random.Random(seed)
        self.epoch = 0
        self.content: list[Item] = []
        self.promised: list[Item] = []
        self.candidates: list[list[Item]] = [[]]
        self.restarts_at: list[int] = [0]  # where an emptied log may begin
        self.log_start_asked = 0
        self.log_start_promised = 0
        self.was_clean = False
        self.least: list[Item] = []  # what an operation that fails leaves at least
        self.cutting: list[Item] | None = None
        self.refusals = 0  # operations that a truncation under way has refused
        self.world.disk.faults.failed_sync_drops = True
        self.ends_exactly = True  # until a gap in the offsets stands before an empty segment
        self.recovery_points = OffsetCheckpoint(self.world.disk, "/data/recovery-point-offset-checkpoint")
        self.log_starts = OffsetCheckpoint(self.world.disk, "/data/log-start-offset-checkpoint")
        self.log = self.open()

    def open(self) -> UnifiedLog:
        options = LoadOptions(
            recovery_point=self.recovery_points.read().get(PARTITION, 0),
            log_start_offset=self.log_starts.read().get(PARTITION, 0),
            was_clean=self.was_clean,
            topic_id=TOPIC_ID,
        )
        self.was_clean = False
        return load(self.world.env, DIRECTORY, self.config, WarmSet(3), options)

    # Operations

    def apply(self, operation: Operation) -> None:
        kind, *arguments = operation
        if kind in REFUSED_WHILE_CUTTING and self.log.is_truncating:
            self.is_refused(lambda: getattr(self, "do_" + kind)(*arguments))
        else:
            getattr(self, "do_" + kind)(*arguments)
        self.note_promises()

    def is_refused(self, action: Callable[[], object]) -> None:
        """An operation that is refused in the middle of a truncation changes nothing, and what is left can be read."""
        content, candidates, promised = list(self.content), list(self.candidates), list(self.promised)
        state = (self.least, self.ends_exactly, self.log_start_asked, list(self.restarts_at))
        try:
            action()
        except LogTruncatingError:
            self.refusals += 1
        self.content, self.candidates, self.promised = content, candidates, promised
        self.least, self.ends_exactly, self.log_start_asked, self.restarts_at = state
        assert self.log.is_truncating
        assert items_of(self.log) == self.visible(self.content)

    def note_promises(self) -> None:
        """What lies below the recovery point is promised from now on."""
        below = [item for item in self.content if item.last < self.log.recovery_point]
        if len(below) > len(self.promised):
            self.promised = below
            self.candidates = [list(self.content)] if self.cutting is None else [self.cutting, list(self.content)]

    def will_be(self, content: list[Item]) -> None:
        """The operation that begins now may leave this behind even when it does not return."""
        self.candidates.append(content)

    def now_is(self, content: list[Item]) -> None:
        self.content = content
        self.candidates.append(list(content))

    def do_fault(self, op: Op, name: str, code: int, skip: int, operation: Operation) -> None:
        """Carry out an operation during which the disk fails once."""
        self.least = self.content
        self.world.disk.faults.fail_next(op, DIRECTORY + name, code, skip=skip)
        try:
            self.apply(operation)
        except TailraceError:
            if operation[0] not in TRUNCATIONS:
                self.note_promises()
        finally:
            self.world.disk.faults.heal()
        if op == "sync":
            self.world.jobs.run_all()  # the log learns of a failed flush when its job ends
            self.note_promises()
        try:
            self.log.append_as_leader([], self.epoch)
            assert items_of(self.log) == self.visible(self.content)
        except LogTruncatingError:
            assert items_of(self.log) == self.visible(self.content)
        except StorageError:
            if op == "sync":  # what a failed fsync dropped, no later one would write: only power off shows the truth
                self.lose_power()
            else:
                self.world.kill()
                self.log = self.open()
                assert items_of(self.log)[: len(self.visible(self.least))] == self.visible(self.least)
                self.cutting = None
                self.check_recovered()

    def do_append(self, sizes: list[int], producer: int | None) -> None:
        sets = [self.batch(size, producer if place == 0 else None) for place, size in enumerate(sizes)]
        self.append(sets, Origin.CLIENT)

    def do_marker(self, producer: int, commit: bool) -> None:
        known = self.log.producers.producers.get(producer)
        if known is None or known.txn_first_offset is None:
            return
        marker = end_txn_marker(
            COMMIT if commit else ABORT,
            producer_id=producer,
            producer_epoch=known.producer_epoch,
            coordinator_epoch=0,
            timestamp=self.world.clock.now_ms(),
        )
        self.append([marker], Origin.COORDINATOR)

    def batch(self, size: int, producer: int | None) -> bytearray:
        producer_id, epoch, sequence, transactional = -1, -1, -1, False
        if producer is not None:
            known = self.log.producers.producers.get(producer)
            producer_id, epoch = producer, 0
            sequence = known.last_seq + 1 if known is not None else 0
            transactional = producer % 2 == 0
        builder = BatchBuilder(
            codec=self.dice.choice(CODECS),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        now_ms = self.world.clock.now_ms()
        for n in range(1 + size % 3):
            builder.append(now_ms + self.dice.randrange(-50, 50), b"k%d" % n, self.dice.randbytes(size))
        return builder.build()

    def append(self, sets: list[bytearray], origin: Origin) -> None:
        before = list(self.content)
        expected = before + self.placed(sets)
        self.will_be(expected)
        copies = [bytearray(records) for records in sets]
        results = self.log.append_as_leader(sets, self.epoch, origin)
        errors = [result.error for result in results if result.error is not None]
        taken = [records for records, result in zip(copies, results, strict=True) if result.error is None]
        start = next((result.first_offset for result in results if result.error is None), None)
        self.now_is(before + self.placed(taken, start) if errors else expected)
        self.least = self.content
        if errors:
            raise errors[0]

    def placed(self, sets: list[bytearray], start: int | None = None) -> list[Item]:
        """As they will stand in the log, one behind the other."""
        offset = self.log.log_end_offset if start is None else start
        items = []
        for records in sets:
            data = bytearray(records)
            set_base_offset(data, 0, offset)
            set_leader_epoch(data, 0, self.epoch)
            if self.config.message_timestamp_type == "LogAppendTime":
                set_max_timestamp(data, 0, BatchHeader.at(data), LOG_APPEND_TIME, self.world.clock.now_ms())
            last = next(batches(data)).last_offset
            items.append(Item(offset, last, bytes(data)))
            offset = last + 1
        return items

    def do_follow(self, size: int, gap: int) -> None:
        """As a follower, batches with the leader's offsets, which may leave some out."""
        data = bytearray(self.batch(size, None))
        offset = self.log.log_end_offset + gap
        set_base_offset(data, 0, offset)
        set_leader_epoch(data, 0, self.epoch)
        self.ends_exactly &= gap == 0
        expected = [*self.content, Item(offset, next(batches(data)).last_offset, bytes(data))]
        self.will_be(expected)
        self.log.append_as_follower(bytes(data))
        self.now_is(expected)

    def do_epoch(self) -> None:
        self.epoch += 1

    def do_roll(self) -> None:
        if self.log.local.active.size:
            self.log.roll()

    def do_flush(self) -> None:
        self.log.flush()

    def do_jobs(self, count: int) -> None:
        for _ in range(count):
            self.world.jobs.run_one(self.dice)

    def do_time(self, forward_ms: int) -> None:
        self.world.clock.advance(forward_ms)
        self.world.jobs.tick()

    def do_high_watermark(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)

    def do_checkpoint(self) -> None:
        self.recovery_points.write({PARTITION: self.log.recovery_point})
        self.checkpoint_log_start(self.log.log_start_offset)

    def checkpoint_log_start(self, log_start: int) -> None:
        self.log_starts.write({PARTITION: log_start})
        self.log_start_promised = log_start

    def do_log_start(self, part: float) -> None:
        self.do_high_watermark()
        start = self.log.log_start_offset
        wanted = start + int((self.log.high_watermark - start) * part)
        self.log_start_asked = max(self.log_start_asked, wanted)
        self.log.increment_log_start(wanted)

    def do_retain(self, retention_ms: int, retention_bytes: int, is_replicated: bool) -> None:
        """Old segments go; what they held is not visible any more from the checkpoint on."""

        def checkpoint(log_start: int) -> None:
            self.log_start_asked = max(self.log_start_asked, log_start)
            self.checkpoint_log_start(log_start)

        if is_replicated:
            self.do_high_watermark()
        self.log.use_config(replace(self.config, retention_ms=retention_ms, retention_bytes=retention_bytes))
        try:
            self.log.delete_old_segments(checkpoint)
        finally:
            self.log.use_config(self.config)

    def do_truncate(self, part: float, into_batch: bool = False) -> None:
        offset = self.offset_to_cut(part, into_batch)
        if offset is None:
            return
        kept = self.about_to_cut(offset)
        self.log.truncate_to(offset)
        self.is_cut(kept)

    def do_cut(self, part: float, into_batch: bool = False) -> None:
        """The same in steps, as jobs; the first of them is begun."""
        offset = self.offset_to_cut(part, into_batch)
        if offset is not None:
            self.in_steps(self.log.truncating(offset), self.about_to_cut(offset))

    def offset_to_cut(self, part: float, into_batch: bool) -> int | None:
        whole = [item for item in self.content if item.first >= self.log.log_start_offset]
        if not whole:
            return None
        item = whole[int(part * (len(whole) - 1))]
        offset = item.last if into_batch else item.first
        self.ends_exactly &= offset == item.first
        return offset

    def about_to_cut(self, offset: int) -> list[Item]:
        """What stays. The caller of a truncation makes a recovery point durable that is not above the cut."""
        kept = [item for item in self.content if item.last < offset]
        self.will_be(kept)
        self.least = kept
        self.promised = [item for item in self.promised if item.last < offset]
        if not self.log.is_truncating:
            self.recovery_points.write({PARTITION: min(self.log.recovery_point, offset)})
        return kept

    def in_steps(self, steps: Steps[Any], kept: list[Item]) -> None:
        before, log, errors = list(self.content), self.log, list[Exception]()

        def done(_: object) -> None:
            if self.log is log:
                self.is_cut(kept)

        JobRun("truncate-log", steps, self.world.jobs, done, errors.append).start()
        if errors:
            raise errors[0]
        if log.is_truncating:
            self.cutting = before
            self.content = kept
            self.candidates = [before, kept]

    def is_cut(self, kept: list[Item]) -> None:
        self.content = list(kept)
        self.candidates = [list(kept)]
        self.cutting = None

    def do_restart_at(self, gap: int) -> None:
        offset = self.about_to_start_over(gap)
        self.log.restart_at(offset)
        self.is_cut([])

    def do_start_over(self, gap: int) -> None:
        """The same in steps, as jobs; the first of them is begun."""
        self.in_steps(self.log.restarting_at(self.about_to_start_over(gap)), [])

    def about_to_start_over(self, gap: int) -> int:
        """The caller makes the log start durable before, and a recovery point that is not above it."""
        offset = self.log.log_end_offset + gap
        self.will_be([])
        self.least = []
        self.promised = []
        self.restarts_at.append(offset)
        self.log_start_asked = max(self.log_start_asked, offset)
        if not self.log.is_truncating:
            self.recovery_points.write({PARTITION: self.log.recovery_point})
            self.log_starts.write({PARTITION: offset})
        return offset

    def do_close(self, delete_indexes: bool, in_one_process: bool = False) -> None:
        """A clean shutdown and start; the clean flag is the log manager's, so the model keeps it."""
        if self.log.is_truncating:
            self.do_close_in_the_middle()
            return
        self.log.close()
        self.promised = list(self.content)
        self.candidates = [list(self.content)]
        self.do_checkpoint()
        if not in_one_process:
            self.world.jobs.forget()
        if delete_indexes:
            self.world.disk.faults.heal()
            for entry in self.world.disk.list(DIRECTORY):
                if entry.name.endswith((names.INDEX_SUFFIX, names.TIME_INDEX_SUFFIX)):
                    self.world.disk.unlink(f"{DIRECTORY}/{entry.name}")
        self.was_clean = True
        self.reopen_whole()

    def do_close_in_the_middle(self) -> None:
        """Of a truncation: the log says that it is not closed cleanly."""
        try:
            self.log.close()
        except StorageError:
            self.reopen_whole()
        else:
            raise AssertionError("a log was closed in the middle of its truncation")

    def do_abandon(self) -> None:
        """Let go of the log and open it again while its jobs are still on their way."""
        self.log.abandon()
        self.reopen_whole()

    def do_kill(self) -> None:
        """The process dies, the operating system lives: nothing that was appended may be missing."""
        self.world.kill()
        self.reopen_whole()

    def reopen_whole(self) -> None:
        before, cutting = self.content, self.cutting
        try:
            self.log = self.open()
        except StorageError:  # the disk failed meanwhile
            self.world.kill()
            self.log = self.open()
        self.world.disk.faults.heal()
        found = items_of(self.log)
        if cutting is None:
            assert found == self.visible(before)
        else:
            assert found[: len(self.visible(before))] == self.visible(before)
            assert found == self.visible(cutting)[: len(found)]
        self.cutting = None
        self.check_recovered()

    # Checks

    def visible(self, content: list[Item]) -> list[Item]:
        return [item for item in content if item.last >= self.log.log_start_offset]

    def lose_power(self) -> None:
        """And perhaps again while the log is opened."""
        disk = self.world.disk
        self.world.restart()
        self.was_clean = False
        self.cutting = None
        while True:
            if self.dice.random() < 0.5:
                disk.crash_at(disk.ops + self.dice.randint(1, 12))
            try:
                self.log = self.open()
                break
            except SimulatedCrash:
                self.world.restart()
        disk.crash_at(None)
        self.check_recovered()

    def check_recovered(self) -> None:
        log = self.log
        found = items_of(log)
        assert any(self.is_left_of(found, self.visible(state)) for state in self.candidates), (
            f"no state it had: {brief(found)}\nof {[brief(state) for state in self.candidates]}"
        )
        promised = self.visible(self.promised)
        assert found[: len(promised)] == promised, f"lost: {brief(promised)} was flushed, found {brief(found)}"
        assert self.log_start_promised <= log.log_start_offset <= self.log_start_asked
        if self.ends_exactly and not self.config.compacts:
            assert log.log_end_offset == (found[-1].last + 1 if found else log.log_end_offset)
        log.bounds.check()
        for batch in batches(b"".join(item.data for item in found)):
            assert log.epochs.epoch_for_offset(max(batch.base_offset, log.log_start_offset)) == batch.leader_epoch
        self.check_producers()
        self.world.jobs.run_all()
        findings = list(verify_directory(self.world.disk, DIRECTORY))
        assert findings == [], findings
        self.content = found
        self.candidates = [list(found)]
        self.promised = [item for item in found if item.last < log.recovery_point]

    def is_left_of(self, found: list[Item], state: list[Item]) -> bool:
        """A beginning of it; where the topic compacts, perhaps without some (decision 0005)."""
        if self.config.compacts:
            rest = iter(state)
            return all(item in rest for item in found)
        return state[: len(found)] == found

    def check_producers(self) -> None:
        """With the whole log at hand, a replay from nothing must give the same producers."""
        first = self.log.local.segments.first
        if self.log.log_start_offset or first is None or first.base_offset:
            return
        fresh = ProducerStateManager(self.world.disk, "/data/nowhere")
        for segment in self.log.local.segments:
            producer_replay.replay_segment(fresh, segment, 0, self.log.log_end_offset)
        assert short(fresh) == short(self.log.producers)

    def go_on(self) -> None:
        """A recovered log must work: write, flush, die, and still be there."""
        self.apply(("append", [40, 700], None))
        self.apply(("flush",))
        self.world.jobs.run_all()
        self.note_promises()
        assert self.log.recovery_point == self.log.log_end_offset
        self.do_checkpoint()
        self.do_kill()


def short(state: ProducerStateManager) -> dict[int, tuple[Any, ...]]:
    """Snapshots keep only the last of the five batches, so the last is compared."""
    return {
        producer_id: (
            entry.producer_epoch,
            entry.last_seq,
            entry.last_data_offset,
            entry.txn_first_offset,
            entry.coordinator_epoch,
        )
        for producer_id, entry in state.producers.items()
    }


def items_of(log: UnifiedLog) -> list[Item]:
    found: list[Item] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).read()
        if not data:
            break
        for batch in batches(data):
            found.append(Item(batch.base_offset, batch.last_offset, data[batch.position : batch.end]))
            offset = batch.last_offset + 1
    return found


def brief(items: list[Item]) -> list[tuple[int, int]]:
    return [(item.first, item.last) for item in items]
