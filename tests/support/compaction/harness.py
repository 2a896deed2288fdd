"""A broker's compacted logs on a simulated disk, with a ledger beside each, under any sequence of operations.

Operations are tuples that Hypothesis makes; each ends with a number that seeds the dice of the operation, so that the
others stay as they are when one is left out. An operation may be struck by a loss of power, or by the death of the
process, at any of its file operations; then the broker starts again, perhaps to be struck again while it loads, and
every ledger is shown its log. File operations may fail as well: then the log goes on or says that it cannot, and is
started again.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any, Final

from support.compaction.model import Ledger, Rules
from support.compaction.producers import Pen, check_writers, resend
from support.compaction.reader_view import committed_from, place_of, seen_in
from support.compaction.scenarios import SEGMENT_BYTES, Shape
from tailrace.config.broker import BrokerConfig
from tailrace.config.cleaner import CleanerConfig
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.sim import World
from tailrace.sim.faults import Op, SimulatedCrash
from tailrace.storage import names
from tailrace.storage.appender import FINISH_RETRY_MS
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.compaction.log_compaction import CompactionStats
from tailrace.storage.compaction.offset_map import SLOT_BYTES
from tailrace.storage.manager.clean_shutdown import CLEAN_SHUTDOWN_FILE
from tailrace.storage.manager.directory_checkpoints import CLEANER_FILE
from tailrace.storage.manager.log_directories import NodeIdentity
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.verify import verify_directory
from tailrace.storage.warm import WarmSet

IDENTITY: Final = NodeIdentity("uViM5VGiQUWqVVgvr1gYxQ", 1)
TOPIC_ID: Final = TopicId(bytes(range(16)))
BACKOFF_MS: Final = 500
MANY_STEPS: Final = 20_000

Operation = tuple[Any, ...]


class BrokenBroker(Exception):  # noqa: N818 - named as what it is
    """A partition is not served: what failing disks may bring about, and nothing else."""


class Rig:
    def __init__(self, seed: int, shape: Shape) -> None:
        self.world = World(seed, directories=shape.directories)
        self.disk = self.world.disk
        self.disk.faults.failed_sync_drops = True
        self.jobs = self.world.jobs
        self.shape = shape
        self.config = shape.config
        self.dice = random.Random(seed)
        self.ledgers: dict[TopicPartition, Ledger] = {}
        self.struck: Counter[str] = Counter()
        """Crash points, by where they fell."""
        self.cleans = 0
        self._pen = Pen(self.world.clock)
        self._power_was_lost = False  # since the ledgers were last shown their logs
        self._must_lose_power = False  # a failed sync may have dropped what no later one would write
        self._has_failed = False  # a file operation of this broker
        self.manager = self._new_manager()
        self._start()
        rules = Rules(shape.config.delete_retention_ms, shape.config.min_compaction_lag_ms)
        for number in range(shape.partitions):
            partition = TopicPartition("t", number)
            self.ledgers[partition] = Ledger(rules)
            self.manager.create(partition, TOPIC_ID, _ignore, _ignore)
        self._run_jobs()
        self.disk.sync_all()

    # The broker

    def _new_manager(self) -> LogManager:
        cleaner = CleanerConfig(
            log_cleaner_threads=self.shape.threads,
            log_cleaner_dedupe_buffer_size=self.shape.slots * SLOT_BYTES * self.shape.threads,
            log_cleaner_io_buffer_size=self.shape.io_buffer_bytes * self.shape.threads,
            log_cleaner_backoff_ms=BACKOFF_MS,
        )
        config = BrokerConfig(
            log_dirs=self.shape.directories,
            log_retention_check_interval_ms=700,
            log_flush_offset_checkpoint_interval_ms=900,
            log_flush_start_offset_checkpoint_interval_ms=900,
            log_initial_task_delay_ms=50,
            topic_defaults=self.config,
            cleaner=cleaner,
        )
        return LogManager(self.world.env, config, IDENTITY, WarmSet(3))

    def _start(self) -> None:
        is_started = False

        def started() -> None:
            nonlocal is_started
            is_started = True

        self.manager.start(started, {"t": self.config})
        while not is_started:
            assert self.jobs.run_one(self.dice), "the broker does not start"
        assert self.manager.cleaner is not None
        self.manager.cleaner.on_cleaned.add(self._on_cleaned)

    def _on_cleaned(self, partition: TopicPartition, stats: CompactionStats) -> None:
        """Everything up to the cleaner's point is in segments that were synced."""
        self.cleans += 1
        ledger = self.ledgers[partition]
        ledger.durable_end = max(ledger.durable_end, stats.cleaner_point)

    def log(self, partition: TopicPartition) -> UnifiedLog:
        log = self.manager.log(partition)
        if log is None:
            raise BrokenBroker(f"{partition} is not served")
        return log

    def _step(self) -> bool:
        """One step of a job."""
        try:
            return self.jobs.run_one(self.dice)
        finally:
            if not self.disk.is_down:
                self._note()

    def _run_jobs(self) -> None:
        """Those that wait for nothing."""
        for _ in range(MANY_STEPS):
            if not self._step():
                if not any(left <= 0 for _, left in self.jobs.waiting):
                    return
                self.jobs.tick()
                self._note()
        raise AssertionError(f"jobs do not end: {self.jobs.pending} {self.jobs.waiting}")

    def _pass_time(self, ms: int) -> None:
        end = self.world.clock.now_ms() + ms
        while (now := self.world.clock.now_ms()) < end:
            soonest = min((left for _, left in self.jobs.waiting), default=ms)
            self.jobs.tick(min(end, now + max(soonest, 1)))
            self._note()
            for _ in range(self.dice.choice((2, 20, 200))):
                if not self._step():
                    break

    def _note(self) -> None:
        """What can be relied on, or has become possible, since the last look."""
        for partition, ledger in self.ledgers.items():
            log = self.manager.log(partition)
            if log is None:
                continue
            if ledger.cut_at is None:
                ledger.durable_end = max(ledger.durable_end, log.recovery_point)
            if log.config.compacts:
                ledger.reach = max(ledger.reach, min(log.last_stable_offset, log.local.active.base_offset))
                ledger.decided_end = max(ledger.decided_end, log.high_watermark)
            first = log.local.segments.first
            if first is not None:  # segments go when the log start is durable
                ledger.start_promised = max(ledger.start_promised, min(first.base_offset, log.log_start_offset))
            # Retention moves it within a step that may not come to its end.
            may_reach = log.high_watermark if log.config.deletes else log.log_start_offset
            ledger.start_asked = max(ledger.start_asked, may_reach)

    # Operations

    def apply(self, operation: Operation) -> None:
        """Carry out an operation, and what a crash that strikes in it brings."""
        kind, *arguments, salt = operation
        self.dice = random.Random(salt)
        try:
            getattr(self, "do_" + kind)(*arguments)
            self._note()
        except SimulatedCrash as crash:
            self._count(crash)
            self._recover(power_lost=self.dice.random() < 0.7)

    def finish(self) -> None:
        """A broker that went through all this works: it cleans, stops and starts."""
        self.disk.crash_at(None)
        self.do_clean()
        self.check_all()
        self.do_shutdown()

    def do_crash(self, distance: int, inner: Operation) -> None:
        """Strike so many file operations from now, in `inner` or later."""
        self.disk.crash_at(self.disk.ops + distance)
        self.apply(inner)

    def do_crash_in_clean(self, distance: int) -> None:
        """Strike when all that is ready to be cleaned is flushed and the cleaner begins."""
        self._make_cleanable()
        while self.jobs.pending:
            self._step()
        self.disk.crash_at(self.disk.ops + distance)
        self._let_clean()

    def do_nothing(self) -> None:
        """What Hypothesis puts in the place of operations that a failure does not need."""

    def do_write(self, count: int) -> None:
        for _ in range(count):
            partition = self.dice.choice(list(self.ledgers))
            self._pen.write(self.dice, self.log(partition), self.ledgers[partition])
            if self.dice.random() < 0.2:
                self._step()

    def do_end_transactions(self) -> None:
        for partition, ledger in self.ledgers.items():
            self._pen.end_transactions(self.dice, self.log(partition), ledger)

    def do_high_watermark(self) -> None:
        for partition, ledger in self.ledgers.items():
            self._raise_high_watermark(self.log(partition), ledger)

    def _raise_high_watermark(self, log: UnifiedLog, ledger: Ledger) -> None:
        """To the end or, less often, to the edge of some batch."""
        firsts = [entry.first for entry in ledger.entries if entry.first > log.high_watermark]
        to_end = not firsts or self.dice.random() < 0.6
        log.update_high_watermark(log.log_end_offset if to_end else self.dice.choice(firsts))

    def do_roll(self) -> None:
        for partition in self.ledgers:
            if self.log(partition).local.active.size:
                self.log(partition).roll()

    def do_jobs(self, count: int) -> None:
        for _ in range(count):
            self._step()

    def do_time(self, ms: int) -> None:
        self._pass_time(ms)

    def do_clean(self) -> None:
        """Give the cleaner something to do and let it."""
        self._make_cleanable()
        self._let_clean()

    def _make_cleanable(self) -> None:
        if self.dice.random() < 0.5:
            self.do_end_transactions()
        self._note()
        for partition in self.ledgers:
            self.log(partition).update_high_watermark(self.log(partition).log_end_offset)
        self.do_roll()
        self._note()

    def _let_clean(self) -> None:
        assert self.manager.cleaner is not None
        self.manager.cleaner.awake()
        if self.dice.random() < 0.8:
            self._run_jobs()
        else:
            self.do_jobs(self.dice.randrange(30))

    def do_delete_records(self, part: float) -> None:
        partition = self.dice.choice(list(self.ledgers))
        log, ledger = self.log(partition), self.ledgers[partition]
        wanted = log.log_start_offset + int((log.high_watermark - log.log_start_offset) * part)
        ledger.start_asked = max(ledger.start_asked, wanted)

        def done() -> None:
            ledger.start_promised = max(ledger.start_promised, wanted)

        self.manager.increment_log_start(partition, wanted, done, _ignore)

    def do_retention(self) -> None:
        """What the retention task does, and what the cleaner does for compacted logs."""
        self.manager.delete_old_segments()
        assert self.manager.cleaner is not None
        self.manager.cleaner.awake()
        self._run_jobs()

    def do_crash_in_retention(self, distance: int, part: float) -> None:
        """Strike when segments lie below the log start and go."""
        self._make_cleanable()
        self.do_delete_records(part)
        self._run_jobs()
        self.disk.crash_at(self.disk.ops + distance)
        self.do_retention()
        self._pass_time(2 * self.config.file_delete_delay_ms)

    def do_truncate(self, part: float) -> None:
        """Seldom below what the cleaner could reach: then records have gone for others that go now."""
        partition = self.dice.choice(list(self.ledgers))
        self.check(partition)
        log, ledger = self.log(partition), self.ledgers[partition]
        least = log.high_watermark if self.dice.random() < 0.7 else log.log_start_offset
        seen = seen_in(log)
        edges = [batch.last + 1 for batch in seen if batch.last + 1 >= least]
        if edges:
            offset = edges[int(part * (len(edges) - 1))]
            ledger.will_truncate(offset, seen)
            outcomes: list[dict[TopicPartition, TailraceError]] = []
            self.manager.truncate_to({partition: offset}, outcomes.append)
            while not outcomes:
                assert self.jobs.run_one(self.dice)
            for error in outcomes[0].values():
                raise error  # only an injected fault may cause it: `do_fault` then starts the broker again
            ledger.truncated(offset)

    def do_flush(self) -> None:
        for partition in self.ledgers:
            self.log(partition).flush()

    def do_checkpoint(self) -> None:
        self.manager.checkpoint_recovery_points()
        self.manager.checkpoint_log_starts()

    def do_policy(self, policy: tuple[str, ...]) -> None:
        """Also another `segment.bytes`: where it was greater, a clean makes several segments of one."""
        self._note()
        segment_bytes = self.dice.choice((self.config.segment_bytes, *SEGMENT_BYTES))
        self.config = replace(self.config, cleanup_policy=policy, segment_bytes=segment_bytes)
        self.manager.update_config("t", self.config)

    def do_check(self) -> None:
        self.check_all()

    def do_resend(self) -> None:
        for partition, ledger in self.ledgers.items():
            resend(self.log(partition), ledger)

    def do_shutdown(self) -> None:
        """Where the marker of a clean shutdown is left, everything is durable."""
        directories = {partition: self.log(partition).dir.rpartition("/")[0] for partition in self.ledgers}
        starts = {partition: self.log(partition).log_start_offset for partition in self.ledgers}
        ended: list[bool] = []
        self.manager.shutdown(lambda: ended.append(True))
        self._run_jobs()
        assert ended
        for partition, ledger in self.ledgers.items():
            is_clean = self.disk.exists(f"{directories[partition]}/{CLEAN_SHUTDOWN_FILE}")
            assert is_clean or self._has_failed
            if is_clean:
                ledger.durable_end = ledger.end
                ledger.start_promised = max(ledger.start_promised, starts[partition])
        self._recover(power_lost=self.dice.random() < 0.5)

    def do_kill(self) -> None:
        self._recover(power_lost=False)

    def do_power(self) -> None:
        self._recover(power_lost=True)

    def do_fault(self, op: Op, pattern: str, code: int, skip: int, inner: Operation) -> None:
        """The disk fails once while `inner` runs. The broker goes on if it can, else it is started again."""
        self.disk.faults.fail_next(op, pattern, code, skip=skip)
        self._must_lose_power = op == "sync"
        self._has_failed = True
        try:
            self.apply(inner)
            self._run_jobs()
            for partition in self.ledgers:
                self.log(partition).append_as_leader([], 0)  # a log that has failed says so
            is_broken = False
        except (TailraceError, BrokenBroker):
            is_broken = True
        finally:
            self.disk.faults.heal()
        if is_broken:
            self._recover(power_lost=self.dice.random() < 0.5)
            return
        self._must_lose_power = False
        for ledger in self.ledgers.values():
            ledger.attempted = []
        self._pass_time(FINISH_RETRY_MS)  # the fault may have left a transaction without its entry in the index
        self._run_jobs()
        self.check_all()

    # After a crash

    def _count(self, crash: SimulatedCrash) -> None:
        self.struck[place_of(crash)] += 1

    def _recover(self, *, power_lost: bool) -> None:
        """Start again, perhaps to be struck again meanwhile, and show every ledger its log."""
        self._die(power_lost)
        while True:
            self.manager = self._new_manager()
            if self.dice.random() < 0.2:
                self.disk.crash_at(self.disk.ops + self.dice.randint(1, 30))
            try:
                self._start()
                break
            except SimulatedCrash as crash:
                self._count(crash)
                self._die(self.dice.random() < 0.5)
        self.disk.crash_at(None)
        self.disk.faults.heal()
        for partition in self.ledgers:
            self._check_directory(partition)
        self.check_all()
        self.do_resend()

    def _die(self, power_lost: bool) -> None:
        # A file that was cut and not synced is as long as before when power is lost later: a truncation that a kill cut
        # short is undone then. No model follows that far.
        power_lost |= self._must_lose_power or any(ledger.cut_at is not None for ledger in self.ledgers.values())
        self._power_was_lost |= power_lost
        self._must_lose_power = False
        (self.world.restart if power_lost else self.world.kill)()

    def _check_directory(self, partition: TopicPartition) -> None:
        log, ledger = self.log(partition), self.ledgers[partition]
        listed = [entry.name for entry in self.disk.list(log.dir)]
        left = [name for name in listed if name.endswith((names.CLEANED_SUFFIX, names.SWAP_SUFFIX))]
        assert left == [], left
        data_directory = log.dir.rpartition("/")[0]
        point = OffsetCheckpoint(self.disk, f"{data_directory}/{CLEANER_FILE}").read().get(partition, 0)
        assert point <= log.log_end_offset, f"clean up to {point}, but the log ends at {log.log_end_offset}"
        assert point <= max(ledger.reach, ledger.start_asked), f"clean up to {point}, which could not be"
        findings = list(verify_directory(self.disk, log.dir))
        assert findings == [], findings

    def check_all(self) -> None:
        for partition in self.ledgers:
            self.check(partition)
        self._power_was_lost = False
        assert self.manager.cleaner is not None
        if not self._has_failed:
            for directory in self.shape.directories:
                uncleanable = self.manager.cleaner.uncleanable(directory)
                assert not uncleanable, uncleanable

    def check(self, partition: TopicPartition) -> None:
        log, ledger = self.log(partition), self.ledgers[partition]
        self._note()
        seen = seen_in(log)
        start, end, now_ms = log.log_start_offset, log.log_end_offset, self.world.clock.now_ms()
        ledger.check(seen, start=start, end=end, now_ms=now_ms, power_lost=self._power_was_lost)
        check_writers(log, ledger, seen)
        assert self.manager.cleaner is not None
        point = self.manager.cleaner.cleaner_point(log.dir.rpartition("/")[0], partition)
        if point is not None:
            ledger.check_clean(seen, start, point)
        log.bounds.check()
        self._raise_high_watermark(log, ledger)
        stable = log.last_stable_offset
        least, most = ledger.stable_ends(start, log.high_watermark)
        assert least <= stable <= most, f"{log} is stable up to {stable}, not within {least} to {most}"
        for begin in (start, start + int((stable - start) * self.dice.random())):
            assert committed_from(log, begin) == ledger.committed(seen, begin, stable)


def _ignore(_: object) -> None:
    pass
