"""One of `log.cleaner.threads`: cleans the dirtiest log, deletes old segments of compacted ones, looks again.

It sleeps `log.cleaner.backoff.ms`, and only when there was nothing to clean. What it decides, it decides on the owner's
thread; the steps of a clean are jobs.

A clean that fails is the partition's trouble (see `uncleanable`). Whatever else goes wrong ends the worker: it is dead
and counted, until the pool is made anew or, after a pause that doubles each time, it comes back by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.config.cleaner import CleanerConfig
from tailrace.model.errors import SegmentGoneError, StorageError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.storage.cleaner.checkpoints import CleanerCheckpoints
from tailrace.storage.cleaner.selection import LOGS_PER_TURN, Chosen, Selection, Turns
from tailrace.storage.cleaner.states import CleaningStates
from tailrace.storage.cleaner.throttle import Throttle
from tailrace.storage.cleaner.uncleanable import UncleanablePartitions
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.manager.segment_retention import delete_old_segments_of
from tailrace.storage.steps import CalledOffError, JobRun

if TYPE_CHECKING:
    from tailrace.storage.compaction.log_compaction import CompactionStats
    from tailrace.storage.compaction.offset_map import OffsetMap

_log = logging.getLogger(__name__)

LONGEST_DEATH_MS: Final = 3_600_000


@dataclass
class Workshop:
    """What all workers share."""

    store: LogStore
    config: CleanerConfig
    states: CleaningStates
    checkpoints: CleanerCheckpoints
    uncleanable: UncleanablePartitions
    selection: Selection
    throttle: Throttle
    cleaned: Callable[[TopicPartition, CompactionStats], None]


class Progress(NamedTuple):
    """Of a clean under way: bytes moved, of about so many in both passes."""

    partition: TopicPartition
    moved_bytes: int
    total_bytes: int


class LastClean(NamedTuple):
    stats: CompactionStats
    took_ms: int


class CleanerWorker:
    def __init__(self, number: int, workshop: Workshop) -> None:
        self.name = f"kafka-log-cleaner-thread-{number}"
        self.is_dead = False
        self.last: LastClean | None = None
        self._workshop = workshop
        self._jobs = workshop.store.env.jobs
        self._clock = workshop.store.env.clock
        self._map: OffsetMap | None = None
        self._chosen: Chosen | None = None
        self._run: JobRun[CompactionStats] | None = None
        self._began_ms = 0
        self._truncations_before = 0
        self._moved_bytes = 0
        self._deaths = 0
        self._is_asleep = False
        self._is_stopped = False
        self._appointment = 0  # the last one made counts; earlier ones are void

    @property
    def progress(self) -> Progress | None:
        if self._chosen is None:
            return None
        to_clean = self._chosen.to_clean
        total = to_clean.cleanable_bytes + to_clean.total_bytes
        return Progress(self._chosen.partition, min(self._moved_bytes, total), total)

    def start(self) -> None:
        self._look_in(0)

    def awake(self) -> None:
        if self._is_asleep and not self._is_stopped:
            self._look_in(0)

    def stop(self) -> None:
        """For good; a clean under way is called off."""
        self._is_stopped = True
        self._appointment += 1
        if self._run is not None:
            self._run.call_off(CalledOffError(f"{self.name} ends"))

    def abort(self, partition: TopicPartition) -> bool:
        """Call off the clean of the partition if it is this worker's. When it returns the clean has ended."""
        if self._chosen is None or self._chosen.partition != partition or self._run is None:
            return False
        self._run.call_off(CalledOffError(f"the clean of {partition} is called off"))
        return True

    # Looking

    def _look_in(self, delay_ms: int) -> None:
        self._is_asleep = delay_ms > 0
        self._take_turn(self._look(), delay_ms)

    def _take_turn(self, turns: Turns[None], delay_ms: int = 0) -> None:
        self._appointment += 1
        appointment = self._appointment

        def go_on() -> None:
            if appointment != self._appointment:
                return
            self._is_asleep = False
            try:
                next(turns)
            except StopIteration:
                return
            except Exception as error:
                self._die(error)
            else:
                self._take_turn(turns)

        self._jobs.later(self.name, delay_ms, go_on)

    def _look(self) -> Turns[None]:
        self._forget_what_needs_no_cleaning()
        chosen = yield from self._workshop.selection.dirtiest()
        if chosen is not None:
            self._begin(chosen)
        else:
            yield from self._rest()

    def _forget_what_needs_no_cleaning(self) -> None:
        uncleanable, current = self._workshop.uncleanable, self._workshop.store.current
        for directory in uncleanable.directories:
            for partition in list(uncleanable.of(directory)):
                if partition not in current or not current[partition].config.compacts:
                    uncleanable.forget(directory, partition)

    def _rest(self) -> Turns[None]:
        """Nothing was cleaned."""
        yield from self._delete_old_segments()
        self._look_in(max(self._workshop.config.log_cleaner_backoff_ms, 1))

    def _delete_old_segments(self) -> Turns[None]:
        """Of all compacted logs: with `compact` alone only what lies below the log start."""
        workshop = self._workshop
        for place, (partition, log) in enumerate(list(workshop.selection.compacted())):
            if place % LOGS_PER_TURN == LOGS_PER_TURN - 1:
                yield
            is_here = workshop.store.current.get(partition) is log
            if is_here and log.config.compacts and workshop.states.of(partition) is None:
                delete_old_segments_of(workshop.store, log)

    def _delete_and_look_again(self) -> Turns[None]:
        yield from self._delete_old_segments()
        self._look_in(0)

    # Cleaning

    def _begin(self, chosen: Chosen) -> None:
        from tailrace.storage.compaction.chunks import LEAST_BUFFER_BYTES
        from tailrace.storage.compaction.log_compaction import compact
        from tailrace.storage.compaction.offset_map import OffsetMap, memory_per_thread

        workshop, config = self._workshop, self._workshop.config
        threads = config.log_cleaner_threads
        if self._map is None:
            memory = memory_per_thread(config.log_cleaner_dedupe_buffer_size, threads)
            self._map = OffsetMap(memory, workshop.store.env.random, config.log_cleaner_io_buffer_load_factor)
        workshop.states.begin(chosen.partition)
        self._chosen = chosen
        self._began_ms = self._clock.monotonic_ms()
        self._truncations_before = chosen.log.local.truncations
        self._moved_bytes = 0
        try:
            directory = workshop.store.directory_of(chosen.log)
            workshop.checkpoints.begin(directory, chosen.partition, chosen.to_clean.first_dirty_offset)
        except StorageError as error:
            self._failed(error)
            return
        io_buffer_bytes = max(config.log_cleaner_io_buffer_size // threads, LEAST_BUFFER_BYTES)
        steps = compact(chosen.log, chosen.to_clean, self._map, self._clock.now_ms(), io_buffer_bytes)
        self._run = JobRun(self.name, steps, self._jobs, self._cleaned, self._failed, self._pace)
        self._run.start()

    def _pace(self, moved_bytes: int) -> int:
        self._moved_bytes += moved_bytes
        return self._workshop.throttle.wait_ms(moved_bytes)

    def _cleaned(self, stats: CompactionStats) -> None:
        workshop = self._workshop
        chosen = self._end()
        directory = workshop.store.directory_of(chosen.log)
        self.last = LastClean(stats, self._clock.monotonic_ms() - self._began_ms)
        self._deaths = 0
        workshop.uncleanable.forget(directory.path, chosen.partition)
        workshop.checkpoints.set(directory, chosen.partition, stats.cleaner_point)
        if stats.invalid_records:
            _log.warning("%s: %d records without a key were dropped", chosen.log.dir, stats.invalid_records)
        _log.info(
            "%s: clean up to %d; %d of %d records stay, %d of %d bytes",
            chosen.log.dir,
            stats.cleaner_point,
            stats.records_written,
            stats.records_read,
            stats.bytes_written,
            stats.bytes_read,
        )
        workshop.cleaned(chosen.partition, stats)
        self._go_on(self._delete_and_look_again())

    def _failed(self, error: Exception) -> None:
        workshop = self._workshop
        chosen = self._end()
        directory = workshop.store.directory_of(chosen.log)
        was_cut = chosen.log.local.truncations != self._truncations_before
        if isinstance(error, CalledOffError):
            _log.info("%s: %s", chosen.log.dir, error)
        elif isinstance(error, SegmentGoneError) and was_cut:
            _log.info("%s: %s; another time", chosen.log.dir, error)
            self._go_on(self._rest())
            return
        elif directory.is_live:  # otherwise the log is on its way offline with it
            entry = workshop.uncleanable.failed(directory.path, chosen.partition, error)
            _log.warning(
                "%s cannot be cleaned (failure %d, again in %d ms): %s",
                chosen.log.dir,
                entry.failures,
                entry.pause_ms,
                entry.reason,
                exc_info=error if not isinstance(error, TailraceError) else None,
            )
        self._go_on(self._delete_and_look_again())

    def _end(self) -> Chosen:
        chosen = self._chosen
        assert chosen is not None
        self._chosen = self._run = None
        self._workshop.states.done(chosen.partition)
        return chosen

    def _go_on(self, turns: Turns[None]) -> None:
        if not self._is_stopped:
            self._take_turn(turns)

    # Dying

    def _die(self, error: Exception) -> None:
        """The worker cannot do its work, for a reason that is not one log's."""
        self._map = None
        self._deaths += 1
        pause_ms = max(self._workshop.config.log_cleaner_backoff_ms, 1) << min(self._deaths - 1, 40)
        pause_ms = min(pause_ms, LONGEST_DEATH_MS)
        _log.error("%s is dead for %d ms: %s: %s", self.name, pause_ms, type(error).__name__, error, exc_info=error)
        self.is_dead = True
        self._take_turn(self._revive(), pause_ms)

    def _revive(self) -> Turns[None]:
        self.is_dead = False
        yield from self._look()
