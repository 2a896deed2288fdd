"""Transactions that hang, by the times of files: what producers say of the time may be of long ago."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.audit.injected_faults.catalog import Case, all_faults, plant
from support.audit.logs import START_MS, LogDirectory
from support.spark.local_rdds import LocalSpark
from tailrace.spark.auditing.audit import AuditRun
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.rules import HANGING_TRANSACTION, RULES
from tailrace.spark.source.files.read_only import ReadOnlyFiles

HOUR_MS = 3_600_000
LATER_MS = START_MS + HOUR_MS


def date(file: Path, time_ms: int) -> None:
    os.utime(file, (time_ms / 1000, time_ms / 1000))


def hanging(directory: LogDirectory) -> list[tuple[int | None, str]]:
    files = ReadOnlyFiles()
    run = AuditRun(LocalSpark(), files, find_places(files, [str(directory)]), pause=lambda _: None)  # type: ignore[arg-type]
    run.read()
    found = run.report([str(directory)], frozenset(RULES), notes=True).findings
    assert {each.rule for each in found} <= {HANGING_TRANSACTION}
    return [(each.offset, each.words.rpartition(", is ")[2]) for each in found]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Records of long ago in a transaction from offset 71 on, in the last of four segments; others stand behind it."""
    (fault,) = (each for each in all_faults() if each.name == "hanging-transaction")
    case, _ = plant(fault, tmp_path)
    for checkpoint in case.directory.path.glob("*-checkpoint"):
        date(checkpoint, LATER_MS)
    return case


HANGS = [(71, "58 minutes before the newest sign of life")]
"""The batch says 72 seconds behind the start."""


def test_it_is_as_old_as_its_batch_where_files_are_older(case: Case) -> None:
    assert hanging(case.directory) == HANGS


def test_a_folder_is_older_than_its_batches(case: Case) -> None:
    metadata = case.partition.folder / "partition.metadata"
    date(metadata, LATER_MS - 60_000)
    assert hanging(case.directory) == []
    date(metadata, LATER_MS - 30 * 60_000)
    assert hanging(case.directory) == [(71, "30 minutes before the newest sign of life")]


def test_the_segment_before_is_older_than_its_batches(case: Case) -> None:
    date(case.log(2), LATER_MS - 60_000)
    assert hanging(case.directory) == []


def test_other_files_say_nothing(case: Case) -> None:
    """The one before the last is younger than what it tells of only where the last one is as well; here it is not."""
    date(case.log(1), LATER_MS - 60_000)
    date(case.log(3), LATER_MS - 60_000)  # by the batches behind it
    date(case.partition.file(3, ".index"), LATER_MS - 60_000)
    assert hanging(case.directory) == HANGS


def test_the_last_batch_is_as_old_as_its_file(case: Case) -> None:
    case.partition.write(3, case.partition.parts(3)[:2])
    case.directory.ends[case.name] = 73
    case.directory.write_checkpoints()
    for checkpoint in case.directory.path.glob("*-checkpoint"):
        date(checkpoint, LATER_MS)
    case.partition.date(START_MS)
    assert hanging(case.directory) == HANGS
    date(case.log(3), LATER_MS - 60_000)
    assert hanging(case.directory) == []


def test_what_is_not_judged_yet_stands_behind_the_last_batch(case: Case) -> None:
    """A transaction that goes on: only the file tells that it does."""
    (case.directory / ".kafka_cleanshutdown").unlink()
    case.directory.checkpoint("replication-offset-checkpoint", {case.name: 73})
    date(case.directory / "replication-offset-checkpoint", LATER_MS)
    assert hanging(case.directory) == HANGS
    date(case.log(3), LATER_MS - 60_000)
    assert hanging(case.directory) == []
