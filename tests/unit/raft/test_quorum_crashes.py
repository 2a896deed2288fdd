"""Power lost at any file operation of a quorum's life: nothing committed is lost, nothing comes back changed."""

from __future__ import annotations

import random

import pytest

from suite.seeds import parametrized_seeds
from support.metadata.quorum import LOG_DIRECTORY, QuorumWorld
from tailrace.model.errors import StorageError
from tailrace.raft.snapshot import SnapshotReader
from tailrace.sim.faults import SimulatedCrash
from tailrace.storage.verify import verify_directory

CORE = 5
STRIDE = 5
SETTINGS = {
    "internal_metadata_log_segment_bytes": 500,
    "metadata_max_retention_bytes": 900,
    "internal_metadata_delete_delay_millis": 100,
}


class Life:
    """Two runs of a quorum with appends, snapshots, trimming and a close between them, in an order the seed chooses."""

    def __init__(self, seed: int) -> None:
        self.rig = QuorumWorld(seed, standalone=seed % 2 == 1, **SETTINGS)
        self.rig.disk.faults.failed_sync_drops = True
        self.dice = random.Random(seed)
        self.epoch = 0
        self.count = 0

    def run(self) -> None:
        for _ in range(2):
            self.start()
            for _ in range(20):
                self.act()
            assert self.rig.stop()

    def start(self) -> None:
        rig = self.rig
        rig.start()
        assert rig.memory.failures == []
        assert rig.is_ready
        assert rig.quorum.epoch > self.epoch
        self.epoch = rig.quorum.epoch

    def act(self) -> None:
        rig, dice = self.rig, self.dice
        kind = dice.choice(("append", "append", "jobs", "jobs", "snapshot", "snapshot", "time"))
        if kind == "append":
            names = [f"{self.count}-{n}-{'x' * dice.randrange(60)}" for n in range(dice.randint(1, 3))]
            self.count += 1
            rig.append(*names)
        elif kind == "jobs":
            for _ in range(dice.randint(1, 16)):
                rig.jobs.run_one(dice)
        elif kind == "snapshot" and rig.quorum.snapshot_is_due(10**15):
            rig.snapshot()
        else:
            rig.world.clock.advance(60)
            rig.jobs.tick()

    def recover(self) -> None:
        """And perhaps lose power again on the way."""
        rig, disk = self.rig, self.rig.disk
        while True:
            rig.world.restart()
            disk.crash_at(disk.ops + self.dice.randint(1, 60) if self.dice.random() < 0.3 else None)
            try:
                self.start()
                break
            except SimulatedCrash:
                continue
        disk.crash_at(None)
        self.check()

    def check(self) -> None:
        rig = self.rig
        found = rig.memory.names
        assert found == rig.appended[: len(found)], "what came back was never written so"
        assert len(found) >= len(rig.done), "a committed record is lost"
        rig.appended = list(found)
        rig.jobs.run_all()
        assert list(verify_directory(rig.disk, LOG_DIRECTORY)) == []
        for name in rig.files(".checkpoint"):
            list(SnapshotReader(rig.disk, f"{LOG_DIRECTORY}/{name}").records())
        rig.append("after")
        rig.jobs.run_all()
        rig.world.kill()
        self.start()
        assert rig.memory.names == rig.appended


def lived(seed: int, crash_at: int | None) -> int:
    life = Life(seed)
    life.rig.disk.crash_at(crash_at)
    try:
        life.run()
    except SimulatedCrash:
        life.recover()
    else:
        assert life.rig.done == life.rig.appended
    return life.rig.disk.ops


@pytest.mark.spec("LS-51")
@parametrized_seeds(core=CORE, fresh=1)
def test_power_lost_at_any_operation(seed: int) -> None:
    first = Life(seed).rig.disk.ops + 1
    total = lived(seed, None)
    # Five consecutive seeds look at all operations.
    for crash_at in range(first + seed % STRIDE, total + 1, STRIDE):
        lived(seed, crash_at)


def test_the_lives_do_what_they_are_for() -> None:
    trims = rolls = 0
    for seed in range(CORE):
        life = Life(seed)
        life.run()
        trims += life.rig.quorum.log_start_offset > 0
        rolls += int(life.rig.files(".log")[-1][:20]) > 0
        assert len(life.rig.files(".checkpoint")) >= 1
    assert trims > CORE // 2
    assert rolls > CORE // 2


@parametrized_seeds()
def test_a_failing_disk_never_commits_what_is_not_there(seed: int) -> None:
    """One fsync of the log fails and drops what it should have written; then power is lost."""
    life = Life(seed)
    life.start()
    life.rig.disk.faults.fail_next("sync", "*.log", 5, skip=seed % 4)
    try:
        for _ in range(14):
            life.act()
        life.rig.jobs.run_all()
    except StorageError:
        pass
    life.rig.disk.faults.heal()
    life.recover()
