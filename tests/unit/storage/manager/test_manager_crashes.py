"""Power lost, or the process killed, at every file operation of a broker's life: the next start always works.

One life: start, make partitions, append, flush, raise a log start, delete a partition, make it anew, truncate, shut
down. After a crash anywhere in it, in any order of the jobs, the next start finds everything that was flushed, nothing
below a log start that was acknowledged, and no partition whose deletion was.
"""

from __future__ import annotations

import random

import pytest

from support.logs.managers import P0, P1, TOPIC_ID, ManagedWorld, offsets_in
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.sim import SimulatedCrash, Survival
from tailrace.storage.verify import verify_directory

AGAIN = TopicId(bytes(16 * [5]))
THIRD = TopicPartition("third", 0)


class Life(ManagedWorld):
    """What it was promised, beside what it did."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self.order = random.Random(seed)
        self.flushed: dict[TopicPartition, int] = {}
        self.starts: dict[TopicPartition, int] = {}
        self.topic_ids: dict[TopicPartition, set[TopicId]] = {}
        self.absent: set[TopicPartition] = set()
        self.ended: list[bool] = []

    def live(self) -> None:
        self.start()
        self.make(P0)
        self.make(P1)
        self.make(THIRD)
        self.append(P0, 30)
        self.append(P1, 30)
        self.append(THIRD, 4)
        self.note_flush(P0)
        self.note_flush(THIRD)
        self.raise_log_start(P0, 12)
        self.manager.checkpoint_recovery_points()
        self.flushed.pop(THIRD)
        self.manager.delete([THIRD], self.note_deletion)
        self.run()
        self.absent.discard(THIRD)
        self.make(THIRD, AGAIN)
        self.append(THIRD, 3)
        self.note_flush(THIRD)
        self.flushed[P0] = 25
        self.truncate_to({P0: 25})
        self.append(P0, 3)
        self.note_flush(P0)
        self.pass_time(95_000)
        self.manager.shutdown(lambda: self.ended.append(True))
        self.run()

    def make(self, partition: TopicPartition, topic_id: TopicId = TOPIC_ID) -> None:
        self.topic_ids.setdefault(partition, set()).add(topic_id)
        self.create(partition, topic_id=topic_id)
        self.flushed[partition] = 0
        self.topic_ids[partition] = {topic_id}

    def note_flush(self, partition: TopicPartition) -> None:
        self.flush(partition)
        self.flushed[partition] = self.log(partition).recovery_point

    def raise_log_start(self, partition: TopicPartition, offset: int) -> None:
        self.log(partition).update_high_watermark(offset)

        def done() -> None:
            self.starts[partition] = offset

        self.manager.increment_log_start(partition, offset, done, pytest.fail)
        self.run()

    def note_deletion(self, errors: dict[TopicPartition, TailraceError]) -> None:
        assert errors == {}
        self.absent.add(THIRD)

    def check(self) -> None:
        assert self.has_started
        assert not self.manager.directories.offline
        assert not self.manager.unloadable
        for partition in self.manager.partitions():
            log = self.log(partition)
            assert partition not in self.absent
            assert log.topic_id in {None, *self.topic_ids[partition]}
            assert log.log_start_offset >= self.starts.get(partition, 0)
            found = offsets_in(log)
            assert found == list(range(log.log_start_offset, log.log_end_offset))
        for partition, end in self.flushed.items():
            assert self.log(partition).log_end_offset >= end
            assert self.log(partition).log_start_offset <= self.starts.get(partition, 12)
        if self.ended:
            assert all(directory.was_clean for directory in self.manager.directories)

    def go_on(self) -> None:
        """The survivor serves, and dies well."""
        self.topic_ids.setdefault(THIRD, set()).add(AGAIN)
        for partition in (P0, P1):
            self.create(partition, is_new=True)
            self.append(partition, 2)
        self.shutdown()
        for directory in ("/a", "/b"):
            for name in self.names(directory):
                if name.startswith("orders-") and "." not in name:
                    assert list(verify_directory(self.disk, f"{directory}/{name}")) == []
        self.restart(power=True)
        assert all(directory.was_clean for directory in self.manager.directories)


def length_of(seed: int) -> int:
    life = Life(seed)
    life.live()
    return life.disk.ops


@pytest.mark.spec("LM-05", "LM-36", "LM-37", "LM-38")
@pytest.mark.parametrize("power", [True, False], ids=["power lost", "killed"])
def test_a_crash_at_every_operation(power: bool) -> None:
    length = length_of(0)
    assert length > 150
    for op in range(1, length + 1):
        life = Life(seed=0)
        life.disk.crash_at(op)
        with pytest.raises(SimulatedCrash):
            life.live()
        life.restart(power=power)
        life.check()
        life.go_on()


@pytest.mark.spec("LM-36", "LM-38")
def test_crashes_in_other_orders_and_again_while_starting() -> None:
    """Other seeds: other orders of jobs, other survivors; and the start itself crashes once more."""
    dice = random.Random(7)
    for seed in range(1, 60):
        length = length_of(seed)
        life = Life(seed)
        life.disk.crash_at(dice.randrange(1, length + 1))
        with pytest.raises(SimulatedCrash):
            life.live()
        for _ in range(3):
            life.world.restart()
            life.new()
            life.disk.crash_at(life.disk.ops + dice.randrange(1, 40))
            try:
                life.start()
            except SimulatedCrash:
                continue
            break
        life.restart(power=True)
        life.check()
        life.go_on()


@pytest.mark.spec("LM-12", "LM-36")
def test_an_acknowledged_deletion_is_never_undone() -> None:
    for op in range(1, 100):
        life = Life(seed=3)
        life.start()
        life.make(THIRD)
        life.append(THIRD, 30)
        life.note_flush(THIRD)
        del life.flushed[THIRD]
        life.manager.delete([THIRD], life.note_deletion)
        life.disk.crash_at(life.disk.ops + op)
        try:
            life.run()
            life.pass_time(100_000)
        except SimulatedCrash:
            life.restart(power=True)
            life.check()
            continue
        break
    assert op > 10


def test_nothing_is_unlinked_before_its_new_name_is_durable() -> None:
    """Without a delay the removal follows at once: a name that came back would lead to half a log."""
    life = Life(seed=0)
    life.start()
    life.make(P0)
    life.append(P0, 30)
    life.note_flush(P0)
    life.manager.delete([P0], lambda errors: None)
    assert life.manager.waiting_for_removal == []
    while not life.manager.waiting_for_removal:
        life.jobs.run_one()
    life.world.restart(Survival.NOTHING)
    life.new()
    life.start()
    assert life.manager.partitions() == []


def test_a_name_that_a_killed_process_left_unsynced_is_synced_by_the_next() -> None:
    for op in range(1, 60):
        life = Life(seed=0)
        life.start()
        life.disk.crash_at(life.disk.ops + op)
        try:
            life.make(P0)
        except SimulatedCrash:
            pass
        else:
            break
        life.restart()
        life.create(P0, is_new=True)
        life.append(P0, 5)
        life.flush(P0)
        life.world.restart(Survival.NOTHING)
        life.new()
        life.start()
        assert offsets_in(life.log(P0)) == list(range(5))
    assert op > 5
