"""Every partition that this broker holds a replica of, brought to what the cluster's metadata says.

A change of the metadata is applied in this order: deletions, then partitions to lead, then partitions to follow. A
topic that was deleted and made again under its name in one change so gets a new log.

Logs are made by jobs. Until the log is there the partition answers as one that has not heard of its role yet; then it
takes the role that the latest registration gives it. One making at a time for each name: a topic made again while the
log of the one before is still on its way waits for its end.

A partition whose directory has failed is offline for the rest of the run. Where only space or file descriptors were
short, making its log is tried again from time to time.

Who may call: the thread that owns the logs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NoReturn, Protocol

from tailrace.env import Env
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.metrics.gauge import Gauge
from tailrace.metrics.metrics import Metrics
from tailrace.metrics.row import Row
from tailrace.model.errors import (
    LogDirNotFoundError,
    LogDirUnavailableError,
    NotLeaderOrFollowerError,
    StorageError,
    TailraceError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from tailrace.model.ids import UNASSIGNED_DIRECTORY, DirectoryId, TopicId, TopicPartition
from tailrace.model.line_limit import LineLimit
from tailrace.model.listeners import Listeners
from tailrace.replication.high_watermark_checkpoints import HighWatermarkCheckpoints
from tailrace.replication.known_brokers import KnownBrokers
from tailrace.replication.partition import Partition
from tailrace.replication.replica_gauges import replica_gauges
from tailrace.storage.manager.log_deletion import Errors
from tailrace.storage.manager.log_directory import LogDirectory
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)

_CHECKPOINT_TASK: Final = "highwatermark-checkpoint"


class ReplicationSettings(Protocol):
    """Of the server's configuration, what is needed here."""

    @property
    def replica_lag_time_max_ms(self) -> int: ...

    @property
    def replica_high_watermark_checkpoint_interval_ms(self) -> int: ...


class ReplicaManager:
    def __init__(
        self,
        env: Env,
        logs: LogManager,
        node_id: int,
        config: ReplicationSettings,
        metrics: Metrics | None = None,
    ) -> None:
        """Touches no file; `start` it when the log manager has started."""
        self._env = env
        self._logs = logs
        self._node_id = node_id
        self._config = config
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[bytes, int], Partition] = {}
        self._offline: dict[TopicPartition, Partition] = {}
        self._making: dict[TopicPartition, Partition] = {}
        """Whose logs are being made; the name may belong to another partition by then."""
        self._awaiting: list[tuple[set[TopicPartition], Callable[[], None]]] = []
        """Who wants to know when certain logs are made."""
        self._to_retry: list[Partition] = []
        """Offline because of a shortage."""
        self._image: MetadataImage | None = None
        self._brokers = KnownBrokers()
        self._checkpoints = HighWatermarkCheckpoints(logs)
        self._is_stopped = False
        self._lines = LineLimit()
        self.on_directory_failed: Listeners[LogDirectory] = Listeners()
        """The partitions of a failed directory are offline: the controller must be notified."""
        self.on_directory_differs: Listeners[Partition, LogDirectory] = Listeners()
        """A partition's log is in another directory than the metadata says."""
        self.on_role_changed: Listeners[Partition] = Listeners()
        """A partition leads, follows, or has left this broker."""
        logs.on_directory_offline.add(self._directory_failed)
        logs.on_log_replaced.add(self._log_replaced)
        if metrics is not None:
            metrics.add(self.gauges)

    # Start and end

    def start(self) -> None:
        """Before the first `apply`: read the high watermarks, and write them from time to time from now on."""
        self._checkpoints.read()
        self._schedule_checkpoint()

    def shutdown(self, done: Callable[[], None]) -> None:
        """Write the high watermarks a last time, and let go of every log: then the log manager may shut down."""
        self._is_stopped = True
        self._checkpoints.save(partial(self._let_go, done))

    def _let_go(self, done: Callable[[], None]) -> None:
        """Whoever waits is refused, and so is every request from now on: other threads are going to close the logs."""
        for partition in list(self._partitions.values()):
            self._remove(partition)
            partition.let_go()
            self.on_role_changed(partition)
        done()

    def checkpoint_high_watermarks(self, done: Callable[[], None] | None = None) -> None:
        """Those that have moved, as jobs; `done` when that has ended."""
        self._checkpoints.save(done)

    def _schedule_checkpoint(self) -> None:
        interval_ms = max(self._config.replica_high_watermark_checkpoint_interval_ms, 1)
        self._env.jobs.later(_CHECKPOINT_TASK, interval_ms, self._checkpoint)

    def _checkpoint(self) -> None:
        if not self._is_stopped:
            self._checkpoints.save()
            self._retry()
            self._schedule_checkpoint()

    # Finding

    def partition(self, topic: str, index: int) -> Partition:
        """UnknownTopicOrPartitionError, NotLeaderOrFollowerError where it is elsewhere, LogDirUnavailableError."""
        found = self._partitions.get((topic, index))
        if found is None:
            self._refuse(TopicPartition(topic, index))
        return found

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """UnknownTopicIdError, else as `partition`."""
        found = self._by_id.get((topic_id, index))
        if found is None:
            topic = None if self._image is None else self._image.topic_by_id(topic_id)
            if topic is None:
                raise UnknownTopicIdError(f"there is no topic with the id {TopicId(topic_id)}")
            self._refuse(TopicPartition(topic.name, index))
        return found

    @property
    def count(self) -> int:
        """Of those that are online."""
        return len(self._partitions)

    def partitions(self) -> Iterator[Partition]:
        """Those that are online, though some may wait for their log."""
        return iter(list(self._partitions.values()))

    def offline_partitions(self) -> Iterator[Partition]:
        return iter(list(self._offline.values()))

    def _refuse(self, partition: TopicPartition) -> NoReturn:
        if partition in self._offline:
            raise LogDirUnavailableError(f"{partition} is in a log directory that is offline")
        topic = None if self._image is None else self._image.topics.get(partition.topic)
        if topic is not None and partition.partition in topic.partitions:
            raise NotLeaderOrFollowerError(f"broker {self._node_id} has no replica of {partition}")
        raise UnknownTopicOrPartitionError(f"there is no partition {partition}")

    def gauges(self) -> Iterator[Gauge | Row]:
        online = list(self._partitions.values())
        yield from replica_gauges(online, len(self._offline), self._env.clock.now_ms())

    # Applying metadata

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Bring the partitions here to what has changed; what waits for a disk goes on after it returned."""
        if self._is_stopped:
            return
        self._image = image
        self._brokers.registrations = image.brokers
        leaving: dict[TopicPartition, Partition] = {}
        for topic in delta.deleted_topics:
            held = (self._held(topic.name, index) for index in topic.partitions)
            leaving |= {each.id: each for each in held if each is not None and each.topic_id == topic.id}
        leading: list[tuple[TopicPartition, PartitionRegistration]] = []
        following: list[tuple[TopicPartition, PartitionRegistration]] = []
        for (name, index), registration in delta.changed_partitions.items():
            if self._node_id in registration.replicas:
                chosen = leading if registration.leader == self._node_id else following
                chosen.append((TopicPartition(name, index), registration))
            else:
                gone = self._held(name, index)
                if gone is not None:
                    leaving[gone.id] = gone
        self._delete(list(leaving.values()))
        for partition, registration in (*leading, *following):
            self._place(partition, registration, image)
        self._log_followed([partition for partition, registration in following if len(registration.replicas) > 1])

    def _log_followed(self, partitions: list[TopicPartition]) -> None:
        """There is no fetcher: the replicas stay as they are, so no leader takes them into its ISR."""
        if partitions and self._lines.is_due("followed", self._env.clock.monotonic_ms()):
            _log.error(
                "broker cannot follow other brokers, its replicas get no records broker=%s partitions=%s first=%s: "
                "Tailrace holds single replicas in this release; move them to other brokers with "
                "kafka-reassign-partitions",
                self._node_id,
                len(partitions),
                partitions[0],
            )

    def _held(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index)) or self._offline.get(TopicPartition(topic, index))

    def _delete(self, partitions: list[Partition]) -> None:
        if not partitions:
            return
        for partition in partitions:
            self._remove(partition)
            partition.let_go()
            self._checkpoints.forget(partition.id)
            self.on_role_changed(partition)
        self._logs.delete([each.id for each in partitions], _report)

    def _remove(self, partition: Partition) -> None:
        self._partitions.pop(partition.id, None)
        self._by_id.pop((partition.topic_id, partition.index), None)
        self._offline.pop(partition.id, None)

    def _place(self, place: TopicPartition, registration: PartitionRegistration, image: MetadataImage) -> None:
        topic_id = image.topics[place.topic].id
        partition = self._held(*place)
        if partition is not None and partition.topic_id != topic_id:
            self._delete([partition])
            partition = None
        if partition is None:
            partition = self._add(place, topic_id)
        partition.registration = registration
        if partition.log is not None:
            self._take_role(partition)
        elif not partition.is_offline:
            self._make_log(partition)

    def _add(self, place: TopicPartition, topic_id: TopicId) -> Partition:
        partition = Partition(
            place,
            topic_id,
            self._node_id,
            self._env.clock,
            self._brokers,
            self._logs,
            self._config.replica_lag_time_max_ms,
            self._checkpoints.unsaved,
        )
        self._partitions[place] = partition
        self._by_id[topic_id, place.partition] = partition
        return partition

    def _take_role(self, partition: Partition) -> None:
        registration = partition.registration
        assert registration is not None
        try:
            if registration.leader == self._node_id:
                partition.make_leader(registration)
            else:
                partition.make_follower(registration)
        except StorageError as error:
            self._go_offline(partition, error)
        else:
            self._compare_directory(partition, registration)
            self.on_role_changed(partition)

    def compare_directories(self) -> None:
        """Notify `on_directory_differs` of all replicas: another metadata.version may have directories."""
        for partition in self.partitions():
            if partition.log is not None and partition.registration is not None:
                self._compare_directory(partition, partition.registration)

    def _compare_directory(self, partition: Partition, registration: PartitionRegistration) -> None:
        directory = self._logs.directory_of(partition.id)
        if directory is None or directory.id is None:
            return
        if registration.directory_of(self._node_id) != directory.id:
            self.on_directory_differs(partition, directory)

    # Logs

    def when_made(self, done: Callable[[], None]) -> None:
        """Call `done` when every log that is being made now is there, or cannot be made."""
        if not self._making:
            done()
        else:
            self._awaiting.append((set(self._making), done))

    def _making_ended(self, partition: Partition) -> None:
        """Whoever waits is told at the end of this moment's work, when the partition has its role."""
        del self._making[partition.id]
        if self._awaiting:
            for missing, _ in self._awaiting:
                missing.discard(partition.id)
            told = [done for missing, done in self._awaiting if not missing]
            self._awaiting = [each for each in self._awaiting if each[0]]
            for done in told:
                self._env.jobs.later("logs-made", 0, done)

    def _make_log(self, partition: Partition) -> None:
        if partition.id in self._making:
            return  # its end looks again
        self._making[partition.id] = partition
        if self._logs.log(partition.id) is not None:
            self._create(partition)
        else:
            self._checkpoints.forgetting(partition.id, partial(self._create, partition))

    def _create(self, partition: Partition) -> None:
        if self._partitions.get(partition.id) is not partition:
            self._making_ended(partition)
            self._make_log_of_successor(partition)
            return
        registration = partition.registration
        assigned = None if registration is None else registration.directory_of(self._node_id)
        directory = self._directory(assigned)
        self._logs.create(
            partition.id,
            partition.topic_id,
            partial(self._made, partition),
            partial(self._not_made, partition),
            is_new=directory is not None or assigned == UNASSIGNED_DIRECTORY,
            directory=directory,
        )

    def _directory(self, assigned: DirectoryId | None) -> LogDirectory | None:
        """None: any. The metadata may name a directory that is lost, or not decided yet."""
        if assigned is not None:
            try:
                return self._logs.directories.with_id(assigned)
            except LogDirNotFoundError:
                return None
        return None

    def _made(self, partition: Partition, log: UnifiedLog) -> None:
        self._making_ended(partition)
        if self._partitions.get(partition.id) is partition:
            log.update_high_watermark(self._checkpoints.of(partition.id, log))
            partition.use_log(log)
            self._take_role(partition)
        else:
            self._make_log_of_successor(partition)

    def _not_made(self, partition: Partition, error: TailraceError) -> None:
        self._making_ended(partition)
        if self._partitions.get(partition.id) is partition:
            self._go_offline(partition, error)
        else:
            self._make_log_of_successor(partition)

    def _make_log_of_successor(self, partition: Partition) -> None:
        """The partition was deleted while its log was made: another one of its name may have waited for the end."""
        successor = self._partitions.get(partition.id)
        if successor is not None:
            self._make_log(successor)

    def _log_replaced(self, place: TopicPartition, log: UnifiedLog) -> None:
        partition = self._partitions.get(place)
        if partition is not None:
            self._checkpoints.forget(place)
            partition.use_log(log)
            if partition.registration is not None:
                self._compare_directory(partition, partition.registration)

    # Failing disks

    def _go_offline(self, partition: Partition, error: TailraceError) -> None:
        _log.error("%s is offline: %s", partition.id, error)
        self._remove(partition)
        self._offline[partition.id] = partition
        if isinstance(error, StorageError) and error.is_shortage:
            self._to_retry.append(partition)
        partition.let_go(is_offline=True)
        self.on_role_changed(partition)

    def _retry(self) -> None:
        to_retry, self._to_retry = self._to_retry, []
        for partition in to_retry:
            if self._offline.get(partition.id) is partition:
                del self._offline[partition.id]
                self._partitions[partition.id] = partition
                self._by_id[partition.topic_id, partition.index] = partition
                partition.is_offline = False
                self._make_log(partition)

    def _directory_failed(self, directory: LogDirectory, places: list[TopicPartition]) -> None:
        self._checkpoints.forget_directory(directory.path)
        for place in places:
            partition = self._partitions.get(place)
            # A future log may have gone, and the partition stays; or the current one, and the move ends with it.
            if partition is not None and self._logs.log(place) is None:
                self._go_offline(partition, directory.failure or LogDirUnavailableError(f"{directory.path} failed"))
        self.on_directory_failed(directory)


def _report(errors: Errors) -> None:
    for partition, error in errors.items():
        _log.error("%s could not be deleted: %s", partition, error)
