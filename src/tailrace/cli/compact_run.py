"""An offline compaction: a log manager opens the chosen partitions as a broker would, its cleaner cleans what there is
to clean, and everything is closed as a broker would.

What does not happen: retention, deletion of partitions, checkpoints from time to time. Other partitions are not opened.
A directory that had no marker of a clean shutdown gets none, unless every log in it was opened.

Records beyond the high watermark are not compacted: the partition's leader may take them back, and what they replaced
would be lost. It is the checkpointed one; without an entry nothing can be cleaned.

One thread, the caller's, owns all of it. `interrupt` may be called by a signal's handler on that thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tailrace.cli.compact_plan import Plan
from tailrace.config.broker import BrokerConfig
from tailrace.config.cleaner import CleanerConfig
from tailrace.config.log import MAX_LONG, LogConfig
from tailrace.env import Env
from tailrace.env.real import RealClock, RealFiles, ThreadJobs
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.storage.cleaner.cleaner import LogCleaner
from tailrace.storage.compaction.log_compaction import CompactionStats, cleanable_of
from tailrace.storage.compaction.planner import Candidate, LogToClean
from tailrace.storage.manager.clean_shutdown import UNKNOWN_BROKER_EPOCH
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

TICK_MS: Final = 100
OPEN_FILES: Final = 200
NO_RETRY_MS: Final = 3_600_000  # a failure is told at once; nobody waits here for another attempt
STALLED_TICKS: Final = 600

COMPACTED: Final = "compacted"
NOTHING_TO_DO: Final = "nothing to do"
NOT_REPLICATED: Final = "no high watermark"
INTERRUPTED: Final = "interrupted"
FAILED: Final = "failed"


class Size(NamedTuple):
    bytes: int
    segments: int

    @classmethod
    def of(cls, log: UnifiedLog) -> Size:
        return cls(log.local.size, len(log.local.segments.base_offsets))


NO_SIZE: Final = Size(0, 0)


@dataclass(slots=True)
class Work:
    """One partition, before and after."""

    partition: TopicPartition
    directory: str
    before: Size = NO_SIZE
    after: Size = NO_SIZE
    outcome: str = NOTHING_TO_DO
    reason: str = ""
    """Why it could not be cleaned."""
    cleans: list[CompactionStats] = field(default_factory=list)
    to_clean: LogToClean | None = None
    """What is left to be cleaned."""

    @property
    def records_after(self) -> int | None:
        """In the segments that were cleaned: the active one is not among them. Each clean begins at the log start."""
        return self.cleans[-1].records_written if self.cleans else None

    @property
    def records_before(self) -> int | None:
        if not self.cleans:
            return None
        return self.cleans[-1].records_written + sum(each.records_dropped for each in self.cleans)

    @property
    def keyless_dropped(self) -> int:
        return sum(each.invalid_records for each in self.cleans)

    @property
    def bytes_to_move(self) -> int:
        return 0 if self.to_clean is None else self.to_clean.cleanable_bytes + self.to_clean.total_bytes


class Settings(NamedTuple):
    topic: LogConfig
    cleaner: CleanerConfig
    all_committed: bool
    """Take every record for replicated."""

    @classmethod
    def of(
        cls,
        *,
        delete_retention_ms: int,
        segment_bytes: int,
        min_dirty_ratio: float,
        threads: int,
        dedupe_buffer_bytes: int,
        all_committed: bool,
    ) -> Settings:
        """ConfigError for a value that the broker's setting of that name would not take either."""
        topic = {
            "cleanup.policy": "compact",
            "delete.retention.ms": str(delete_retention_ms),
            "segment.bytes": str(segment_bytes),
            "min.cleanable.dirty.ratio": str(min_dirty_ratio),
            "file.delete.delay.ms": "0",  # nobody reads the old segments
        }
        cleaner = {
            "log.cleaner.threads": str(threads),
            "log.cleaner.dedupe.buffer.size": str(dedupe_buffer_bytes),
            "log.cleaner.backoff.ms": str(NO_RETRY_MS),
        }
        return cls(LogConfig.of(topic), CleanerConfig.of(cleaner), all_committed)


class CompactionRun:
    """`tick` is called some times a second while `run` is at work, to show how far it is."""

    def __init__(self, plan: Plan, settings: Settings, tick: Callable[[CompactionRun], None]) -> None:
        self._plan = plan
        self._settings = settings
        self._tick = tick
        clock = RealClock()
        threads = max(settings.cleaner.log_cleaner_threads, 2 * len(plan.directories))
        self._jobs = ThreadJobs(clock, threads)
        self._env = Env(RealFiles(), clock, self._jobs, random.Random())
        self._manager = LogManager(
            self._env,
            BrokerConfig(
                log_dirs=plan.directories,
                log_initial_task_delay_ms=MAX_LONG,  # no background task ever runs
                cleaner=settings.cleaner,
            ),
            plan.identity,
            WarmSet(OPEN_FILES),
        )
        self._is_open = False
        self._is_closed = False
        self._moved_bytes = 0  # by cleans that have ended
        self._idle_ticks = 0
        self.work: dict[TopicPartition, Work] = {}
        self.is_interrupted = False
        self.is_stalled = False

    def run(self) -> None:
        """A TailraceError tells why nothing could be done, or why all directories were lost on the way."""
        try:
            self._manager.start(
                self._opened,
                dict.fromkeys(self._plan.topics, self._settings.topic),
                is_wanted=lambda partition: partition.topic in self._plan.topics,
            )
            self._tick_on()
            self._jobs.run_until(lambda: self._is_open or self.is_interrupted)
            self._jobs.run_until(lambda: self.is_interrupted or self.is_stalled or self._is_all_done())
            self._cleaner.stop()
            self._conclude()
            self._manager.shutdown(self._closed, self._broker_epoch())
            self._jobs.run_until(lambda: self._is_closed)
        finally:
            self._jobs.close()

    def interrupt(self) -> None:
        """End well, but soon: cleans under way are called off."""
        self.is_interrupted = True

    # Looking

    @property
    def opened(self) -> int:
        """How many logs are open so far."""
        return len(self._manager.partitions()) + len(self._manager.unloadable)

    @property
    def under_way(self) -> list[TopicPartition]:
        return [each.partition for each in self._cleaner.progress]

    @property
    def moved(self) -> tuple[int, int]:
        """Bytes read so far, and in all as far as is known now."""
        under_way = {each.partition: each for each in self._cleaner.progress}
        now = self._moved_bytes + sum(each.moved_bytes for each in under_way.values())
        return now, self._moved_bytes + sum(each.bytes_to_move for each in self.work.values())

    # Working

    @property
    def _cleaner(self) -> LogCleaner:
        cleaner = self._manager.cleaner
        assert cleaner is not None
        return cleaner

    def _broker_epoch(self) -> int:
        """Of the run before: for the cluster nothing has happened."""
        epoch = self._manager.previous_broker_epoch
        return UNKNOWN_BROKER_EPOCH if epoch is None else epoch

    def _closed(self) -> None:
        self._is_closed = True

    def _tick_on(self) -> None:
        if self._is_open:
            self._note_failures()
            self._watch_for_stall()
        self._tick(self)
        if not self._is_closed:
            self._jobs.later("tick", TICK_MS, self._tick_on)

    def _opened(self) -> None:
        """Called before the cleaner has its first look."""
        for directory in self._manager.directories:
            known = self._plan.high_watermarks[directory.path]
            for partition, log in self._manager.logs_in(directory).items():
                if self._manager.log(partition) is not log:
                    continue  # a copy that is being moved here
                work = self.work[partition] = Work(partition, directory.path)
                work.before = work.after = Size.of(log)
                if self._settings.all_committed or partition in known:
                    log.update_high_watermark(log.log_end_offset if self._settings.all_committed else known[partition])
                else:
                    work.outcome = NOT_REPLICATED
                self._look_at(work)
        for partition, error in self._manager.unloadable.items():
            self.work[partition] = Work(partition, self._plan.partitions[partition], outcome=FAILED, reason=str(error))
        self._cleaner.on_cleaned.add(self._cleaned)
        self._is_open = True

    def _look_at(self, work: Work) -> None:
        """See what is left to clean."""
        work.to_clean = None
        log = self._manager.log(work.partition)
        if log is None or work.outcome == FAILED:
            return
        try:
            point = self._cleaner.cleaner_point(work.directory, work.partition)
            found = cleanable_of(log, point, self._env.clock.now_ms()).log
        except (TailraceError, OSError) as error:
            self._failed(work, str(error))
            return
        if Candidate(found, log.config.min_cleanable_dirty_ratio).is_worth_cleaning:
            work.to_clean = found

    def _cleaned(self, partition: TopicPartition, stats: CompactionStats) -> None:
        work = self.work[partition]
        self._moved_bytes += work.bytes_to_move
        work.cleans.append(stats)
        work.outcome = COMPACTED
        self._look_at(work)
        self._idle_ticks = 0

    def _note_failures(self) -> None:
        for directory in self._manager.directories:
            for partition, why in self._cleaner.uncleanable(directory.path).items():
                self._failed(self.work[partition], why.reason)
            if directory.failure is not None:
                for work in self.work.values():
                    if work.directory == directory.path:
                        self._failed(work, str(directory.failure))

    def _failed(self, work: Work, reason: str) -> None:
        if work.outcome != FAILED:
            work.outcome, work.reason, work.to_clean = FAILED, reason, None
            self._idle_ticks = 0

    def _is_all_done(self) -> bool:
        return self._cleaner.is_idle and not any(work.to_clean is not None for work in self.work.values())

    def _watch_for_stall(self) -> None:
        """Something is to be cleaned and nobody does: every cleaner thread has died, or sleeps."""
        if not self._cleaner.is_idle or self._is_all_done():
            self._idle_ticks = 0
            return
        self._idle_ticks += 1
        self._cleaner.awake()
        dead = sum(gauge.value for gauge in self._cleaner.gauges() if gauge.name == "DeadThreadCount")
        are_all_dead = dead == self._settings.cleaner.log_cleaner_threads
        self.is_stalled = are_all_dead or self._idle_ticks > STALLED_TICKS

    def _conclude(self) -> None:
        for partition, directory in self._plan.partitions.items():
            if partition not in self.work:  # not opened, because of an interrupt or a failing disk
                outcome = INTERRUPTED if self.is_interrupted else NOTHING_TO_DO
                self.work[partition] = Work(partition, directory, outcome=outcome)
        self._note_failures()
        for work in self.work.values():
            log = self._manager.log(work.partition)
            if log is not None:
                work.after = Size.of(log)
            if work.to_clean is not None and self.is_interrupted:
                work.outcome = INTERRUPTED
            elif work.to_clean is not None:
                self._failed(work, "no cleaner thread takes it on")
