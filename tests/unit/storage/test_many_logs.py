"""Many logs in one process: a descriptor for the active segment of each that is written to, few for everything else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.logs.builders import CONFIG, batch, in_transaction, marker, offsets, real_log, with_config
from tailrace.config.log import LogConfig
from tailrace.storage.fetch import Isolation
from tailrace.storage.origin import Origin
from tailrace.storage.warm import WarmSet

LOGS = 300
WARM = 50
PER_WARM = 2  # an index may have its mapping and its handle open


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_descriptors_of_many_logs_that_are_written_and_read(tmp_path: Path) -> None:
    config: LogConfig = with_config(segment_index_bytes=240, index_interval_bytes=100)
    warm = WarmSet(WARM)
    before = open_descriptors()
    logs = [real_log(tmp_path / f"t-{n}", config, warm) for n in range(LOGS)]
    limit = before + LOGS + WARM * PER_WARM
    assert open_descriptors() <= limit
    for turn in range(2):
        for log in logs:
            log.append_as_leader([batch(1, 200), batch(1, 200), in_transaction(7, turn)], 0)
            log.append_as_leader([marker(7, commit=False)], 0, Origin.COORDINATOR)
            log.update_high_watermark(log.log_end_offset)
            log.roll()
            assert len(warm) <= WARM
        assert open_descriptors() <= limit
        for log in logs:
            for offset in range(log.log_end_offset):
                found = log.read(offset, 1, Isolation.TXN_COMMITTED)
                assert offsets(found.read()) == [(offset, offset)]
                del found
            assert log.offset_by_time(0) is not None
        assert open_descriptors() <= limit
    for log in logs:
        log.close()
    assert open_descriptors() <= before + WARM * PER_WARM


@pytest.mark.parametrize("was_clean", [True, False])
def test_logs_that_are_loaded_and_read_have_no_descriptors_of_their_own(tmp_path: Path, was_clean: bool) -> None:
    few, many = 10, 60
    warm = WarmSet(few)
    for n in range(many):
        log = real_log(tmp_path / f"t-{n}", CONFIG, warm)
        log.append_as_leader([batch(1, 5000), batch(1, 5000)], 0)
        log.close()
    del log
    before = open_descriptors()
    logs = [
        real_log(tmp_path / f"t-{n}", CONFIG, warm, was_clean=was_clean, recovery_point=2 * was_clean)
        for n in range(many)
    ]
    limit = before + few * PER_WARM
    assert open_descriptors() <= limit
    for log in logs:
        log.update_high_watermark(log.log_end_offset)
        assert offsets(log.read(1, 1).read()) == [(1, 1)]
        assert log.offset_by_time(0) is not None
    assert open_descriptors() <= limit
    for log in logs[:few]:
        log.append_as_leader([batch(1, 10)], 0)
    assert open_descriptors() <= limit + few
    for log in logs:
        log.close()
