"""`__cluster_metadata-0`: a log of the storage engine whose past is in snapshots instead of in old segments.

    <data directory>/__cluster_metadata-0/
        00000000000000000000.log …                  as every log
        00000000000000000045-0000000001.checkpoint  see `snapshot`
        quorum-state                                see `quorum_state`

The settings are the quorum's own (metadata.log.*), not those of topics: nothing goes by `retention.*`. Instead, while
log and snapshots exceed metadata.max.retention.bytes, or the oldest snapshot metadata.max.retention.ms, the oldest
snapshot goes and with it the segments below the next one.

Crash rules. The log start is where the oldest snapshot is: snapshots leave durably before the segments below the next
one do. What is below a snapshot is durable before the snapshot has its name: recovery begins at the newest one.
A log that ends below the newest snapshot, as a crash in the middle of taking over another's snapshot leaves it, begins
again behind it.

Who may call. `load` and the jobs run anywhere; everything else on the node's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from tailrace.config.log import LogConfig
from tailrace.config.quorum import QuorumConfig
from tailrace.env import Env
from tailrace.model.errors import CorruptMetadataError, InvalidDataError, MessageTooLargeError, StorageError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.model.noop import noop
from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import VersionedRecord, decode_metadata_record
from tailrace.raft import snapshot
from tailrace.raft.control_batch import MAX_DECOMPRESSED_BYTES, control_records
from tailrace.raft.snapshot import SnapshotHead, SnapshotId, SnapshotReader
from tailrace.raft.snapshot_writer import SnapshotWriter
from tailrace.record.reader import records_of
from tailrace.record.shallow import ShallowBatch, batches, check_integrity
from tailrace.storage import loader
from tailrace.storage.fetch import Isolation
from tailrace.storage.manager.directory_names import METADATA_TOPIC
from tailrace.storage.names import join, partition_dir_name
from tailrace.storage.steps import Steps
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
METADATA_TOPIC_ID: Final = TopicId((1).to_bytes(16, "big"))
READ_BYTES: Final = 8 << 20
RECOVERED_BYTES: Final = 8 << 20
"""A segment that has so many ends where a snapshot is taken: those below it need no recovery."""

_OPEN_SEGMENTS: Final = 8

_log = logging.getLogger(__name__)


class MetadataBatch(NamedTuple):
    """One batch of the log. `controls` are the quorum's own records with their offsets, `records` everybody's."""

    last_offset: int
    epoch: int
    timestamp_ms: int
    size_bytes: int
    controls: tuple[tuple[int, Record], ...]
    records: list[VersionedRecord]


class SnapshotFacts(NamedTuple):
    size_bytes: int
    timestamp_ms: int


def log_config(config: QuorumConfig) -> LogConfig:
    return LogConfig(
        file_delete_delay_ms=config.internal_metadata_delete_delay_millis,
        max_message_bytes=config.internal_metadata_max_batch_size_in_bytes,
        retention_bytes=-1,
        retention_ms=-1,
        segment_bytes=config.internal_metadata_log_segment_bytes or config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
    )


def load(env: Env, data_directory: str, config: QuorumConfig) -> MetadataLog:
    """Open it, or make it. CorruptMetadataError when what the log lacks at its start is in no snapshot."""
    directory = join(data_directory, partition_dir_name(METADATA_PARTITION))
    try:
        found = _snapshots_in(env, directory)
        options = loader.LoadOptions(
            recovery_point=max(found).offset if found else 0,
            log_start_offset=min(found).offset if found else 0,
            topic_id=METADATA_TOPIC_ID,
        )
        log = loader.load(env, directory, log_config(config), WarmSet(_OPEN_SEGMENTS), options)
        facts = _usable(env, log, found)
    except OSError as cause:
        raise StorageError(f"load {directory}", cause) from cause
    return MetadataLog(env, log, config, facts)


def _snapshots_in(env: Env, directory: str) -> list[SnapshotId]:
    """Those that are whole; what a crash or a deletion has left of others is removed."""
    if not env.files.exists(directory):
        return []
    found = []
    for entry in env.files.list(directory):
        parsed = snapshot.parse_name(entry.name)
        if parsed is None or entry.is_dir:
            continue
        if entry.name == parsed.id.name:
            found.append(parsed.id)
        else:
            _log.info("%s: remove %s", directory, entry.name)
            env.files.unlink(join(directory, entry.name))
    return found


def _usable(env: Env, log: UnifiedLog, found: list[SnapshotId]) -> dict[SnapshotId, SnapshotFacts]:
    """Those at or above the log start, oldest first; the others are deleted.

    The log restarts at the newest one if it ends below it, and has no older one then: a follower that ends at the log
    start is compared with the oldest snapshot.
    """
    usable = sorted(each for each in found if each.offset >= log.log_start_offset)
    if not usable and log.log_start_offset > 0:
        raise CorruptMetadataError(f"{log.dir} begins at {log.log_start_offset}, and no snapshot has what was before")
    if usable:
        newest = usable[-1]
        if (newest.epoch, newest.offset) > (log.epochs.latest_epoch or 0, log.log_end_offset):
            _log.warning("%s ends at %d, below the snapshot %s: it restarts there", log.dir, log.log_end_offset, newest)
            _verify(env, join(log.dir, newest.name))
            log.restart_at(newest.offset)
            usable = [newest]
    for each in found:
        if each not in usable:
            env.files.unlink(join(log.dir, each.name))
    return {each: _facts(env, log.dir, each) for each in usable}


def _verify(env: Env, path: str) -> None:
    """CorruptMetadataError if the snapshot is damaged: then nothing may be deleted in favor of it."""
    for _ in SnapshotReader(env.files, path).records():
        pass


def _facts(env: Env, directory: str, snapshot_id: SnapshotId) -> SnapshotFacts:
    path = join(directory, snapshot_id.name)
    return SnapshotFacts(env.files.size(path), SnapshotReader(env.files, path).head().timestamp_ms)


class MetadataLog:
    """The log and its snapshots. Made by `load`."""

    def __init__(
        self, env: Env, log: UnifiedLog, config: QuorumConfig, snapshots: dict[SnapshotId, SnapshotFacts]
    ) -> None:
        self.log = log
        self._env = env
        self._config = config
        self._snapshots = snapshots
        """Oldest first."""

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return max(self._snapshots, default=None)

    @property
    def snapshots(self) -> tuple[SnapshotId, ...]:
        return tuple(self._snapshots)

    @property
    def last_epoch(self) -> int:
        """Of the last record, be it in the log or only in a snapshot."""
        latest = self.latest_snapshot
        return max(self.log.epochs.latest_epoch or 0, latest.epoch if latest is not None else 0)

    def reader(self, snapshot_id: SnapshotId) -> SnapshotReader:
        return SnapshotReader(self._env.files, join(self.log.dir, snapshot_id.name))

    def batches(self, start: int, end: int, *, only_controls: bool = False) -> Iterator[MetadataBatch]:
        """Every batch from `start` to `end`, whether committed or not. CorruptMetadataError where one is damaged.

        With `only_controls` the others are not given.
        """
        offset = start
        while offset < end:
            data = self.log.read(offset, READ_BYTES, Isolation.LOG_END).read()
            next_offset = offset
            try:
                for batch in batches(data):
                    next_offset = batch.last_offset + 1
                    is_wanted = batch.is_control or not only_controls
                    if is_wanted and next_offset > offset and batch.base_offset < end:
                        yield _decoded(data, batch, start)
            except (InvalidDataError, MessageTooLargeError) as error:
                raise CorruptMetadataError(f"{self.log.dir} near offset {next_offset}: {error}") from error
            if next_offset <= offset:
                raise CorruptMetadataError(f"{self.log.dir} has no whole batch at offset {offset}")
            offset = next_offset

    # Snapshots

    def writer(self, snapshot_id: SnapshotId, head: SnapshotHead) -> SnapshotWriter:
        part = f"{snapshot_id}-{self._env.random.getrandbits(63)}{snapshot.PARTIAL_SUFFIX}"
        return SnapshotWriter(
            self._env.files,
            self._env.clock,
            join(self.log.dir, part),
            join(self.log.dir, snapshot_id.name),
            epoch=snapshot_id.epoch,
            head=head,
        )

    def making_ground(self, offset: int) -> Steps[None]:
        """Before a snapshot of what is below `offset`: make that durable with its indexes, in segments of its own."""
        log = self.log
        is_large = log.local.active.size >= min(RECOVERED_BYTES, log.config.segment_bytes // 4)
        if is_large and offset == log.log_end_offset and not log.is_truncating:
            log.roll()
        yield from log.flushing(offset)

    def add_snapshot(self, snapshot_id: SnapshotId, facts: SnapshotFacts) -> None:
        """It is on disk, whole."""
        self._snapshots[snapshot_id] = facts

    def restarting_at(self, snapshot_id: SnapshotId, facts: SnapshotFacts) -> Steps[None]:
        """Replace the log and all other snapshots by one of another node, which is on disk, whole.

        A crash before the end leaves a log that ends below its newest snapshot, or contradicts it: see `load`.
        """
        yield from self.log.restarting_at(snapshot_id.offset)
        gone = [each for each in self._snapshots if each != snapshot_id]
        self._snapshots = {snapshot_id: facts}
        if gone:
            self._env.jobs.run(
                "delete-snapshot", lambda: self._retire(gone), lambda _: self._unlink(gone), _left(self.log.dir)
            )

    def trimming(self) -> Steps[None]:
        """Let go of what is more than the settings keep: the oldest snapshots, and segments below the first that stays.

        The newest snapshot always stays. In the middle of a truncation nothing goes.
        """
        if self.log.is_truncating:
            return
        first_kept = self._first_kept(self._env.clock.now_ms())
        gone = [each for each in self._snapshots if first_kept is not None and each < first_kept]
        if first_kept is None or not gone:
            return
        for each in gone:
            del self._snapshots[each]
        yield lambda: self._retire(gone)
        self._env.jobs.later(
            "delete-snapshot", self._config.internal_metadata_delete_delay_millis, lambda: self._unlink(gone)
        )
        if self.log.increment_log_start(first_kept.offset) and not self.log.is_truncating:
            self.log.delete_old_segments(noop)  # the oldest snapshot is the checkpoint of the log start

    def _first_kept(self, now_ms: int) -> SnapshotId | None:
        sizes = sum(facts.size_bytes for facts in self._snapshots.values())
        most_bytes, most_ms = self._config.metadata_max_retention_bytes, self._config.metadata_max_retention_ms
        for each, facts in self._snapshots.items():
            is_too_large = 0 <= most_bytes < self._log_bytes_from(each.offset) + sizes
            is_too_old = 0 <= most_ms < now_ms - facts.timestamp_ms
            if each == self.latest_snapshot or not (is_too_large or is_too_old):
                return each
            sizes -= facts.size_bytes
        return None

    def _log_bytes_from(self, offset: int) -> int:
        """What is left of the log when it begins at `offset`: whole segments below are gone."""
        following = [segment.base_offset for segment in self.log.local.segments][1:]
        ends = [*following, self.log.log_end_offset + 1]
        segments = zip(self.log.local.segments, ends, strict=True)
        return sum(segment.size for segment, end in segments if end > offset)

    def _retire(self, gone: list[SnapshotId]) -> None:
        files = self._env.files
        for each in gone:
            files.rename(join(self.log.dir, each.name), join(self.log.dir, f"{each}{snapshot.DELETED_SUFFIX}"))
        files.sync_dir(self.log.dir)

    def _unlink(self, gone: list[SnapshotId]) -> None:
        paths = [join(self.log.dir, f"{each}{snapshot.DELETED_SUFFIX}") for each in gone]

        def unlink() -> None:
            for path in paths:
                with suppress(FileNotFoundError):
                    self._env.files.unlink(path)

        self._env.jobs.run("delete-snapshot", unlink, failed=_left(self.log.dir))


def _decoded(data: bytes, batch: ShallowBatch, start: int) -> MetadataBatch:
    """Without the records below `start`."""
    check_integrity(data, batch)
    controls: tuple[tuple[int, Record], ...] = ()
    records: list[VersionedRecord] = []
    if batch.is_control:
        controls = tuple(each for each in control_records(data, batch) if each[0] >= start)
    else:
        kept = (record for record in records_of(data, batch, MAX_DECOMPRESSED_BYTES) if record.offset >= start)
        records = [decode_metadata_record(record.value or b"") for record in kept]
    return MetadataBatch(batch.last_offset, batch.leader_epoch, batch.max_timestamp, batch.size, controls, records)


def _left(directory: str) -> Callable[[Exception], None]:
    def failed(error: Exception) -> None:
        if not isinstance(error, OSError):
            raise error
        _log.error("%s: deleted snapshots stay until the next load: %s", directory, error)

    return failed
