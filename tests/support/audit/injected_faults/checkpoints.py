"""Faults of checkpoints and metadata, of compaction, and between replicas."""

from __future__ import annotations

from shutil import rmtree

from support.audit.injected_faults.catalog import Case, Expected, fault
from support.audit.logs import START_MS, Partition, busy, table
from support.logs.verification import edit_header
from tailrace.record.batch import set_base_offset, set_crc, set_leader_epoch
from tailrace.record.builder import batch_of
from tailrace.record.filter import filter_batch
from tailrace.record.shallow import batches
from tailrace.spark.auditing.rules import (
    CHECKPOINT,
    EPOCH_CHECKPOINT,
    KEYLESS_RECORD,
    METADATA,
    OFFSET_GAP,
    REPLICA_DIVERGENCE,
    REPLICA_MISSING,
    SUPERSEDED_KEY,
)
from tailrace.storage.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANER_POINTS = "cleaner-offset-checkpoint"


@fault()
def metadata_that_cannot_be_read(case: Case) -> Expected:
    file = case.partition.folder / PARTITION_METADATA
    file.write_text("version: 0\ntopic_id: nothing of the kind")
    return case.expects(METADATA, file)


@fault()
def high_watermarks_that_cannot_be_read(case: Case) -> Expected:
    file = case.directory / HIGH_WATERMARKS
    file.write_text("0\n1\nwhat is this\n")
    return case.expects(CHECKPOINT, file)


@fault()
def fewer_recovery_points_than_stated(case: Case) -> Expected:
    file = case.directory / RECOVERY_POINTS
    file.write_text(file.read_text().replace("0\n1\n", "0\n3\n", 1))
    return case.expects(CHECKPOINT, file)


@fault()
def negative_log_start(case: Case) -> Expected:
    case.directory.checkpoint(LOG_STARTS, {case.name: -5})
    return case.expects(CHECKPOINT, case.directory / LOG_STARTS)


@fault()
def recovery_point_behind_the_end(case: Case) -> Expected:
    case.directory.checkpoint(RECOVERY_POINTS, {case.name: 500})
    return case.expects(CHECKPOINT, case.directory / RECOVERY_POINTS, 500)


@fault(table)
def batch_behind_the_recovery_point(case: Case) -> Expected:
    """The last one has another base offset, which no CRC covers; compaction may take what is missing before it."""
    *parts, last = case.partition.parts(-1)
    moved = bytearray(last)
    set_base_offset(moved, 0, 5000)
    case.partition.write(-1, [*parts, bytes(moved)])
    return case.expects(CHECKPOINT, case.directory / RECOVERY_POINTS, 72)


@fault()
def doubled_line_of_a_checkpoint(case: Case) -> Expected:
    file = case.directory / HIGH_WATERMARKS
    line = file.read_text().splitlines()[2]
    file.write_text(f"0\n2\n{line}\n{line.removesuffix('87')}20\n")
    return case.expects(CHECKPOINT, file, 20)


@fault(table)
def cleaner_point_behind_the_end(case: Case) -> Expected:
    case.directory.checkpoint(CLEANER_POINTS, {case.name: 500})
    return case.expects(CHECKPOINT, case.directory / CLEANER_POINTS, 500)


@fault()
def partition_that_is_gone(case: Case) -> Expected:
    case.directory.put("vanished-0", busy())
    rmtree(case.directory / "vanished-0")
    return case.expects(CHECKPOINT, case.directory / RECOVERY_POINTS, 87)


# Replicas: the second one is damaged


@fault()
def replica_with_other_bytes(case: Case) -> Expected:
    _, replica = case.replica()
    parts = replica.parts(1)
    changed = bytearray(parts[2])
    changed[-5] ^= 0x10
    set_crc(changed)
    replica.write(1, [*parts[:2], bytes(changed), *parts[3:]])
    return case.expects(REPLICA_DIVERGENCE, replica.file(1), 33)


@fault()
def replica_with_other_timestamp(case: Case) -> Expected:
    """A header that differs and is right in itself."""
    _, replica = case.replica()
    batch = replica.batch(2, 7)
    edit_header(
        replica.file(2),
        batch.position,
        base_timestamp=batch.base_timestamp + 50,
        max_timestamp=batch.max_timestamp + 50,
    )
    replica.index(2)
    return case.expects(REPLICA_DIVERGENCE, replica.file(2), 64)


@fault()
def replica_without_a_batch(case: Case) -> Expected:
    _, replica = case.replica()
    parts = replica.parts(1)
    replica.write(1, [*parts[:2], *parts[3:]])
    return case.expects(REPLICA_MISSING, replica.file(1), 33, also=(OFFSET_GAP,))


@fault()
def replica_of_another_leader(case: Case) -> Expected:
    """Another epoch wrote the end of its log, and its checkpoint agrees."""
    _, replica = case.replica()
    path = replica.file(3)
    content = bytearray(path.read_bytes())
    for batch in replica.batches(3):
        if batch.base_offset >= 81:
            set_leader_epoch(content, batch.position, 4)
    path.write_bytes(content)
    (replica.folder / LEADER_EPOCH_CHECKPOINT).write_text("0\n4\n0 0\n1 28\n3 57\n4 81\n")
    return case.expects(REPLICA_DIVERGENCE, path, 81, also=(EPOCH_CHECKPOINT,))


@fault()
def replica_of_another_topic(case: Case) -> Expected:
    _, replica = case.replica()
    file = replica.folder / PARTITION_METADATA
    file.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")
    return case.expects(METADATA, file)


@fault()
def partition_of_another_topic(case: Case) -> Expected:
    """In the same log directory."""
    other = case.directory.put(f"{case.name[:-1]}1", busy())
    file = other.folder / PARTITION_METADATA
    file.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")
    return case.expects(METADATA, file)


@fault(table)
def compacted_replica_with_other_value(case: Case) -> Expected:
    """Below the cleaner's point; the other replica was never cleaned."""
    _, replica = case.replica(table(is_cleaned=False))
    return _other_value(case, replica, 46, REPLICA_DIVERGENCE)


@fault(table)
def compacted_replica_without_a_key(case: Case) -> Expected:
    """The newest record of a key is gone from the one that was cleaned less."""
    _, replica = case.replica()
    _without(replica, 0, 46)
    return case.expects(REPLICA_MISSING, replica.file(0), 46)


def _other_value(case: Case, replica: Partition, offset: int, rule: str) -> Expected:
    segment = max(number for number, base in enumerate(replica.bases) if base <= offset)
    data = replica.file(segment).read_bytes()
    parts = []
    for batch in batches(data):
        part = data[batch.position : batch.end]
        if batch.base_offset == offset:
            time_ms = START_MS + 1000 * offset
            pairs = [(time_ms, b"key 3", b"another value"), (time_ms + 1000, b"other 3", b"x23")]
            part = bytes(batch_of(pairs, base_offset=offset, leader_epoch=0))
        parts.append(part)
    replica.write(segment, parts)
    return case.expects(rule, replica.file(segment), offset)


def _without(replica: Partition, segment: int, offset: int) -> None:
    data = replica.file(segment).read_bytes()
    kept = []
    for batch in batches(data):
        left = filter_batch(data, batch, lambda record: record.offset != offset, keep_empty=True)
        assert left is not None
        kept.append(left)
    replica.write(segment, kept)


# Compaction


@fault(table)
def superseded_key(case: Case) -> Expected:
    """A record whose key has a newer one, below the cleaner's point."""
    parts = case.partition.parts(0)
    old = bytes(batch_of([(START_MS, b"key 3", b"old")], base_offset=6, leader_epoch=0))
    case.partition.write(0, [old, *parts])
    return case.expects(SUPERSEDED_KEY, case.log(0), 6)


@fault(lambda: table(is_cleaned=False)._replace(cleaned_to=48))
def never_cleaned(case: Case) -> Expected:
    """The cleaner says that it was here, and was not."""
    return case.expects(SUPERSEDED_KEY, case.log(0), 0, also=(SUPERSEDED_KEY,))


@fault(table)
def record_without_key(case: Case) -> Expected:
    parts = case.partition.parts(0)
    keyless = bytes(batch_of([(START_MS, None, b"no key")], base_offset=6, leader_epoch=0))
    case.partition.write(0, [keyless, *parts])
    return case.expects(KEYLESS_RECORD, case.log(0), 6)


@fault(busy)
def gap_in_a_log_that_nobody_cleaned(case: Case) -> Expected:
    """As if by compaction: the batch keeps its offsets, and two of its four records are gone."""
    data = case.log(0).read_bytes()
    parts = case.partition.parts(0)
    first = next(iter(batches(data)))
    left = filter_batch(data, first, lambda record: record.offset < 2, keep_empty=True)
    assert left is not None
    case.partition.write(0, [left, *parts[1:]])
    return case.expects(OFFSET_GAP, case.log(0), 0)
