"""partition.metadata: Kafka's bytes, one topic for ever, damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched_files import WatchedFiles

from tailrace.env import Mode
from tailrace.env.real.files import RealFiles
from tailrace.model.errors import CorruptCheckpointError, InconsistentTopicIdError, InvalidDataError
from tailrace.model.ids import ZERO_TOPIC_ID, TopicId
from tailrace.sim.disk import SimDisk
from tailrace.sim.faults import SimulatedCrash
from tailrace.storage.partition_metadata import PartitionMetadata

TOPIC_ID = TopicId.parse("dp_vzmL5QQGAyPhHLl-m9g")
OTHER_ID = TopicId.parse("AAAAAAAAAAAAAAAAAAAAAQ")


@pytest.mark.spec("LS-01")
def test_it_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    files = WatchedFiles(RealFiles())
    metadata = PartitionMetadata(files, str(tmp_path))
    assert metadata.read() is None
    metadata.write(TOPIC_ID)
    path = tmp_path / "partition.metadata"
    assert path.read_bytes() == b"version: 0\ntopic_id: dp_vzmL5QQGAyPhHLl-m9g"
    assert metadata.read() == TOPIC_ID
    assert files.syncs == [f"{path}.tmp", str(tmp_path)]
    assert [entry.name for entry in tmp_path.iterdir()] == ["partition.metadata"]


def test_the_same_topic_again_is_fine_another_is_refused(tmp_path: Path) -> None:
    files = WatchedFiles(RealFiles())
    metadata = PartitionMetadata(files, str(tmp_path))
    metadata.write(TOPIC_ID)
    files.syncs.clear()
    metadata.write(TOPIC_ID)
    assert files.syncs == []
    with pytest.raises(InconsistentTopicIdError, match=f"{TOPIC_ID}, not {OTHER_ID}"):
        metadata.write(OTHER_ID)
    assert metadata.read() == TOPIC_ID


def test_no_topic_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError):
        PartitionMetadata(RealFiles(), str(tmp_path)).write(ZERO_TOPIC_ID)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 0",
        "version: 0\n",
        "version: x\ntopic_id: dp_vzmL5QQGAyPhHLl-m9g",
        "version: -1\ntopic_id: dp_vzmL5QQGAyPhHLl-m9g",
        "verzion: 0\ntopic_id: dp_vzmL5QQGAyPhHLl-m9g",
        "version: 0\ntopic: dp_vzmL5QQGAyPhHLl-m9g",
        "version: 0\ntopic_id: dp_vzmL5QQGAyPhHLl",
        "version: 0\ntopic_id: dp_vzmL5QQGAyPhHLl-m9g x",
        "version: 0\ntopic_id: dp!vzmL5QQGAyPhHLl-m9g",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "version: 0\ntopic_id: " + "A" * 5000,
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "partition.metadata").write_text(text)
    with pytest.raises(CorruptCheckpointError):
        PartitionMetadata(RealFiles(), str(tmp_path)).read()
    with pytest.raises(CorruptCheckpointError):
        PartitionMetadata(RealFiles(), str(tmp_path)).write(TOPIC_ID)


@pytest.mark.parametrize(
    "text", ["version: 0\ntopic_id: {}\n", "version: 1\ntopic_id: {}\nmore: 7", "version:  0\ntopic_id:\t{}"]
)
def test_what_kafka_reads_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "partition.metadata").write_text(text.format(TOPIC_ID))
    assert PartitionMetadata(RealFiles(), str(tmp_path)).read() == TOPIC_ID


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    disk = SimDisk()
    disk.open("/partition.metadata", Mode.REPLACE).write_at((data,), 0)
    with pytest.raises(CorruptCheckpointError):
        PartitionMetadata(disk, "").read()


@pytest.mark.parametrize("seed", range(10))
def test_a_crash_during_the_write_leaves_all_or_nothing(seed: int) -> None:
    step = 0
    while True:
        step += 1
        disk = SimDisk(seed)
        disk.make_dir("/d")
        disk.sync_dir("/")
        metadata = PartitionMetadata(disk, "/d")
        disk.crash_at(disk.ops + step)
        try:
            metadata.write(TOPIC_ID)
        except SimulatedCrash:
            disk.restart()
            assert metadata.read() in (None, TOPIC_ID)
            continue
        disk.crash()
        disk.restart()
        assert metadata.read() == TOPIC_ID
        break


def test_it_follows_its_directory(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    metadata = PartitionMetadata(RealFiles(), str(tmp_path / "a"))
    metadata.write(TOPIC_ID)
    (tmp_path / "a").rename(tmp_path / "b")
    metadata.moved_to(str(tmp_path / "b"))
    assert metadata.read() == TOPIC_ID
    assert metadata.path == str(tmp_path / "b" / "partition.metadata")
