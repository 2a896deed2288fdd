"""A move goes on after a restart, however the process ended, and keeps nothing that the log does not have."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from support.logs.builders import batch, bytes_of
from support.logs.directory_moves import MovingWorld
from support.logs.managers import IDENTITY, P0, TOPIC_ID, broker_config, offsets_in
from tailrace.config.log import LogConfig
from tailrace.env import Env
from tailrace.env.real import RealClock, RealFiles, ThreadJobs
from tailrace.model.ids import TopicId
from tailrace.sim import Survival
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.manager.log_move import COMPLETE
from tailrace.storage.verify import verify_directory
from tailrace.storage.warm import WarmSet

pytestmark = pytest.mark.spec("LM-28")

# Starts and ends


@pytest.mark.parametrize("how", ["killed", "power lost", "shut down"])
@pytest.mark.parametrize("copied", [0, 30, 100])
def test_it_goes_on_after_a_restart(how: str, copied: int) -> None:
    run = MovingWorld()
    run.move()
    future = run.copy_until(copied)
    end = future.log_end_offset
    if how == "shut down":
        run.shutdown()
        assert run.moved == run.failed == []
    run.tape.rewind()
    run.restart(power=how == "power lost")
    run.check_moved(100)
    if how != "power lost" and copied == 30:
        assert end < 100
        rewritten = [path for path in run.tape.of("write") if "-future/00000000000000000000.log" in path]
        assert rewritten == []


def test_what_the_log_has_lost_goes_from_the_copy_too() -> None:
    """The copy was flushed further than the log when the power was lost, and the log goes on differently."""
    run = MovingWorld(20)
    run.append(count=10)
    run.move()
    run.copy_until(30).flush_now()
    run.world.restart(Survival.NOTHING)
    run.new()
    run.start_only()
    lost = run.log().log_end_offset
    assert lost < 30
    assert run.future().log_end_offset == lost
    for _ in range(100):
        run.log().append_as_leader((batch(1, 100, key=b"x"),), 0)
    before = bytes_of(run.log())
    run.pass_time(100)
    run.check_moved(lost + 100)
    assert bytes_of(run.log()) == before


def test_a_cut_that_the_copy_missed_is_found_by_leader_epochs() -> None:
    run = MovingWorld(20)
    for _ in range(20):
        run.log().append_as_leader((batch(1, 100),), 3)
    run.move()
    run.copy_until(40)
    run.world.kill()
    run.disk.fail_next("list", "/b", times=None)
    run.new()
    run.start()
    assert not run.manager.directories.at("/b").is_live
    run.truncate_to({P0: 25})
    for epoch in (4, 6):
        for _ in range(10):
            run.log().append_as_leader((batch(1, 100, key=b"z"),), epoch)
    run.flush()
    before = bytes_of(run.log())
    run.disk.faults.heal()
    run.restart()
    run.check_moved(45)
    assert bytes_of(run.log()) == before


def test_a_tool_leaves_moves_alone() -> None:
    run = MovingWorld()
    run.move()
    run.copy_until(30)
    run.world.kill()
    before = run.names("/b")
    run.new()
    run.start(is_wanted=lambda partition: True)
    assert dict(run.manager.moves) == {}
    assert run.log().dir == "/a/orders-0"
    run.shutdown()
    assert {name for name in run.names("/b") if "orders" in name} == {name for name in before if "orders" in name}
    run.config = replace(run.config, log_dirs=("/b",))  # one that is shown only a part of the directories
    run.new()
    run.start(is_wanted=lambda partition: True)
    assert run.manager.partitions(future=True) == [P0]
    run.shutdown()
    run.config = replace(run.config, log_dirs=("/a", "/b"))
    run.new()
    run.start()
    run.check_moved(100)


def test_a_copy_that_goes_on_is_not_complete() -> None:
    """A crash may have come just before it would have taken over."""
    run = MovingWorld()
    run.move()
    run.write(f"{run.copy_until(30).dir}/{COMPLETE}", b"")
    run.world.kill()
    run.new()
    run.start_only()
    assert COMPLETE not in run.names(run.future().dir)
    run.run()
    run.check_moved(100)


def test_a_copy_of_an_earlier_topic_of_that_name_is_not_continued() -> None:
    run = MovingWorld()
    run.move()
    run.copy_until(100)
    run.world.kill()
    (name,) = [name for name in run.names("/b") if name.endswith("-future")]
    other = TopicId(bytes(16 * [3]))
    text = run.read(f"/b/{name}/partition.metadata").replace(str(TOPIC_ID).encode(), str(other).encode())
    run.write(f"/b/{name}/partition.metadata", text)
    run.new()
    run.start()
    run.check_settled()
    assert run.log().dir == "/a/orders-0"


def test_on_real_disks_while_it_is_written_to(tmp_path: Path) -> None:
    jobs = ThreadJobs(RealClock(), workers=2)
    env = Env(RealFiles(), RealClock(), jobs, random.Random(1))
    paths = (str(tmp_path / "a"), str(tmp_path / "b"))
    config = broker_config(paths, topic_defaults=LogConfig(segment_bytes=1 << 20))
    manager = LogManager(env, config, IDENTITY, WarmSet(50))
    manager.start(lambda: None)
    jobs.run_until(lambda: manager.is_started)
    outcomes: list[object] = []
    source, target = manager.directories
    manager.create(P0, TOPIC_ID, outcomes.append, outcomes.append, is_new=True, directory=source)
    jobs.run_until(lambda: bool(outcomes))
    before = manager.log(P0)
    assert before is not None
    for _ in range(100):
        before.append_as_leader((batch(1, 40_000),), 0)
    manager.move(P0, target, outcomes.append, outcomes.append)
    appended = 100
    while len(outcomes) < 2 and appended < 5000:
        jobs.step()
        log = manager.log(P0)
        assert log is not None
        log.append_as_leader((batch(1, 1000),), 0)
        appended += 1
    jobs.run_until(lambda: len(outcomes) == 2)
    after = manager.log(P0)
    assert outcomes[1] is after is not before
    assert after is not None
    assert offsets_in(after) == list(range(appended))
    manager.shutdown(lambda: None)
    jobs.run_until(lambda: manager.is_closed)
    jobs.close()
    assert list(verify_directory(RealFiles(), f"{paths[1]}/orders-0")) == []
    assert not (tmp_path / "a" / "orders-0").exists()
