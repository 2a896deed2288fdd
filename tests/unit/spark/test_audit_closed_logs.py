"""Logs whose broker closed them: nothing is being written, so that all of their bytes are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.audit.logs import LogDirectory, busy
from support.spark.local_rdds import LocalSpark
from tailrace.record.batch import set_leader_epoch
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
    checkpoint.write_text("0\n2\n0 0\n3 57\n")
    assert rules_of(directory) == [EPOCH_CHECKPOINT]
    (directory / MARKER).unlink()
    assert rules_of(directory) == [EPOCH_CHECKPOINT]


@pytest.mark.parametrize("epochs", ["3\n0 10\n1 28\n3 57", "2\n1 28\n3 57", "1\n3 57", "1\n3 70"])
@pytest.mark.parametrize("log_start", [None, 10, 57, 70])
def test_epochs_that_were_cut_from_the_start(directory: LogDirectory, epochs: str, log_start: int | None) -> None:
    """With records that were deleted. The log start is noted later: after a kill it may be anywhere before."""
    (directory / "busy-0" / "leader-epoch-checkpoint").write_text(f"0\n{epochs}\n")
    directory.checkpoint("log-start-offset-checkpoint", {} if log_start is None else {"busy-0": log_start})
    assert rules_of(directory) == []


def test_a_first_batch_without_an_epoch(directory: LogDirectory) -> None:
    log = directory / "busy-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    set_leader_epoch(content, 0, -1)
    log.write_bytes(content)
    assert rules_of(directory) == [EPOCH_CHECKPOINT]
    checkpoint = directory / "busy-0" / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n3\n0 4\n1 28\n3 57\n")  # made by hand: epochs begin behind it
    assert rules_of(directory) == []


def test_what_is_not_committed_is_clean_as_well(directory: LogDirectory) -> None:
    directory.checkpoint("replication-offset-checkpoint", {"busy-0": 61})
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
