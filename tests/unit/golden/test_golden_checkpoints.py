"""The text files that Kafka keeps beside and in its partitions, read by us, and written again by us byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden.corpus import LOG_DIRS, Golden, case_names, load
from tailrace.env.jobs import InlineJobs
from tailrace.env.real.files import RealFiles
from tailrace.model.ids import TopicPartition
from tailrace.storage.checkpoint import OffsetCheckpoint
from tailrace.storage.epoch_cache import EpochEntry, LeaderEpochCache
from tailrace.storage.partition_metadata import PartitionMetadata

CHECKPOINTS = sorted(path for path in LOG_DIRS.glob("*/*-checkpoint") if path.stat().st_size)
FILES = RealFiles()


@pytest.fixture(params=case_names())
def golden(request: pytest.FixtureRequest) -> Golden:
    return load(request.param)


@pytest.mark.spec("LS-32")
def test_leader_epochs(golden: Golden, tmp_path: Path) -> None:
    text = golden.expected["leader_epoch_checkpoint"]
    wanted = [EpochEntry(*map(int, line.split())) for line in text.splitlines()[2:]]
    loaded = LeaderEpochCache(FILES, InlineJobs(), str(golden.copy_to(tmp_path)))
    loaded.load()
    assert list(loaded.entries) == wanted
    made = LeaderEpochCache(FILES, InlineJobs(), str(tmp_path))
    made.assign_all(wanted)
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == text


def test_restarts_gave_several_epochs() -> None:
    assert len(load("epochs").expected["leader_epoch_checkpoint"].splitlines()) == 2 + 4


def test_partition_metadata(golden: Golden, tmp_path: Path) -> None:
    text = golden.expected["partition_metadata"]
    topic_id = PartitionMetadata(FILES, str(golden.copy_to(tmp_path))).read()
    assert topic_id is not None
    PartitionMetadata(FILES, str(tmp_path)).write(topic_id)
    assert (tmp_path / "partition.metadata").read_text() == text


@pytest.mark.spec("LM-05")
@pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_offset_checkpoints(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    offsets = OffsetCheckpoint(FILES, str(copy)).read()
    wanted = {
        f"{name}-0": load(name).expected["checkpoints"][path.name]
        for name in case_names()
        if load(name).expected["shutdown"] == path.parent.name
    }
    assert {name: offset for name, offset in wanted.items() if offset is not None} == {
        str(partition): offset for partition, offset in offsets.items() if not partition.topic.startswith("__")
    }
    OffsetCheckpoint(FILES, str(tmp_path / "made")).write(offsets)
    head, *lines = (tmp_path / "made").read_text().splitlines()
    wanted_head, *wanted_lines = path.read_text().splitlines()
    assert (head, lines[0], sorted(lines[1:])) == (wanted_head, wanted_lines[0], sorted(wanted_lines[1:]))
    assert (tmp_path / "made").stat().st_size == path.stat().st_size


def test_the_clean_marker_is_where_the_shutdown_was_clean() -> None:
    assert (LOG_DIRS / "clean" / ".kafka_cleanshutdown").exists()
    assert not (LOG_DIRS / "killed" / ".kafka_cleanshutdown").exists()
    assert (
        TopicPartition("segments", 0)
        in OffsetCheckpoint(FILES, str(LOG_DIRS / "clean" / "log-start-offset-checkpoint")).read()
    )
