"""Every log of a broker: opened at start, made, found, deleted, moved and closed here, in several data directories.

One thread owns the manager and its logs. Whatever waits for a disk, except the end of a move and the truncation of a
copy, is a job that ends in a callback on that thread. The parts:

    log_directories    validate, lock, identify `log.dirs`; choose one for a new partition
    log_store          the open logs, their checkpoints, failing directories
    log_loading        the start, in parallel        log_closing   the end, with the marker of a clean shutdown
    log_creation       new partitions                log_deletion  partitions that go
    log_mover          moves from one directory to another; log_copying their middle, log_move their end
    log_truncation     cutting logs back
    cleaner            (its own package) compaction
    background_tasks   retention, flusher, checkpoints, removal

Crash rules. What a log had flushed when the machine died is there after the next start. A log start, once
acknowledged, is never lower again; a deletion, once acknowledged, is never undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from tailrace.config.broker import BrokerConfig
from tailrace.config.log import LogConfig
from tailrace.env import Env
from tailrace.metrics.gauge import Gauge
from tailrace.metrics.metrics import Metrics
from tailrace.model.errors import (
    InconsistentTopicIdError,
    InvalidDataError,
    LogDirUnavailableError,
    NoLiveLogDirError,
    StorageError,
    TailraceError,
)
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.model.invariant import invariant
from tailrace.storage.cleaner.cleaner import LogCleaner
from tailrace.storage.cleaner.throttle import Throttle
from tailrace.storage.loader import LoadOptions
from tailrace.storage.manager.background_tasks import BackgroundTasks
from tailrace.storage.manager.clean_shutdown import UNKNOWN_BROKER_EPOCH
from tailrace.storage.manager.cleaning import Cleaning
from tailrace.storage.manager.directory_names import Role
from tailrace.storage.manager.gauges import directory_gauges, recovery_gauges
from tailrace.storage.manager.log_closing import LogClosing
from tailrace.storage.manager.log_creation import Done, Failed, LogCreation
from tailrace.storage.manager.log_deletion import Errors, LogDeletion
from tailrace.storage.manager.log_directories import LogDirectories, NodeIdentity
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_loading import IsStray, IsWanted, LogLoading
from tailrace.storage.manager.log_move import LogMove
from tailrace.storage.manager.log_mover import LogMover, MoveProgress
from tailrace.storage.manager.log_store import LogStore
from tailrace.storage.manager.log_truncation import StillWanted, Truncated
from tailrace.storage.manager.segment_retention import delete_old_segments_of
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet


def _never(partition: TopicPartition, topic_id: TopicId | None) -> bool:
    return False


def _always(partition: TopicPartition) -> bool:
    return True


class LogManager:
    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        identity: NodeIdentity,
        warm: WarmSet,
        options: LoadOptions | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Touches no file. `options` are what every log is opened with, apart from what is remembered of each."""
        self._store = LogStore(env, config, identity, warm, options or LoadOptions())
        self.on_directory_offline = self._store.on_directory_offline
        self.on_log_replaced = self._store.on_log_replaced
        self._deletion = LogDeletion(self._store)
        self._creation = LogCreation(self._store, self._deletion)
        self._move = LogMove(self._store, self._deletion)
        self._tasks = BackgroundTasks(env.jobs, config)
        self._loading: LogLoading | None = None
        self._threads = config.num_recovery_threads_per_data_dir
        self._cleaner = LogCleaner(self._store, config.cleaner) if config.cleaner.log_cleaner_enable else None
        self.move_throttle = Throttle(env.clock, max(config.replica_alter_log_dirs_io_max_bytes_per_second, 1))
        """Of all moves together; its rate may be changed at any time."""
        moves_at_a_time = config.num_replica_alter_log_dirs_threads or len(config.directories)
        self._mover = LogMover(self, self._store, self._move, self.move_throttle.wait_ms, moves_at_a_time)
        self._truncation = self._mover.truncation
        if metrics is not None:
            metrics.add(self.gauges)
        self._is_open = False
        self.is_started = False
        """Every log is open and the background tasks are on their way."""
        self.is_closed = False

    # Start and end

    def open(self) -> None:
        """Validate, lock and identify the directories, now; before this, other files in them must not be touched."""
        self._store.directories.open()
        self._is_open = True

    def start(
        self,
        started: Callable[[], None],
        topic_configs: Mapping[str, LogConfig] | None = None,
        is_stray: IsStray = _never,
        is_wanted: IsWanted = _always,
    ) -> None:
        """Open the directories, unless that is done, and every log in them, as jobs; `started` when all is done.

        A mistake in the configuration, and the last directory's failing, raise a LogDirError, here or where the
        completions of jobs are run; a single failing directory goes offline.

        Tools may open only the partitions that they want. The others' files are not touched, a directory that was not
        shut down cleanly stays so, and no move is gone on with.
        """
        invariant(self._loading is None, "a log manager is started once")
        for topic, config in (topic_configs or {}).items():
            self._store.set_config(topic, config)
        if not self._is_open:
            self.open()
        self._loading = LogLoading(self._store, self._deletion, self._threads, is_stray, is_wanted)
        try:
            self._loading.start(partial(self._loaded, started, goes_on_with_moves=is_wanted is _always))
        except (TailraceError, OSError):
            self._store.directories.unlock()
            raise

    def _loaded(self, started: Callable[[], None], *, goes_on_with_moves: bool) -> None:
        self._store.drop_failed()
        if goes_on_with_moves:
            self._move.adopt_lone_futures()
        self._tasks.start(
            retention=self.delete_old_segments,
            flusher=self.flush_dirty_logs,
            recovery_points=self.checkpoint_recovery_points,
            log_starts=self.checkpoint_log_starts,
            delete_logs=self._deletion.unlink_due,
        )
        if self._cleaner is not None:
            self._store.cleaning = self._cleaner
            self._cleaner.start()
        if goes_on_with_moves:
            self._mover.resume()
        self.is_started = True
        started()

    def shutdown(self, closed: Callable[[], None], broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Flush and close every log, as jobs, and leave what `log_closing` says; `closed` is called at the end.

        While logs are still loading, those that have begun are waited for and the others are left as they are.
        """
        self._tasks.stop()
        self._mover.stop()
        if self._cleaner is not None:
            self._cleaner.stop()
        closing = LogClosing(self._store, self._threads, broker_epoch)

        def end() -> None:
            self.is_closed = True
            closed()

        def close() -> None:
            with suppress(NoLiveLogDirError):
                self._store.drop_failed()
            closing.start(end)

        if self._loading is None:
            if self._is_open:
                self._store.directories.unlock()
            end()
        else:
            self._loading.stop(partial(self._creation.stop, partial(self._truncation.stop, close)))

    @property
    def previous_broker_epoch(self) -> int | None:
        """Of the run before, where every directory was shut down cleanly by it."""
        return self._loading.previous_broker_epoch if self._loading is not None else None

    # Looking

    @property
    def directories(self) -> LogDirectories:
        return self._store.directories

    @property
    def unloadable(self) -> Mapping[TopicPartition, TailraceError]:
        """Partitions that are here and could not be opened, and why."""
        return self._store.unloadable

    @property
    def strays(self) -> list[str]:
        """Directories of partitions that do not belong here; a person may look at them and remove them."""
        return self._loading.strays if self._loading is not None else []

    @property
    def waiting_for_removal(self) -> list[str]:
        return self._deletion.waiting

    def log(self, partition: TopicPartition, *, future: bool = False) -> UnifiedLog | None:
        return self._store.logs(_role(future)).get(partition)

    def partitions(self, *, future: bool = False) -> list[TopicPartition]:
        return list(self._store.logs(_role(future)))

    def directory_of(self, partition: TopicPartition, *, future: bool = False) -> LogDirectory | None:
        log = self.log(partition, future=future)
        return None if log is None else self._store.directory_of(log)

    def logs_in(self, directory: LogDirectory) -> Mapping[TopicPartition, UnifiedLog]:
        return self._store.logs_in(directory)

    @property
    def cleaner(self) -> LogCleaner | None:
        """None with `log.cleaner.enable=false`."""
        return self._cleaner

    def gauges(self) -> Iterator[Gauge]:
        yield from directory_gauges(self._store.directories)
        if self._cleaner is not None:
            yield from self._cleaner.gauges()
        if self._loading is not None and not self.is_started:
            yield from recovery_gauges(self._loading)

    # Making and deleting

    def create(
        self,
        partition: TopicPartition,
        topic_id: TopicId | None,
        done: Done,
        failed: Failed,
        *,
        is_new: bool = False,
        directory: LogDirectory | None = None,
    ) -> None:
        """The partition's log, made if it is not there, in `directory` or the one with the fewest partitions.

        Unless the partition `is_new` to this broker, none is made while a directory is offline: it may be there.
        """
        self._create(partition, Role.CURRENT, topic_id, directory, done, failed, is_new=is_new)

    def create_future(self, partition: TopicPartition, directory: LogDirectory, done: Done, failed: Failed) -> None:
        """Begin to move the partition to `directory`: an empty log to be filled, then `finish_move`."""
        current = self.log(partition)
        if current is None:
            failed(LogDirUnavailableError(f"{partition} has no log here that could be moved"))
        elif self._store.directory_of(current) is directory:
            failed(InvalidDataError(f"{partition} is in {directory.path} already"))
        else:
            self._create(partition, Role.FUTURE, current.topic_id, directory, done, failed, is_new=True)

    def _create(
        self,
        partition: TopicPartition,
        role: Role,
        topic_id: TopicId | None,
        directory: LogDirectory | None,
        done: Done,
        failed: Failed,
        *,
        is_new: bool,
    ) -> None:
        log = self._store.logs(role).get(partition)
        offline = self._store.directories.offline
        if log is None and partition in self._store.unloadable:
            failed(self._store.unloadable[partition])
        elif log is None and offline and not is_new:
            paths = ", ".join(each.path for each in offline)
            failed(LogDirUnavailableError(f"{partition} may be in an offline directory: {paths}"))
        elif log is None:
            self._creation.create(partition, role, topic_id, directory, done, failed)
        else:
            try:
                if topic_id is not None:
                    log.assign_topic_id(topic_id)
            except InconsistentTopicIdError as error:
                failed(error)
            else:
                done(log)

    def delete(
        self, partitions: Iterable[TopicPartition], done: Callable[[Errors], None], *, as_stray: bool = False
    ) -> None:
        """Delete the partitions' logs, or set them aside; `done` when that is durable, with what went wrong."""
        wanted = list(partitions)
        self._mover.deleted(wanted)
        for partition in wanted:
            self._creation.cancel(partition)
        self._deletion.delete(wanted, done, to=Role.STRAY if as_stray else Role.DELETED)

    def delete_future(self, partition: TopicPartition, done: Callable[[Errors], None]) -> None:
        """Give up a move."""
        self._deletion.delete((partition,), done, roles=(Role.FUTURE,))

    def finish_move(self, partition: TopicPartition) -> bool:
        """Let the future log take the current one's place if it is ready; False: ask again. See `log_move`."""
        return self._move.finish(partition)

    def move(self, partition: TopicPartition, directory: LogDirectory, done: Done, failed: Failed) -> None:
        """Move the partition to `directory`, all of it: made, filled, and in its place when `done` gets the new log.

        Where it is to go elsewhere than an earlier call said, that one fails; to where it is, it is only called off.
        What is refused fails at once: a cordoned target (InvalidReplicaAssignmentError), an offline directory.
        """
        self._mover.move(partition, directory, done, failed)

    def cancel_move(self, partition: TopicPartition, done: Callable[[Errors], None]) -> None:
        """Give up the partition's move, if there is one; `done` when that is durable, with what went wrong."""
        self._mover.cancel(partition, done)

    @property
    def moves(self) -> Mapping[TopicPartition, MoveProgress]:
        return self._mover.progress

    # Changing logs

    def update_config(self, topic: str, config: LogConfig | None) -> None:
        """The topic's settings, from now on; None: the defaults. Open logs take them at once, others when they open."""
        self.update_configs({topic: config})

    def update_configs(self, configs: Mapping[str, LogConfig | None]) -> None:
        """Of several topics, in one pass over the logs."""
        for topic, config in configs.items():
            self._store.set_config(topic, config)
        self._apply_configs(lambda partition: partition.topic in configs)

    def update_default_config(self, config: LogConfig) -> None:
        """For topics without settings of their own."""
        self._store.default_config = config
        self._apply_configs(lambda partition: True)

    def update_producer_expiration(self, expiration_ms: int) -> None:
        """After how long an idle producer is forgotten, in every log."""
        self._store.use_producer_expiration(expiration_ms)

    def update_transaction_verification(self, is_enabled: bool) -> None:
        """Whether a transaction's first batch must have been verified, in every log."""
        self._store.use_transaction_verification(is_enabled)

    def _apply_configs(self, concerns: Callable[[TopicPartition], bool]) -> None:
        for role in (Role.CURRENT, Role.FUTURE):
            for partition, log in self._store.logs(role).items():
                config = self._store.config_of(partition.topic)
                if not concerns(partition) or log.config == config:
                    continue
                if log.config.compacts and not config.compacts:
                    self._store.cleaning.abort(partition)
                log.use_config(config)

    def use_cleaning(self, cleaning: Cleaning) -> None:
        """Whoever compacts the logs in the place of our own cleaner, which is off then."""
        if self._cleaner is not None:
            self._cleaner.stop()
            self._cleaner = None
        self._store.cleaning = cleaning

    def checkpoint_high_watermarks(
        self, directory: LogDirectory, offsets: Mapping[TopicPartition, int], ended: Callable[[], None]
    ) -> None:
        """Make them durable, as a job; `ended` in any case. Whoever knows the high watermarks gives all of them."""
        write = directory.checkpoints.replication.prepare(offsets)
        self._store.write_in_background(directory, "checkpoint high watermarks", write, ended, lambda error: ended())

    def increment_log_start(
        self, partition: TopicPartition, offset: int, done: Callable[[], None], failed: Callable[[StorageError], None]
    ) -> None:
        """Forget everything below `offset`; `done` when no start can show it again. OffsetOutOfRangeError."""
        log = self._existing(partition, Role.CURRENT)
        log.increment_log_start(offset)
        directory = self._store.directory_of(log)
        write = directory.checkpoints.log_start.prepare(self._store.log_starts(directory))
        self._store.write_in_background(directory, "checkpoint log starts", write, done, failed)

    def truncate_to(
        self, offsets: Mapping[TopicPartition, int], done: Truncated, is_wanted: StillWanted = _always
    ) -> None:
        """Drop everything from the offset on, of each partition that is here; `done` when that is durable, with errors.

        Until then a log refuses appends (LogTruncatingError) and serves reads below the cut. `is_wanted` is asked at
        the moment of the cut: a partition that leads by then keeps its records. See `log_truncation`.
        """
        self._truncation.truncate_to(offsets, done, is_wanted)

    def truncate_fully_and_start_at(
        self,
        partition: TopicPartition,
        offset: int,
        done: Truncated,
        log_start: int | None = None,
        is_wanted: StillWanted = _always,
    ) -> None:
        """Empty the partition's log and go on at `offset`; the log start is there too, unless given. As above."""
        self._truncation.restart_at(partition, offset, log_start, done, is_wanted)

    def _existing(self, partition: TopicPartition, role: Role) -> UnifiedLog:
        log = self._store.logs(role).get(partition)
        if log is None:
            raise LogDirUnavailableError(f"{partition} has no log here that is online")
        return log

    # What background tasks do

    def delete_old_segments(self) -> int:
        """Of logs that are not compacted, and of their future logs; returns how many segments went."""
        store = self._store
        partitions = [partition for partition, log in store.current.items() if not log.config.compacts]
        store.cleaning.pause(partitions)
        deleted = 0
        try:
            for partition in partitions:
                for logs in (store.current, store.future):
                    if partition in logs:
                        deleted += delete_old_segments_of(store, logs[partition])
        finally:
            store.cleaning.resume(partitions)
        return deleted

    def flush_dirty_logs(self) -> None:
        """Those whose `flush.ms` has passed since their last flush."""
        now_ms = self._store.env.clock.now_ms()
        for log in self._store.all_logs():
            if now_ms >= log.flush_due_ms():
                log.flush()

    def forget_idle_producers(self) -> None:
        """Those that have expired, in every log; their sequence numbers are not needed to find duplicates any more."""
        now_ms = self._store.env.clock.now_ms()
        for log in self._store.all_logs():
            log.producers.remove_expired(now_ms)

    def checkpoint_recovery_points(self) -> None:
        for directory in self._store.directories.live:
            write = directory.checkpoints.recovery_point.prepare(self._store.recovery_points(directory))
            self._store.write_in_background(directory, "checkpoint recovery points", write)

    def checkpoint_log_starts(self) -> None:
        for directory in self._store.directories.live:
            write = directory.checkpoints.log_start.prepare(self._store.log_starts(directory))
            self._store.write_in_background(directory, "checkpoint log starts", write)


def _role(future: bool) -> Role:
    return Role.FUTURE if future else Role.CURRENT
