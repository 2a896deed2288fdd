"""Logs whose broker closed them: nothing is being written, so that all of their bytes are judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from audited_logs import LogDirectory, busy
from local_spark import LocalSpark

from tailrace.spark.auditing.audit import AuditRun
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.rules import RULES, TIME_INDEX, TRAILING_BYTES
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
