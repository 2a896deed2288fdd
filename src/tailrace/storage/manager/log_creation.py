"""Making the log of a partition that this broker has not had.

    1  the data directory's checkpoints are rewritten where they still speak of an earlier log of the same name:
       its recovery point and log start would be taken for the new log's
    2  the partition's directory is made and synced, with an empty first segment
    3  `partition.metadata` is written, durably; a creation without it did not get through

All of it is a job; the log joins the others when it is done. Who asks for a log that is being made waits for the same
job.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from tailrace.model.errors import (
    InconsistentTopicIdError,
    LogDirUnavailableError,
    StorageError,
    TailraceError,
)
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.model.noop import noop
from tailrace.storage.manager.directory_names import Role, name_for
from tailrace.storage.manager.log_deletion import LogDeletion
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.partition_metadata import PartitionMetadata
from tailrace.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)

Done = Callable[[UnifiedLog], None]
Failed = Callable[[TailraceError], None]


@dataclass(slots=True)
class _Making:
    directory: LogDirectory
    topic_id: TopicId | None
    waiting: list[tuple[Done, Failed]] = field(default_factory=list)
    is_unwanted: bool = False
    """The partition was deleted meanwhile."""


class LogCreation:
    def __init__(self, store: LogStore, deletion: LogDeletion) -> None:
        self._store = store
        self._deletion = deletion
        self._stopped: Callable[[], None] | None = None
        self._making: dict[tuple[TopicPartition, Role], _Making] = {}
        self._making_in: Counter[str] = Counter()
        """How many are being made in each directory."""

    def create(
        self,
        partition: TopicPartition,
        role: Role,
        topic_id: TopicId | None,
        directory: LogDirectory | None,
        done: Done,
        failed: Failed,
    ) -> None:
        """`directory` None: the one with the fewest partitions."""
        making = self._making.get((partition, role))
        try:
            if making is None:
                making = self._begin(partition, role, topic_id, directory)
            elif topic_id != making.topic_id:
                raise InconsistentTopicIdError(f"{partition} is being made for {making.topic_id}, not {topic_id}")
        except TailraceError as error:
            failed(error)
            return
        making.waiting.append((done, failed))
        if len(making.waiting) == 1:
            self._start(partition, role, making)

    def cancel(self, partition: TopicPartition) -> None:
        """Logs of the partition that are being made are deleted when they are there."""
        for role in (Role.CURRENT, Role.FUTURE):
            if (partition, role) in self._making:
                self._making[partition, role].is_unwanted = True

    def stop(self, stopped: Callable[[], None]) -> None:
        """Make no more; `stopped` is called when those begun have ended."""
        self._stopped = stopped
        if not self._making:
            stopped()

    def _begin(
        self, partition: TopicPartition, role: Role, topic_id: TopicId | None, directory: LogDirectory | None
    ) -> _Making:
        if self._stopped is not None:
            raise LogDirUnavailableError(f"{partition} cannot be made: the logs are being closed")
        chosen = directory or self._store.directories.for_new_partition(self._counts())
        if not chosen.is_live:
            raise LogDirUnavailableError(f"{chosen.path} is offline: {partition} cannot be made there")
        making = self._making[partition, role] = _Making(chosen, topic_id)
        self._making_in[chosen.path] += 1
        return making

    def _counts(self) -> dict[str, int]:
        return {each.path: self._store.count_in(each) + self._making_in[each.path] for each in self._store.directories}

    def _start(self, partition: TopicPartition, role: Role, making: _Making) -> None:
        store, directory = self._store, making.directory
        try:
            path = directory.join(name_for(partition, role, store.env.random))
        except TailraceError as error:
            self._end(partition, role, error)
            return
        forget_earlier = self._forgetting(directory, partition)

        def work() -> UnifiedLog:
            if forget_earlier is not None:
                forget_earlier()
            was_there = store.env.files.exists(path)
            if was_there:  # of a creation that failed, maybe before this sync
                store.env.files.sync_dir(directory.path)
            try:
                return make()
            except (OSError, TailraceError):
                if not was_there:  # whoever tries again may do so elsewhere, and this would be in the way of a move
                    with suppress(OSError):
                        self._deletion.remove_tree(directory.path, path)
                raise

        def make() -> UnifiedLog:
            log = store.load(path, partition.topic, topic_id=making.topic_id)
            if making.topic_id is not None:
                try:
                    PartitionMetadata(store.env.files, path).write(making.topic_id)
                except OSError:
                    log.abandon()
                    raise
            return log

        def fail(error: Exception) -> None:
            if isinstance(error, OSError):
                error = StorageError(f"create {path}", error)
            if not isinstance(error, TailraceError):
                raise error
            if isinstance(error, StorageError):
                store.report(directory, error)
            self._end(partition, role, error)

        store.env.jobs.run("create-log", work, partial(self._made, partition, role, making), fail, can_wait=True)

    def _forgetting(self, directory: LogDirectory, partition: TopicPartition) -> Callable[[], None] | None:
        checkpoints = directory.checkpoints
        directory.forget_unloaded(partition)
        if checkpoints.recovery_point.may_mention(partition) or checkpoints.log_start.may_mention(partition):
            return self._store.prepare_checkpoints(directory)
        return None

    def _made(self, partition: TopicPartition, role: Role, making: _Making, log: UnifiedLog) -> None:
        if not making.directory.is_live:
            log.abandon()
            self._end(partition, role, LogDirUnavailableError(f"{making.directory.path} failed"))
            return
        self._store.add(partition, role, log)
        _log.info("%s: %s made", making.directory.path, partition)
        if making.is_unwanted:
            self._deletion.delete((partition,), noop, roles=(role,))
            self._end(partition, role, LogDirUnavailableError(f"{partition} was deleted while it was made"))
        else:
            self._end(partition, role, log)

    def _end(self, partition: TopicPartition, role: Role, outcome: UnifiedLog | TailraceError) -> None:
        making = self._making.pop((partition, role))
        self._making_in[making.directory.path] -= 1
        for done, failed in making.waiting:
            if isinstance(outcome, TailraceError):
                failed(outcome)
            else:
                done(outcome)
        if self._stopped is not None and not self._making:
            self._stopped()
