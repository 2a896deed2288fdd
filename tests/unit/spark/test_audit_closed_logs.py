"""Logs whose broker closed them: nothing is being written, so that all of their bytes are judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from audited_logs import LogDirectory, busy
from local_spark import LocalSpark

from tailrace.spark.auditing.audit import AuditRun
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.rules import EPOCH_CHECKPOINT, METADATA, RULES, TIME_INDEX, TRAILING_BYTES
from tailrace.spark.source.files.read_only import ReadOnlyFiles

MARKER = ".kafka_cleanshutdown"


def rules_of(directory: LogDirectory) -> list[str]:
    files = ReadOnlyFiles()
    run = AuditRun(LocalSpark(), files, find_places(files, [str(directory)]), pause=lambda _: None)  # type: ignore[arg-type]
    run.read()
    return [finding.rule for finding in run.report([str(directory)], frozenset(RULES), notes=False).findings]


@pytest.fixture
def directory(tmp_path: Path) -> LogDirectory:
    directory = LogDirectory(tmp_path / "data")
    directory.put("busy-0", busy())
    return directory


def test_bytes_behind_the_end_of_a_log(directory: LogDirectory) -> None:
    last = sorted((directory / "busy-0").glob("*.log"))[-1]
    with last.open("ab") as file:
        file.write(b"no batch, but more bytes than a header has, and none of them is zero")
    assert rules_of(directory) == [TRAILING_BYTES]
    (directory / MARKER).unlink()  # somebody may be appending
    assert rules_of(directory) == []


def test_partitions_of_a_topic_have_one_id(directory: LogDirectory) -> None:
    others = [directory.put(f"busy-{number}", busy()) for number in (1, 2)]
    assert rules_of(directory) == []
    (others[1].folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")
    assert rules_of(directory) == [METADATA]
    (directory / MARKER).unlink()  # the topic may be being made anew
    assert rules_of(directory) == []


def test_lost_epochs(directory: LogDirectory) -> None:
    checkpoint = directory / "busy-0" / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n1\n3 57\n")
    assert rules_of(directory) == [EPOCH_CHECKPOINT]
    directory.checkpoint("log-start-offset-checkpoint", {"busy-0": 57})  # as retention leaves it
    assert rules_of(directory) == []
    directory.checkpoint("log-start-offset-checkpoint", {})
    (directory / MARKER).unlink()  # the log start may have moved since it was noted
    assert rules_of(directory) == []


def test_a_quorum_notes_no_log_start(tmp_path: Path) -> None:
    """Below its snapshot the epochs of its log are dropped, and no checkpoint says where that is."""
    directory = LogDirectory(tmp_path / "data")
    metadata = directory.put("__cluster_metadata-0", busy())
    (metadata.folder / "leader-epoch-checkpoint").write_text("0\n1\n3 57\n")
    assert rules_of(directory) == []


def test_what_is_not_committed_is_clean_as_well(directory: LogDirectory) -> None:
    directory.ends["busy-0"] = 61
    directory.write_checkpoints()
    assert rules_of(directory) == []
    last = sorted((directory / "busy-0").glob("*.log"))[-1]
    content = bytearray(last.read_bytes())
    content[-1] ^= 1
    last.write_bytes(content)
    assert rules_of(directory) == ["crc"]
    (directory / MARKER).unlink()
    assert rules_of(directory) == []


def test_a_time_index_that_lacks_its_last_entry(directory: LogDirectory) -> None:
    first = min((directory / "busy-0").glob("*.timeindex"))
    first.write_bytes(first.read_bytes()[:-12])
    assert rules_of(directory) == [TIME_INDEX]
