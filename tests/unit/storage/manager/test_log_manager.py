"""The manager's daily life: start, make, find, reconfigure, truncate, delete, shut down, over two directories."""

from __future__ import annotations

import pytest

from support.logs.managers import LOG_CONFIG, P0, P1, TOPIC_ID, ManagedWorld, offsets_in
from tailrace.model.errors import InconsistentTopicIdError, LogDirUnavailableError, TailraceError
from tailrace.model.ids import TopicId, TopicPartition


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("t", n) for n in range(count)]


@pytest.fixture
def run() -> ManagedWorld:
    world = ManagedWorld()
    world.start()
    return world


def test_a_first_start_makes_the_directories(run: ManagedWorld) -> None:
    assert run.has_started
    assert run.names("/a") == [".lock", "meta.properties"]
    assert run.manager.partitions() == []


@pytest.mark.spec("LM-02")
def test_new_partitions_go_where_the_fewest_are() -> None:
    run = ManagedWorld(("/a", "/b", "/c"))
    run.start()
    run.create(P0, "/b")
    run.create(P1, "/b")
    for partition in partitions(4):
        run.create(partition)
    counts = [len(run.manager.logs_in(directory)) for directory in run.manager.directories]
    assert counts == [2, 2, 2]
    assert run.names("/a")[1:3] == ["meta.properties", "t-0"]


@pytest.mark.spec("LM-02")
def test_partitions_being_made_count_too(run: ManagedWorld) -> None:
    made: list[object] = []
    for partition in partitions(4):
        run.manager.create(partition, TOPIC_ID, made.append, made.append)
    run.run()
    assert [len(run.manager.logs_in(directory)) for directory in run.manager.directories] == [2, 2]
    assert len(made) == 4


@pytest.mark.spec("LM-02")
def test_a_cordoned_directory_gets_no_new_partitions() -> None:
    run = ManagedWorld(cordoned_log_dirs=("/a",))
    run.start()
    for partition in partitions(3):
        run.create(partition)
    assert not run.manager.logs_in(run.manager.directories.at("/a"))
    run.create(P0, "/a")  # asked for by name, it is served
    assert run.log(P0).dir == "/a/orders-0"


@pytest.mark.spec("LM-02")
def test_nowhere_to_go_when_all_are_cordoned() -> None:
    run = ManagedWorld(cordoned_log_dirs=("*",))
    run.start()
    with pytest.raises(LogDirUnavailableError, match="cordoned"):
        run.create(P0)


def test_asking_twice_gives_one_log(run: ManagedWorld) -> None:
    made: list[object] = []
    run.manager.create(P0, TOPIC_ID, made.append, made.append)
    run.manager.create(P0, TOPIC_ID, made.append, made.append)
    run.run()
    assert made == [run.log(P0), run.log(P0)]
    assert run.create(P0) is made[0]


def test_another_topic_of_the_same_name_is_refused(run: ManagedWorld) -> None:
    run.create(P0)
    with pytest.raises(InconsistentTopicIdError):
        run.create(P0, topic_id=TopicId(bytes(16 * [7])))


def test_the_topic_id_is_on_disk_when_a_log_is_made(run: ManagedWorld) -> None:
    log = run.create(P0)
    assert b"topic_id: " + str(TOPIC_ID).encode() in run.read(f"{log.dir}/partition.metadata")


def test_a_log_lives_through_kill_and_shutdown(run: ManagedWorld) -> None:
    run.create(P0)
    run.append(count=40)
    run.restart()
    assert offsets_in(run.log()) == list(range(40))
    run.shutdown()
    run.restart()
    assert offsets_in(run.log()) == list(range(40))
    run.append(count=2)
    assert run.log().log_end_offset == 42


@pytest.mark.spec("LM-30")
def test_settings_reach_open_logs(run: ManagedWorld) -> None:
    run.create(P0)
    run.create(TopicPartition("other", 0))
    small = LOG_CONFIG.__class__(segment_bytes=500, segment_index_bytes=96)
    run.manager.update_config("orders", small)
    run.append(count=10)
    assert len(run.log().local.segments) > 2
    assert run.log(TopicPartition("other", 0)).config == LOG_CONFIG
    run.manager.update_config("orders", None)
    assert run.log().config == LOG_CONFIG
    run.manager.update_default_config(small)
    assert {log.config for log in map(run.log, (P0, TopicPartition("other", 0)))} == {small}


@pytest.mark.spec("LM-07", "LM-30")
def test_settings_that_change_while_a_log_is_loaded(run: ManagedWorld) -> None:
    run.create(P0)
    run.append(count=10)
    run.world.kill()
    run.new()
    run.start(run=False)
    assert run.jobs.run_one()  # the load itself, with the old settings; its completion has not run
    small = LOG_CONFIG.__class__(segment_bytes=777)
    run.manager.update_config("orders", small)
    run.run()
    assert run.log().config == small


@pytest.mark.spec("LM-07", "LM-30")
def test_settings_that_change_while_a_log_is_made(run: ManagedWorld) -> None:
    run.manager.create(P0, TOPIC_ID, lambda log: None, pytest.fail)
    run.jobs.run_one()
    small = LOG_CONFIG.__class__(segment_bytes=777)
    run.manager.update_config("orders", small)
    run.run()
    assert run.log().config == small


def test_truncation_notes_the_recovery_point_first(run: ManagedWorld) -> None:
    run.create(P0)
    run.append(count=40)
    run.flush()
    run.manager.checkpoint_recovery_points()
    run.run()
    run.tape.rewind()
    run.truncate_to({P0: 11, P1: 5})  # one that is not here is passed over
    assert run.read("/a/recovery-point-offset-checkpoint") == b"0\n1\norders 0 11\n"
    writes = run.tape.of("rename", "truncate")
    assert writes[0].endswith("recovery-point-offset-checkpoint.tmp")
    run.append(count=3)
    run.world.restart()
    run.new()
    run.start()
    assert run.log().log_end_offset >= 11
    assert offsets_in(run.log())[:11] == list(range(11))


def test_a_log_that_starts_anew(run: ManagedWorld) -> None:
    run.create(P0)
    run.append(count=40)
    run.flush()
    run.truncate_fully(P0, 1000)
    run.append(count=2)
    run.restart()
    assert (run.log().log_start_offset, run.log().log_end_offset) == (1000, 1002)
    run.truncate_fully(P0, 500)
    run.append(count=2)
    run.flush()
    run.restart(power=True)
    assert (run.log().log_start_offset, run.log().log_end_offset) == (500, 502)
    run.truncate_fully(P1, 5)  # not here


def test_a_truncation_below_the_log_start_is_not_undone_by_a_restart(run: ManagedWorld) -> None:
    run.create(P0)
    run.append(count=40)
    run.log().update_high_watermark(40)
    run.manager.increment_log_start(P0, 30, lambda: None, pytest.fail)
    run.run()
    run.truncate_to({P0: 20})
    run.append(count=1)
    run.flush()
    run.restart(power=True)
    assert (run.log().log_start_offset, run.log().log_end_offset) == (20, 21)


@pytest.mark.spec("LM-36")
def test_a_raised_log_start_is_acknowledged_when_durable(run: ManagedWorld) -> None:
    run.create(P0)
    run.append(count=40)
    run.flush()
    run.log().update_high_watermark(40)
    done: list[bool] = []
    run.manager.increment_log_start(P0, 25, lambda: done.append(True), pytest.fail)
    assert not done
    run.run()
    assert done
    run.restart(power=True)
    assert run.log().log_start_offset == 25
    with pytest.raises(TailraceError):
        run.log().read(24, 100)


def test_unknown_partitions(run: ManagedWorld) -> None:
    assert run.manager.log(P0) is None
    assert run.manager.directory_of(P0) is None
    assert run.delete(P0) == {}
    with pytest.raises(LogDirUnavailableError):
        run.manager.increment_log_start(P0, 1, lambda: None, pytest.fail)


def test_closed_logs_cannot_be_made(run: ManagedWorld) -> None:
    run.create(P0)
    run.shutdown()
    with pytest.raises(LogDirUnavailableError, match="closed"):
        run.create(P1)
    assert run.manager.partitions() == []


def test_a_shutdown_waits_for_a_creation(run: ManagedWorld) -> None:
    outcomes: list[object] = []
    run.manager.create(P0, TOPIC_ID, outcomes.append, outcomes.append)
    run.shutdown()
    assert len(outcomes) == 1
    run.restart()
    assert run.manager.partitions() == [P0]
    assert run.manager.directories.at("/a").was_clean


def test_shutdown_without_start() -> None:
    run = ManagedWorld()
    run.shutdown()
    assert run.names("/") == []
