"""Directories that Kafka wrote, opened by our log: it must answer as the broker did before it ended."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path

import pytest

from golden.corpus import Golden, case_names, load
from support.logs.golden_logs import WAYS, contents, open_golden
from tailrace.storage import offset_lookup
from tailrace.storage.fetch import Isolation
from tailrace.storage.offset_lookup import FoundOffset
from tailrace.storage.unified_log import UnifiedLog


@pytest.fixture(params=case_names())
def golden(request: pytest.FixtureRequest) -> Golden:
    return load(request.param)


@pytest.fixture(params=WAYS, ids=lambda way: way.name)
def log(request: pytest.FixtureRequest, golden: Golden, tmp_path: Path) -> UnifiedLog:
    return led(golden, open_golden(golden, golden.copy_to(tmp_path), request.param))


def led(golden: Golden, log: UnifiedLog) -> UnifiedLog:
    """What becoming the leader of a single replica does: its epoch begins at the end, and all of it is replicated."""
    log.epochs.assign(golden.expected["answers"]["latest"][2], log.log_end_offset)
    log.update_high_watermark(log.log_end_offset)
    return log


@pytest.mark.spec("LS-20", "LS-25", "LS-28")
def test_offsets_by_time(golden: Golden, log: UnifiedLog) -> None:
    answers = golden.expected["answers"]
    assert answer(log, offset_lookup.EARLIEST) == answers["earliest"]
    assert answer(log, offset_lookup.LATEST) == answers["latest"]
    assert answer(log, offset_lookup.MAX_TIMESTAMP) == answers["max_timestamp"]
    assert answer(log, offset_lookup.EARLIEST_LOCAL) == answers["earliest_local"]
    for timestamp, *wanted in answers["by_timestamp"]:
        assert answer(log, timestamp) == wanted, timestamp
    log.close()


def answer(log: UnifiedLog, timestamp: int) -> list[int | None]:
    found = log.offset_by_time(timestamp) or FoundOffset(-1, -1)
    return [found.offset, found.timestamp, None if found.leader_epoch < 0 else found.leader_epoch]


@pytest.mark.spec("LS-17", "LS-18", "LS-19", "LS-25", "LS-28", "LS-31", "RF-07")
def test_reads(golden: Golden, log: UnifiedLog) -> None:
    assert log.last_stable_offset == golden.expected["answers"]["latest_read_committed"][0]
    for wanted in golden.expected["answers"]["reads"]:
        isolation = Isolation.TXN_COMMITTED if wanted["read_committed"] else Isolation.HIGH_WATERMARK
        found = log.read(wanted["offset"], wanted["max_bytes"], isolation)
        data = found.read()
        seen = {
            "offset": wanted["offset"],
            "max_bytes": wanted["max_bytes"],
            "read_committed": wanted["read_committed"],
            "high_watermark": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "log_start_offset": log.log_start_offset,
            "aborted": None if found.aborted is None else [[each[0], each[1]] for each in found.aborted],
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        assert seen == wanted
    log.close()


@pytest.mark.spec("LS-26", "LS-38")
@pytest.mark.parametrize("name", [name for name in case_names() if not load(name).was_killed])
def test_opening_and_closing_leaves_every_byte_as_it_was(name: str, tmp_path: Path) -> None:
    golden = load(name)
    folder = golden.copy_to(tmp_path)
    led(golden, open_golden(golden, folder)).close()
    wanted = contents(golden.folder)
    for name in stray_snapshots(wanted):
        del wanted[name]
    assert contents(folder) == wanted


def stray_snapshots(names: Collection[str]) -> list[str]:
    """Left by earlier shutdowns: neither at the start of a segment nor the newest."""
    snapshots = sorted(name for name in names if name.endswith(".snapshot"))
    return [name for name in snapshots[:-1] if name.replace(".snapshot", ".log") not in names]
