"""The metadata log in the middle of a truncation: it is not rolled, and nothing of its past goes."""

from __future__ import annotations

from dataclasses import replace

from support.logs.builders import batch
from tailrace.config.quorum import QuorumConfig
from tailrace.raft import metadata_log
from tailrace.raft.metadata_log import SnapshotFacts
from tailrace.raft.snapshot import SnapshotId
from tailrace.record.batch import set_base_offset, set_leader_epoch
from tailrace.sim import World
from tailrace.storage.steps import run_inline

CONFIG = replace(QuorumConfig(), metadata_log_segment_bytes=1 << 20, metadata_max_retention_bytes=0)


def record(offset: int, value_bytes: int) -> bytes:
    data = batch(1, value_bytes)
    set_base_offset(data, 0, offset)
    set_leader_epoch(data, 0, 1)
    return bytes(data)


def test_snapshots_are_made_and_trimmed_around_a_truncation() -> None:
    world = World(0, directories=("/data",))
    opened = metadata_log.load(world.env, "/data", CONFIG)
    log = opened.log
    for offset in range(6):
        log.append_from_raft_leader(record(offset, 100_000), 1)
    for offset in (2, 4):
        opened.add_snapshot(SnapshotId(offset, 1), SnapshotFacts(100, 0))
    log.update_high_watermark(4)
    steps = log.truncating(5)
    work = next(steps)
    assert log.is_truncating
    run_inline(opened.making_ground(5))
    run_inline(opened.trimming())
    assert len(log.local.segments) == 1
    assert opened.snapshots == (SnapshotId(2, 1), SnapshotId(4, 1))
    try:
        while True:
            work = steps.send(work())
    except StopIteration:
        assert not log.is_truncating
    run_inline(opened.making_ground(5))
    assert log.local.segments.base_offsets == (0, 5)
    assert log.append_from_raft_leader(record(5, 10), 1).first_offset == 5
