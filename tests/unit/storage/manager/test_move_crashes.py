"""Power lost, or the process killed, at every file operation of a move: one log afterwards, with all that was flushed.

One life: records are appended, flushed, deleted and cut off while the partition moves from one directory to the other
and back. After a crash anywhere in it, in any order of the jobs, the next start finds one log that serves, in one of
the two places, with everything that was flushed, nothing below an acknowledged log start, nothing that was cut off; and
goes on with the move by itself.
"""

from __future__ import annotations

import random

import pytest

from support.logs.builders import batch, bytes_of, placed, sound
from support.logs.managers import P0, ManagedWorld
from tailrace.sim import SimulatedCrash
from tailrace.storage.verify import verify_directory

pytestmark = pytest.mark.spec("LM-28")


class Life(ManagedWorld):
    """What it was promised, beside what it did."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self.order = random.Random(seed)
        self.flushed = 0
        self.log_start = 0
        self.written: list[bytes] = []  # by offset
        self.ended: list[object] = []

    def live(self) -> None:
        self.start()
        self.create(P0, "/a")
        self.write_some(40)
        self.note_flush()
        assert self.flushed == 40
        self.ops_before = self.disk.ops
        self.move("/b")
        self.steps(7)
        self.write_some(10)
        self.steps(2)
        self.raise_log_start(12)
        self.steps(3)
        self.cut_at(30)
        self.write_some(25)
        self.steps(5)
        self.note_flush()
        self.pass_time(300)
        assert self.ended == [self.log()]

    def live_there_and_back(self) -> None:
        self.live()
        self.write_some(5)
        self.move("/a")
        self.steps(6)
        self.write_some(3)
        self.note_flush()
        self.pass_time(100_000)
        assert self.ended[1:] == [self.log()]

    def move(self, directory: str) -> None:
        self.manager.move(P0, self.manager.directories.at(directory), self.ended.append, self.ended.append)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.jobs.run_one(self.order)

    def write_some(self, count: int) -> None:
        log = self.log()
        for _ in range(count):
            offset = log.log_end_offset
            records = batch(1, 100, key=b"%d" % self.order.getrandbits(64))
            self.written.append(bytes(placed(records, offset)))
            log.append_as_leader((records,), 0)

    def note_flush(self) -> None:
        self.log().flush(done=self.flush_done)
        self.run()

    def flush_done(self) -> None:
        self.flushed = max(self.flushed, self.log().recovery_point)

    def raise_log_start(self, offset: int) -> None:
        self.log().update_high_watermark(offset)

        def done() -> None:
            self.log_start = offset

        self.manager.increment_log_start(P0, offset, done, pytest.fail)

    def cut_at(self, offset: int) -> None:
        self.flushed = min(self.flushed, offset)
        self.truncate_to({P0: offset})
        del self.written[offset:]

    def check(self) -> None:
        assert self.has_started
        assert not self.manager.directories.offline
        assert not self.manager.unloadable
        assert self.manager.strays == []
        log = self.manager.log(P0)
        if log is None:
            assert self.flushed == 0
            assert self.written == []
            return
        assert self.log_start <= log.log_start_offset <= 12
        assert log.log_end_offset >= self.flushed
        data = bytes_of(log)
        position = 0
        offsets = []
        for each in sound(data):
            assert data[position : position + each.size] == self.written[each.base_offset]
            position += each.size
            offsets.append(each.base_offset)
        assert offsets == list(range(log.log_start_offset, log.log_end_offset))

    def go_on(self) -> None:
        """The move is ended by the survivor, which serves and dies well."""
        end = 0 if self.manager.log(P0) is None else self.log().log_end_offset
        self.pass_time(300)
        assert self.manager.partitions(future=True) == []
        assert dict(self.manager.moves) == {}
        self.create(P0, is_new=True)
        del self.written[end:]
        self.write_some(2)
        self.check()
        self.shutdown()
        places = [each for each in ("/a", "/b") if "orders-0" in self.names(each)]
        assert len(places) == 1
        assert list(verify_directory(self.disk, f"{places[0]}/orders-0")) == []
        self.restart(power=True)
        self.check()
        assert self.log().log_end_offset == end + 2


@pytest.mark.parametrize(("power", "step"), [(True, 1), (False, 4)], ids=["power lost", "killed"])
def test_a_crash_at_every_operation(power: bool, step: int) -> None:
    whole = Life(seed=0)
    whole.live()
    assert whole.disk.ops - whole.ops_before > 150
    for op in range(whole.ops_before + 1, whole.disk.ops + 1, step):
        life = Life(seed=0)
        life.disk.crash_at(op)
        with pytest.raises(SimulatedCrash):
            life.live()
        life.restart(power=power)
        life.check()
        life.go_on()


def test_crashes_in_other_orders_and_again_while_it_goes_on() -> None:
    dice = random.Random(7)
    for seed in range(1, 50):
        whole = Life(seed)
        whole.live_there_and_back()
        life = Life(seed)
        life.disk.crash_at(dice.randrange(whole.ops_before, whole.disk.ops + 1))
        with pytest.raises(SimulatedCrash):
            life.live_there_and_back()
        for _ in range(3):
            life.world.restart()
            life.new()
            life.disk.crash_at(life.disk.ops + dice.randrange(1, 60))
            try:
                life.start()
                life.check()
                life.pass_time(300)
            except SimulatedCrash:
                continue
            break
        life.disk.crash_at(None)
        life.restart(power=True)
        life.check()
        life.go_on()
