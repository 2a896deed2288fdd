"""Choosing the dirtiest log, in turns.

A broker may have ten thousand logs, and only the owner of them may look at them. So a look over all of them gives the
owner's thread back after every so many, and what was found out about a log is kept as long as it cannot have changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.storage.cleaner.checkpoints import CleanerCheckpoints
from tailrace.storage.compaction import planner
from tailrace.storage.compaction.planner import Candidate, LogToClean
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from tailrace.storage.compaction.log_compaction import Cleanable

_log = logging.getLogger(__name__)

T = TypeVar("T")

Turns = Generator[None, None, T]
"""Work on the owner's thread that yields where others may have their turn."""

LOGS_PER_TURN: Final = 100


class Chosen(NamedTuple):
    partition: TopicPartition
    log: UnifiedLog
    to_clean: LogToClean


class _Look(NamedTuple):
    """What was found at a log, and all that it depends on, but for the time where a log has a compaction lag."""

    log: UnifiedLog
    bases: tuple[int, ...]
    checkpoint: int | None
    log_start: int
    stable: int
    """The last stable offset, if it lies before the active segment."""
    found: LogToClean

    def is_of(self, log: UnifiedLog, checkpoint: int | None) -> bool:
        return (
            self.log is log
            and self.bases is log.local.segments.base_offsets
            and self.checkpoint == checkpoint
            and self.log_start == log.log_start_offset
            and self.stable == _stable(log)
            and not log.config.has_compaction_lag
        )


def _stable(log: UnifiedLog) -> int:
    return min(log.last_stable_offset, log.local.active.base_offset)


class Selection:
    """`may_clean` says whether a clean of the partition could begin; `failed` is told of logs that cannot be judged."""

    def __init__(
        self,
        store: LogStore,
        checkpoints: CleanerCheckpoints,
        may_clean: Callable[[TopicPartition], bool],
        failed: Callable[[TopicPartition, UnifiedLog, Exception], None],
    ) -> None:
        self._store = store
        self._checkpoints = checkpoints
        self._may_clean = may_clean
        self._failed = failed
        self._looks: dict[TopicPartition, _Look] = {}
        self.greatest_ratio = 0.0
        """Of the logs that the last look has found."""

    def compacted(self) -> Iterator[tuple[TopicPartition, UnifiedLog]]:
        return ((partition, log) for partition, log in self._store.current.items() if log.config.compacts)

    def is_free(self, partition: TopicPartition, log: UnifiedLog) -> bool:
        is_here = self._store.current.get(partition) is log
        return is_here and log.config.compacts and self._may_clean(partition)

    def dirtiest(self) -> Turns[Chosen | None]:
        candidates: list[tuple[tuple[TopicPartition, UnifiedLog], Candidate]] = []
        for place, (partition, log) in enumerate(list(self.compacted())):
            if place % LOGS_PER_TURN == LOGS_PER_TURN - 1:
                yield
            if self.is_free(partition, log):
                to_clean = self._look_at(partition, log)
                if to_clean is not None:
                    candidates.append(((partition, log), Candidate(to_clean, log.config.min_cleanable_dirty_ratio)))
        self.greatest_ratio = max((candidate.log.cleanable_ratio for _, candidate in candidates), default=0.0)
        return self._first_that_still_is(candidates)

    def _first_that_still_is(
        self, candidates: list[tuple[tuple[TopicPartition, UnifiedLog], Candidate]]
    ) -> Chosen | None:
        """Another worker may have taken one since it was looked at, or it was cut."""
        while (found := planner.dirtiest(candidates)) is not None:
            partition, log = found
            candidates = [each for each in candidates if each[0] is not found]
            to_clean = self._look_at(partition, log) if self.is_free(partition, log) else None
            if to_clean is not None and Candidate(to_clean, log.config.min_cleanable_dirty_ratio).is_worth_cleaning:
                return Chosen(partition, log, to_clean)
        return None

    def _look_at(self, partition: TopicPartition, log: UnifiedLog) -> LogToClean | None:
        checkpoint = self._checkpoints.get(self._store.directory_of(log).path, partition)
        look = self._looks.get(partition)
        if look is not None and look.is_of(log, checkpoint):
            return look.found
        bases, log_start, stable = log.local.segments.base_offsets, log.log_start_offset, _stable(log)
        found = self._look_closely(partition, log)
        if found is not None:
            self._looks[partition] = _Look(log, bases, checkpoint, log_start, stable, found)
        return found

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """They are gone; what was found out about them goes too."""
        for partition in partitions:
            self._looks.pop(partition, None)

    def _look_closely(self, partition: TopicPartition, log: UnifiedLog) -> LogToClean | None:
        try:
            cleanable = self.cleanable(partition, log)
        except (TailraceError, OSError) as error:
            self._failed(partition, log, error)
            return None
        if cleanable.is_checkpoint_reset:
            offset = cleanable.log.first_dirty_offset
            _log.warning("%s: the cleaner's checkpoint was outside of the log and is %d now", log.dir, offset)
            self._checkpoints.set(self._store.directory_of(log), partition, offset)
        return cleanable.log

    def cleanable(self, partition: TopicPartition, log: UnifiedLog) -> Cleanable:
        from tailrace.storage.compaction.log_compaction import cleanable_of  # loads what a clean needs

        checkpoint = self._checkpoints.get(self._store.directory_of(log).path, partition)
        return cleanable_of(log, checkpoint, self._store.env.clock.now_ms())
