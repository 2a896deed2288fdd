"""A partition moves to another data directory while it is read, written, cut and compacted."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from golden.corpus import Golden, cases
from support.logs.builders import batch, bytes_of, in_transaction, marker
from support.logs.directory_moves import MANY_STEPS, MovingWorld
from support.logs.golden_logs import settings
from support.logs.managers import IDENTITY, LOG_CONFIG, P0, P1, TOPIC_ID, broker_config, offsets_in
from tailrace.config.broker import BrokerConfig
from tailrace.config.cleaner import CleanerConfig
from tailrace.config.table import MAX_LONG
from tailrace.env.real import RealFiles, real_env
from tailrace.model.ids import TopicPartition
from tailrace.storage.loader import LoadOptions
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.manager.log_move import COMPLETE
from tailrace.storage.manager.log_mover import MoveProgress
from tailrace.storage.origin import Origin
from tailrace.storage.verify import verify_directory
from tailrace.storage.warm import WarmSet

pytestmark = pytest.mark.spec("LM-28")

# A move that nothing disturbs


def test_from_the_wish_to_the_end() -> None:
    run = MovingWorld()
    before = bytes_of(run.log())
    old = run.log()
    run.move()
    assert run.log() is old
    run.run()
    assert run.moved == [run.log()]
    run.check_moved(100)
    assert bytes_of(run.log()) == before
    assert (run.log().high_watermark, run.log().topic_id) == (100, TOPIC_ID)
    (doomed,) = run.manager.waiting_for_removal
    assert doomed.startswith("/a/orders-0.")
    assert doomed.endswith("-delete")
    assert COMPLETE not in run.names("/b/orders-0")
    run.append(count=50)
    run.flush()
    run.pass_time(100_000)
    assert run.names("/a") == [name for name in run.names("/a") if not name.startswith("orders")]
    run.restart(power=True)
    run.check_moved(150)


def test_an_empty_partition() -> None:
    run = MovingWorld(0)
    run.move()
    run.run()
    run.check_moved(0)


def test_it_is_copied_in_chunks_and_its_progress_can_be_read() -> None:
    run = MovingWorld()
    size = run.log().local.size
    run.move()
    assert run.progress() == MoveProgress("/a", "/b", 100, size, False, None)
    seen = []
    while run.jobs.run_one():
        if P0 in run.manager.moves:
            seen.append(run.progress().offset_lag)
            future = run.manager.log(P0, future=True)
            assert future is None or future.high_watermark == future.log_end_offset or not run.progress().is_copying
            assert run.progress().bytes_behind == size - size * (100 - seen[-1]) // 100
    assert sorted(set(seen), reverse=True) == list(dict.fromkeys(seen))
    assert len(set(seen)) > 5
    run.check_moved(100)


def test_what_no_other_replica_has_yet_is_copied_too() -> None:
    run = MovingWorld(10)
    run.append(count=40)
    assert run.log().high_watermark == 10
    run.move()
    run.run()
    run.check_moved(50)
    assert run.log().high_watermark == 10


def test_transactions_and_producers_come_along() -> None:
    run = MovingWorld(5)
    log = run.log()
    log.append_as_leader((in_transaction(7, 0, 3),), 0)
    log.append_as_leader((marker(7, commit=False),), 0, Origin.COORDINATOR)
    log.append_as_leader((in_transaction(8, 0, 2),), 0)
    aborted = log.aborted_transactions(0, 100)
    assert len(aborted) == 1
    run.move()
    run.run()
    moved = run.log()
    assert moved is not log
    assert moved.aborted_transactions(0, 100) == aborted
    moved.update_high_watermark(moved.log_end_offset)
    assert moved.last_stable_offset == 9
    assert moved.append_as_leader((in_transaction(8, 0, 2),), 0)[0].is_duplicate
    assert moved.epochs.entries == log.epochs.entries


@pytest.mark.parametrize("golden", cases(), ids=lambda golden: golden.name)
def test_every_log_that_kafka_wrote_moves_as_it_is(golden: Golden, tmp_path: Path) -> None:
    """Compacted ones with gaps, old formats, deleted records, transactions."""
    paths = (str(tmp_path / "a"), str(tmp_path / "b"))
    golden.copy_to(tmp_path / "a")
    config = broker_config(paths, cleaner=CleanerConfig(log_cleaner_enable=False))
    options = LoadOptions(producer_expiration_ms=MAX_LONG)
    manager = LogManager(real_env(0), config, IDENTITY, WarmSet(50), options)
    manager.start(lambda: None, {golden.name: settings(golden)})
    partition = TopicPartition(golden.name, 0)
    before = manager.log(partition)
    assert before is not None
    held = (bytes_of(before), before.log_start_offset, before.log_end_offset, before.topic_id)
    aborted = before.aborted_transactions(0, MAX_LONG)
    outcomes: list[object] = []
    manager.move(partition, manager.directories.at(paths[1]), outcomes.append, outcomes.append)
    after = manager.log(partition)
    assert after is not None
    assert outcomes == [after]
    assert after.dir == f"{paths[1]}/{golden.name}-0"
    assert (bytes_of(after), after.log_start_offset, after.log_end_offset, after.topic_id) == held
    assert after.aborted_transactions(0, MAX_LONG) == aborted
    manager.shutdown(lambda: None)
    assert list(verify_directory(RealFiles(), after.dir)) == []


def test_asked_for_twice() -> None:
    run = MovingWorld()
    run.move()
    run.copy_until(20)
    run.move()
    run.run()
    assert run.moved == [run.log(), run.log()]
    run.check_moved(100)


# A log that does not stand still


def test_a_partition_that_is_written_to_all_the_time() -> None:
    run = MovingWorld()
    run.move()
    for _ in range(MANY_STEPS):
        if run.moved:
            break
        run.append()
        run.jobs.run_one()
        run.jobs.tick(run.world.clock.now_ms() + 1)
    else:
        pytest.fail("it never catches up")
    run.run()
    run.check_moved(run.log().log_end_offset)
    assert run.log().log_end_offset > 110


def test_the_last_stretch_is_no_longer_than_can_be_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.storage.manager.log_copying.LAST_STRETCH_BYTES", 1000)
    run = MovingWorld()
    run.move()
    run.copy_until(100)
    run.append(count=20)
    run.step_until(lambda: run.future().log_end_offset > 100)
    assert run.moved == []
    run.run()
    run.check_moved(120)


def test_a_log_start_in_the_middle_of_a_batch() -> None:
    run = MovingWorld(0)
    for _ in range(20):
        run.log().append_as_leader((batch(10, 50),), 0)
    run.log().update_high_watermark(200)
    run.manager.increment_log_start(P0, 115, lambda: None, pytest.fail)
    run.run()
    before = bytes_of(run.log())
    run.move()
    run.run()
    run.check_settled()
    assert run.log().dir == "/b/orders-0"
    assert (run.log().log_start_offset, run.log().log_end_offset) == (115, 200)
    assert bytes_of(run.log()) == before
    run.restart(power=True)
    assert (run.log().log_start_offset, bytes_of(run.log())) == (115, before)


@pytest.mark.parametrize("start", [10, 60, 100])
def test_records_are_deleted_while_it_moves(start: int) -> None:
    run = MovingWorld()
    run.move()
    run.copy_until(30)
    run.manager.increment_log_start(P0, start, lambda: None, pytest.fail)
    run.run()
    run.check_moved(100, start)
    run.restart(power=True)
    run.check_moved(100, start)


def test_retention_deletes_segments_of_both_while_it_moves() -> None:
    run = MovingWorld()
    run.move()
    run.copy_until(60)
    run.manager.update_config("orders", replace(LOG_CONFIG, retention_bytes=4000))
    run.manager.delete_old_segments()
    start = run.log().log_start_offset
    assert 0 < start < 100
    run.run()
    run.check_moved(100, run.log().log_start_offset)
    assert run.log().log_start_offset >= start


@pytest.mark.parametrize("copied", [0, 15, 40, 100])
@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("power", [True, False])
def test_the_log_is_cut_while_it_moves(copied: int, steps: int, power: bool) -> None:
    run = MovingWorld()
    run.move()
    if copied:
        run.copy_until(copied)
    for _ in range(steps if copied < 100 else 0):  # a chunk may be on its way
        run.jobs.run_one()
    run.truncate_to({P0: 20})
    for _ in range(30):
        run.log().append_as_leader((batch(1, 100, key=b"x"),), 0)
    assert copied < 20 or run.future().log_end_offset <= 20
    before = bytes_of(run.log())
    run.flush()
    if power:
        run.restart(power=True)
    run.pass_time(100)
    run.check_moved(50)
    assert bytes_of(run.log()) == before


def test_a_cut_that_the_target_refuses_is_made_up_for() -> None:
    run = MovingWorld()
    run.move()
    run.copy_until(40)
    run.disk.fail_next("create", "/b/*checkpoint*", errno.ENOSPC)
    run.truncate_to({P0: 20})
    for _ in range(30):
        run.log().append_as_leader((batch(1, 100, key=b"x"),), 0)
    before = bytes_of(run.log())
    run.pass_time(100)  # a move does not end in the middle of a truncation
    run.check_moved(50)
    assert bytes_of(run.log()) == before


@pytest.mark.parametrize("offset", [10, 500])
def test_the_log_is_emptied_while_it_moves(offset: int) -> None:
    run = MovingWorld()
    run.move()
    run.copy_until(40)
    run.truncate_fully(P0, offset)
    for _ in range(5):
        run.log().append_as_leader((batch(1, 100, key=b"x"),), 0)
    before = bytes_of(run.log())
    run.pass_time(100)  # a move does not end in the middle of a truncation
    run.check_moved(offset + 5, offset)
    assert bytes_of(run.log()) == before


def test_a_log_that_ends_behind_its_last_record() -> None:
    run = MovingWorld(10)
    run.log().append_as_leader((batch(10),), 0)
    run.truncate_to({P0: 15})
    assert (run.log().log_end_offset, run.log().local.data_end) == (15, 10)
    run.move()
    run.run()
    run.check_settled()
    assert (run.log().dir, run.log().log_end_offset, offsets_in(run.log())) == ("/b/orders-0", 15, list(range(10)))
    run.append()
    assert offsets_in(run.log()) == [*range(10), 15]


# How many, how fast


def test_so_many_moves_at_a_time() -> None:
    run = MovingWorld(num_replica_alter_log_dirs_threads=1)
    run.create(P1, "/a")
    run.append(P1, 60)
    run.move(P0)
    run.move(P1)
    copying = set()
    while run.manager.moves:
        if not run.jobs.run_one():
            run.jobs.tick()
        copying.add(tuple(each for each, progress in run.manager.moves.items() if progress.is_copying))
    assert {(P0,), (P1,)} <= copying
    assert (P0, P1) not in copying
    run.check_moved(100)
    assert run.log(P1).dir == "/b/orders-1"
    assert len(run.moved) == 2


def test_as_many_as_there_are_directories_by_default() -> None:
    run = MovingWorld()
    run.create(P1, "/a")
    run.append(P1, 60)
    run.move(P0)
    run.move(P1)
    run.step_until(lambda: [progress.is_copying for progress in run.manager.moves.values()] == [True, True])
    run.run()
    assert len(run.moved) == 2


def test_the_settings_have_kafkas_names() -> None:
    config = BrokerConfig.of(
        {"num.replica.alter.log.dirs.threads": "3", "replica.alter.log.dirs.io.max.bytes.per.second": "0"}
    )
    assert config.num_replica_alter_log_dirs_threads == 3
    assert config.replica_alter_log_dirs_io_max_bytes_per_second == 0
    assert BrokerConfig().num_replica_alter_log_dirs_threads is None
    assert BrokerConfig().replica_alter_log_dirs_io_max_bytes_per_second == MAX_LONG
    assert MovingWorld(replica_alter_log_dirs_io_max_bytes_per_second=0).manager.move_throttle.bytes_per_second == 1


def test_not_faster_than_allowed() -> None:
    run = MovingWorld(replica_alter_log_dirs_io_max_bytes_per_second=1000)
    size = run.log().local.size
    run.move()
    run.run()
    assert run.moved == []
    seconds = size // 1000
    run.pass_time((seconds - 3) * 1000)
    assert run.moved == []
    assert run.progress().bytes_behind < size // 2
    run.pass_time(4000)
    run.check_moved(100)


def test_many_short_moves_that_wait_for_a_long_one() -> None:
    """One after the other, not one inside the other."""
    run = MovingWorld(count=300, num_replica_alter_log_dirs_threads=1)
    many = [TopicPartition("empty", n) for n in range(150)]
    for each in many:
        run.create(each, "/a")
    for each in (P0, *many):
        run.move(each)
    run.run()
    assert run.failed == []
    assert len(run.moved) == 151
    assert {log.dir.rpartition("/")[0] for log in run.moved} == {"/b"}


def test_many_moves_that_wait_when_their_target_fails() -> None:
    run = MovingWorld(num_replica_alter_log_dirs_threads=1)
    many = [TopicPartition("waiting", n) for n in range(200)]
    for each in many:
        run.create(each, "/a")
    for each in (P0, *many):
        run.move(each)
    run.disk.fail_next("write", "/b/orders-0*", times=None)
    run.run()
    assert len(run.failed) == 201
    assert dict(run.manager.moves) == {}
