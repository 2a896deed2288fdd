"""The open logs of a broker and the data directories they are in: what every part of the log manager shares.

A partition has one current log, which serves, and while it moves between directories a future one beside it, in
another directory. Everything here runs on the owner's thread, but `load`.

Checkpoint rule. What is written of a directory is what its open logs say, and for those not open what was read at
start. A log start is written wherever it is above 0: the files below it may be unlinked only in part, and come back.

Failure rule. An error of the disk, other than a lack of space, takes its directory offline at once and for the rest of
the run: nothing new is begun there. Its logs are dropped a moment later, when the operation that met the error is
over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from tailrace.config.broker import BrokerConfig
from tailrace.config.log import LogConfig
from tailrace.env import Env
from tailrace.model.errors import StorageError, TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.model.invariant import invariant
from tailrace.model.listeners import Listeners
from tailrace.storage import loader
from tailrace.storage.loader import LoadOptions
from tailrace.storage.manager.cleaning import Cleaning, NoCleaning
from tailrace.storage.manager.directory_names import Role
from tailrace.storage.manager.log_directories import LogDirectories, NodeIdentity
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.names import directory_of
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

_log = logging.getLogger(__name__)

SHORTAGE_SILENCE_MS: Final = 10_000


class PendingCut(NamedTuple):
    """What checkpoints say of a log that is about to be truncated; `log_start` is given where it starts over."""

    recovery_limit: int
    log_start_limit: int = 0
    log_start: int | None = None

    def log_start_of(self, log: UnifiedLog) -> int:
        return min(log.log_start_offset, self.log_start_limit) if self.log_start is None else self.log_start


PendingCuts = Mapping[TopicPartition, PendingCut]


class LogStore:
    def __init__(
        self, env: Env, config: BrokerConfig, identity: NodeIdentity, warm: WarmSet, options: LoadOptions
    ) -> None:
        self.env = env
        self.directories = LogDirectories(env, config, identity)
        self.current: dict[TopicPartition, UnifiedLog] = {}
        self.future: dict[TopicPartition, UnifiedLog] = {}
        self.unloadable: dict[TopicPartition, TailraceError] = {}
        """Partitions whose current log is here and could not be opened."""
        self.left_out: set[TopicPartition] = set()
        """Partitions that were not to be opened: what checkpoints say of them stays."""
        self.truncating: set[TopicPartition] = set()
        """Partitions whose current log is being truncated, or will be as soon as checkpoints are written."""
        self.cuts: dict[TopicPartition, PendingCut] = {}
        """Of current logs, until the logs themselves say so."""
        self.default_config = config.topic_defaults
        self.cleaning: Cleaning = NoCleaning()
        self.on_directory_offline: Listeners[LogDirectory, list[TopicPartition]] = Listeners()
        """The directory has failed, and these partitions with it."""
        self.on_log_replaced: Listeners[TopicPartition, UnifiedLog] = Listeners()
        """The partition has moved to another directory and has this new log."""
        self._warm = warm
        self._options = options
        self._topic_configs: dict[str, LogConfig] = {}
        self._in: dict[str, dict[TopicPartition, UnifiedLog]] = {each.path: {} for each in self.directories}
        self._report_in: dict[str, Callable[[StorageError], object]] = {
            each.path: partial(self.report, each) for each in self.directories
        }
        """Listens to the failures of a directory's logs."""
        self._failed: list[LogDirectory] = []
        self._shortage_told_ms: dict[str, int] = {}
        self.is_closing = False
        """Logs are let go of by the shutdown, whatever fails."""

    # Logs

    def logs(self, role: Role) -> dict[TopicPartition, UnifiedLog]:
        return self.future if role is Role.FUTURE else self.current

    def directory_of(self, log: UnifiedLog) -> LogDirectory:
        return self.directories.at(directory_of(log.dir))

    def logs_in(self, directory: LogDirectory) -> Mapping[TopicPartition, UnifiedLog]:
        """Current and future ones; a partition has only one of the two in a directory."""
        return self._in[directory.path]

    def all_logs(self) -> list[UnifiedLog]:
        return [*self.current.values(), *self.future.values()]

    def load(
        self, path: str, topic: str, progress: Callable[[int], None] | None = None, **options: object
    ) -> UnifiedLog:
        """Open the log in `path`, on any thread; `options` are fields of LoadOptions."""
        chosen = replace(self._options, **options)  # type: ignore[arg-type]
        config = self.config_of(topic)
        if progress is None:
            return loader.load(self.env, path, config, self._warm, chosen)
        return loader.load(self.env, path, config, self._warm, chosen, progress)

    def add(self, partition: TopicPartition, role: Role, log: UnifiedLog) -> None:
        """The log is open and takes part. Settings that changed while it was loaded are applied."""
        directory = self.directory_of(log)
        invariant(partition not in self.logs(role), f"{log.dir}: {partition} is open already")
        self.logs(role)[partition] = log
        self._in[directory.path][partition] = log
        directory.forget_unloaded(partition)
        log.on_failure.add(self._report_in[directory.path])
        config = self.config_of(partition.topic)
        if log.config != config:
            log.use_config(config)
        self._use_producer_options(log)

    def remove(self, partition: TopicPartition, role: Role) -> UnifiedLog:
        """The log takes part no more; what becomes of it is the caller's."""
        log = self.logs(role).pop(partition)
        path = directory_of(log.dir)
        del self._in[path][partition]
        log.on_failure.remove(self._report_in[path])
        return log

    def count_in(self, directory: LogDirectory) -> int:
        return len(self._in[directory.path])

    # Settings

    def config_of(self, topic: str) -> LogConfig:
        return self._topic_configs.get(topic, self.default_config)

    def set_config(self, topic: str, config: LogConfig | None) -> None:
        """None: the topic has no settings of its own any more."""
        if config is None:
            self._topic_configs.pop(topic, None)
        else:
            self._topic_configs[topic] = config

    def use_producer_expiration(self, expiration_ms: int) -> None:
        self._options = replace(self._options, producer_expiration_ms=expiration_ms)
        for log in self.all_logs():
            self._use_producer_options(log)

    def use_transaction_verification(self, is_enabled: bool) -> None:
        self._options = replace(self._options, verifies_transactions=is_enabled)
        for log in self.all_logs():
            self._use_producer_options(log)

    def _use_producer_options(self, log: UnifiedLog) -> None:
        log.producers.producer_expiration_ms = self._options.producer_expiration_ms
        log.producers.verifies_transactions = self._options.verifies_transactions

    # Checkpoints

    def recovery_points(
        self, directory: LogDirectory, cuts_of_copies: PendingCuts | None = None
    ) -> dict[TopicPartition, int]:
        logs = self.logs_in(directory)
        points = {partition: log.recovery_point for partition, log in logs.items()}
        for partition, cut in self._cuts_in(logs, cuts_of_copies):
            points[partition] = min(points[partition], cut.recovery_limit)
        return {**directory.unloaded_recovery_points, **points}

    def log_starts(
        self, directory: LogDirectory, cuts_of_copies: PendingCuts | None = None
    ) -> dict[TopicPartition, int]:
        logs = self.logs_in(directory)
        starts = {partition: log.log_start_offset for partition, log in logs.items()}
        for partition, cut in self._cuts_in(logs, cuts_of_copies):
            starts[partition] = cut.log_start_of(logs[partition])
        starts = {**directory.unloaded_log_starts, **starts}
        return {partition: start for partition, start in starts.items() if start > 0}

    def _cuts_in(
        self, logs: Mapping[TopicPartition, UnifiedLog], cuts_of_copies: PendingCuts | None
    ) -> Iterator[tuple[TopicPartition, PendingCut]]:
        for known, cuts in ((self.current, self.cuts), (self.future, cuts_of_copies or {})):
            for partition, cut in cuts.items():
                log = logs.get(partition)
                if log is not None and known.get(partition) is log:
                    yield partition, cut

    def prepare_checkpoints(
        self, directory: LogDirectory, cuts_of_copies: PendingCuts | None = None
    ) -> Callable[[], None]:
        """Both, as they are now; the function returned makes them durable, on any thread.

        Logs that are about to be truncated are in them as they will be; `cuts_of_copies` are of future logs.
        """
        points = self.recovery_points(directory, cuts_of_copies)
        write_points = directory.checkpoints.recovery_point.prepare(points)
        write_starts = directory.checkpoints.log_start.prepare(self.log_starts(directory, cuts_of_copies))

        def write() -> None:
            write_points()
            write_starts()

        return write

    def write_in_background(
        self,
        directory: LogDirectory,
        doing: str,
        write: Callable[[], None],
        done: Callable[[], None] | None = None,
        failed: Callable[[StorageError], None] | None = None,
        *,
        can_wait: bool = False,
    ) -> None:
        """Run `write` as a job; an error of the disk is reported, and given to `failed`."""

        def finish(_: None) -> None:
            if done is not None:
                done()

        def fail(cause: Exception) -> None:
            if not isinstance(cause, OSError):
                raise cause
            error = self.report(directory, StorageError(f"{doing} in {directory.path}", cause))
            if failed is not None:
                failed(error)

        self.env.jobs.run(doing, write, finish, fail, can_wait=can_wait)

    def write_now(self, directory: LogDirectory, doing: str, write: Callable[[], None]) -> None:
        """Run `write` and wait for it. StorageError, reported, when the disk refuses."""
        try:
            write()
        except OSError as cause:
            raise self.report(directory, StorageError(f"{doing} in {directory.path}", cause)) from cause

    # Failing directories

    def report(self, directory: LogDirectory, error: StorageError) -> StorageError:
        """A file operation in the directory has failed. A shortage passes; anything else takes it offline, once."""
        if error.is_shortage:
            self._tell_shortage(directory, error)
        elif directory.is_live:
            _log.error("%s; the directory is offline until the next start", error)
            directory.go_offline(error)
            self._failed.append(directory)
            if not self.is_closing:
                self.env.jobs.later("log-dir-failure", 0, self.drop_failed)
        return error

    def _tell_shortage(self, directory: LogDirectory, error: StorageError) -> None:
        """Not of every request that is refused: the log of this process may be on the same disk."""
        now_ms = self.env.clock.monotonic_ms()
        if now_ms >= self._shortage_told_ms.get(directory.path, now_ms - SHORTAGE_SILENCE_MS) + SHORTAGE_SILENCE_MS:
            self._shortage_told_ms[directory.path] = now_ms
            _log.warning("%s; %s stays in use", error, directory.path)

    def drop_failed(self) -> None:
        """Let go of the logs in directories that have failed. NoLiveLogDirError when no directory is left."""
        failed, self._failed = self._failed, []
        for directory in failed:
            self.cleaning.directory_failed(directory.path)
            dropped = list(self._in[directory.path])
            for partition in dropped:
                role = (
                    Role.CURRENT if self.current.get(partition) is self._in[directory.path][partition] else Role.FUTURE
                )
                log = self.remove(partition, role)
                with suppress(OSError):
                    log.abandon()
            directory.unlock()
            _log.error("%s is offline, and with it %s", directory.path, ", ".join(map(str, dropped)) or "no partition")
            self.on_directory_offline(directory, dropped)
        if failed:
            self.directories.check_any_live()
