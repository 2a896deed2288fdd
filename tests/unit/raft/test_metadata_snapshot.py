"""Snapshots of the metadata: names, Kafka's files, ours, and damaged ones."""

from __future__ import annotations

import errno
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.metadata.quorum import names_of, topic, topics
from tailrace.env import Mode, write_fully
from tailrace.env.real import RealFiles
from tailrace.model.errors import CorruptMetadataError, StorageError, TailraceError
from tailrace.model.ids import DirectoryId
from tailrace.protocol.records.control import SnapshotHeaderRecord
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.protocol.records.topics import PartitionRecord, TopicRecord
from tailrace.raft.control_batch import control_batch
from tailrace.raft.snapshot import SnapshotHead, SnapshotId, SnapshotReader, parse_name
from tailrace.raft.snapshot_writer import SnapshotWriter, write_snapshot
from tailrace.raft.voters import QuorumEndpoint, Voter
from tailrace.record.builder import BatchBuilder
from tailrace.record.shallow import batches
from tailrace.sim import World
from tailrace.storage.steps import CalledOffError, JobRun, run_inline

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.3.1-quorum"
PATH = "/data/00000000000000000045-0000000001.checkpoint"
PART = "/data/00000000000000000045-0000000001-7.checkpoint.part"
VOTER = Voter(1, DirectoryId(bytes(range(16))), (QuorumEndpoint("CONTROLLER", "localhost", 9093),))
HEAD = SnapshotHead(1234, 1, (VOTER,))


def put(world: World, data: bytes) -> SnapshotReader:
    write_fully(world.disk.open(PATH, Mode.REPLACE), (data,), 0)
    return SnapshotReader(world.disk, PATH)


def content(world: World) -> bytes:
    file = world.disk.open(PATH, Mode.READ)
    return file.read_at(file.size(), 0)


def made(count: int = 3, head: SnapshotHead = HEAD) -> World:
    world = World()
    write_snapshot(world.disk, world.clock, PATH, iter(topics([f"t{n}" for n in range(count)])), head, epoch=1)
    return world


def test_names() -> None:
    assert SnapshotId(45, 1).name == "00000000000000000045-0000000001.checkpoint"
    assert parse_name(SnapshotId(45, 1).name) == (SnapshotId(45, 1), ".checkpoint")
    assert parse_name("00000000000000000045-0000000001-88.checkpoint.part") == (SnapshotId(45, 1), ".checkpoint.part")
    assert parse_name("00000000000000000045-0000000001.checkpoint.deleted") == (
        SnapshotId(45, 1),
        ".checkpoint.deleted",
    )
    for name in (
        "bootstrap.checkpoint",
        "00000000000000000045.snapshot",
        "0000000000000000045-0000000001.checkpoint",
        "00000000000000000045-0000000001.checkpoint.old",
        "99999999999999999999-0000000001.checkpoint",
        "00000000000000000045-9999999999.checkpoint",
    ):
        assert parse_name(name) is None


def test_a_snapshot_of_kafka_is_read() -> None:
    folder = GOLDEN / "dynamic" / "__cluster_metadata-0"
    reader = SnapshotReader(RealFiles(), str(folder / SnapshotId(45, 1).name))
    head = reader.head()
    assert head.timestamp_ms == 1794753789017
    assert head.kraft_version == 1
    directory = DirectoryId.parse("eEWKl44eQjOETTOnd-dsHg")
    assert head.voters == (Voter(1, directory, (QuorumEndpoint("CONTROLLER", "127.0.0.1", 21193),)),)
    records = list(reader.records())
    assert len(records) == 25
    assert isinstance(records[0].record, FeatureLevelRecord)
    assert sorted(record.name for record, _ in records if isinstance(record, TopicRecord)) == ["a", "b", "c", "d"]
    assert sum(isinstance(record, PartitionRecord) for record, _ in records) == 12


def test_ours_has_the_bytes_of_kafkas() -> None:
    """With Kafka's times and records, every byte of its file: batches, offsets, versions, order of the head."""
    folder = GOLDEN / "dynamic" / "__cluster_metadata-0"
    path = folder / SnapshotId(45, 1).name
    reader = SnapshotReader(RealFiles(), str(path))
    world = World()
    times = [batch.max_timestamp for batch in batches(path.read_bytes())]
    writer = SnapshotWriter(world.disk, world.clock, PART, PATH, epoch=1, head=reader.head())
    records = reader.records()
    for step, time_ms in zip((writer.begin, lambda: writer.write_some(records), writer.finish), times, strict=True):
        world.clock.set(time_ms)
        step()
    assert content(world) == path.read_bytes()


def test_what_was_written_is_read() -> None:
    reader = SnapshotReader(made(5000).disk, PATH)
    assert reader.head() == HEAD
    assert names_of(reader.records()) == [f"t{n}" for n in range(5000)]


def test_voters_are_written_from_kraft_version_1_on() -> None:
    world = made(head=SnapshotHead(7))
    assert SnapshotReader(world.disk, PATH).head() == SnapshotHead(7, 0, ())
    first = next(batches(content(world)))
    assert first.record_count == 1


def test_batches_are_bounded_and_offsets_go_on() -> None:
    sizes = [(batch.base_offset, batch.last_offset, batch.size) for batch in batches(content(made(20_000)))]
    assert len(sizes) > 5
    assert all(size < 200_000 for _, _, size in sizes)
    assert all(last + 1 == following for (_, last, _), (following, _, _) in pairwise(sizes))


def test_nothing_has_the_name_before_all_is_durable() -> None:
    world = World()
    writer = SnapshotWriter(world.disk, world.clock, PART, PATH, epoch=1, head=HEAD)
    writer.begin()
    assert writer.write_some(iter([topic("a")])) > 0
    assert [entry.name for entry in world.disk.list("/data")] == [PART.removeprefix("/data/")]
    writer.finish()
    world.restart()
    assert [entry.name for entry in world.disk.list("/data")] == [PATH.removeprefix("/data/")]
    assert names_of(SnapshotReader(world.disk, PATH).records()) == ["a"]


def test_a_failed_one_leaves_no_file() -> None:
    world = World()
    writer = SnapshotWriter(world.disk, world.clock, PART, PATH, epoch=1, head=HEAD)
    world.disk.faults.fail_next("sync", "*.part", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        run_inline(writer.in_steps(iter(topics(["a"]))))
    assert world.disk.list("/data") == []
    world.disk.faults.fail_next("write", "*.tmp", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        write_snapshot(world.disk, world.clock, PATH, iter(topics(["a"])), HEAD)
    assert world.disk.list("/data") == []


def test_one_that_is_called_off_leaves_no_file() -> None:
    world = World()
    writer = SnapshotWriter(world.disk, world.clock, PART, PATH, epoch=1, head=HEAD)
    failures: list[Exception] = []
    run = JobRun("x", writer.in_steps(iter(topics(["a"]))), world.jobs, lambda _: None, failures.append)
    run.start()
    world.jobs.run_one()
    world.jobs.run_one()
    run.call_off(CalledOffError("enough"))
    assert len(failures) == 1
    assert world.disk.list("/data") == []


def test_damage_is_told() -> None:
    whole = content(made())
    world = World()
    ends = [batch.position + batch.size for batch in batches(whole)]
    header = control_batch([SnapshotHeaderRecord(version=0)], 0, 1, 0)
    builder = BatchBuilder(1)
    builder.append(0, None, None)
    cases = {
        "is empty": b"",
        "without a footer": whole[: ends[-2]],
        "behind its footer": whole + header,
        "no batch of magic 2": whole[: ends[-2]] + b"123",
        "does not begin with the header": whole[ends[0] :],
        "bytes at": whole[:-1],
        "CRC": whole[:70] + bytes([whole[70] ^ 1]) + whole[71:],
        "no value": bytes(header) + bytes(builder.build()),
    }
    for text, data in cases.items():
        reader = put(world, data)
        with pytest.raises(CorruptMetadataError, match=text):
            _ = reader.head(), list(reader.records())
    huge = bytearray(whole)
    huge[8:12] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(CorruptMetadataError, match="bytes at"):
        put(world, bytes(huge)).head()


def test_a_disk_that_refuses_is_told() -> None:
    world = made()
    with pytest.raises(StorageError):
        SnapshotReader(world.disk, "/data/none").head()
    world.disk.faults.fail_next("read", "*", errno.EIO)
    with pytest.raises(StorageError):
        SnapshotReader(world.disk, PATH).head()


WHOLE = content(made())


@settings(max_examples=examples(400))
@given(st.data())
def test_any_bytes_are_records_or_a_typed_error(data: st.DataObject) -> None:
    damaged = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(WHOLE) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(0, len(WHOLE))) :]
    with suppress(TailraceError):
        list(put(World(), bytes(damaged)).records())
