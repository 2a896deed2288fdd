"""Shutdown: everything closed, checkpoints, then the marker, and only where it is true."""

from __future__ import annotations

import random

import pytest

from support.logs.managers import P0, P1, ManagedWorld, offsets_in
from tailrace.model.ids import TopicPartition
from tailrace.sim import World
from tailrace.storage.manager.clean_shutdown import CleanShutdownMarker

MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def run() -> ManagedWorld:
    world = ManagedWorld()
    world.start()
    world.create(P0, "/a")
    world.create(P1, "/b")
    world.append(P0, 30)
    world.append(P1, 30)
    return world


@pytest.mark.spec("LM-37")
def test_logs_then_checkpoints_then_the_marker(run: ManagedWorld) -> None:
    run.tape.rewind()
    run.shutdown(epoch=105)
    calls = [(op, path) for op, path in run.tape.calls if path.startswith("/a") and op in ("sync", "rename")]
    log_syncs = [at for at, (op, path) in enumerate(calls) if op == "sync" and path.endswith(".log")]
    checkpoints = [at for at, (op, path) in enumerate(calls) if op == "rename" and "checkpoint.tmp" in path]
    marker = calls.index(("rename", f"/a/{MARKER}.tmp"))
    assert max(log_syncs) < min(checkpoints) <= max(checkpoints) < marker == len(calls) - 1
    assert run.read(f"/a/{MARKER}") == b'{"version":0,"brokerEpoch":105}'
    assert run.read("/a/recovery-point-offset-checkpoint") == b"0\n1\norders 0 30\n"


@pytest.mark.spec("LM-37")
def test_so_many_workers_for_each_directory() -> None:
    run = ManagedWorld(num_recovery_threads_per_data_dir=3)
    run.start()
    for n in range(10):
        run.create(TopicPartition("t", n))
    run.manager.shutdown(lambda: None)
    assert sorted(run.jobs.pending) == [f"log-closing-{path}-{n}" for path in ("/a", "/b") for n in range(3)]


@pytest.mark.spec("LM-37", "LM-38")
def test_after_it_nothing_needs_recovery(run: ManagedWorld) -> None:
    run.shutdown()
    run.world.restart()
    run.new()
    run.tape.rewind()
    run.start()
    assert run.manager.previous_broker_epoch == 7
    assert all(directory.was_clean for directory in run.manager.directories)
    assert offsets_in(run.log(P0)) == offsets_in(run.log(P1)) == list(range(30))
    assert run.log(P0).recovery_point == 30


@pytest.mark.spec("LM-38")
def test_the_marker_is_durably_gone_before_the_first_log_is_read(run: ManagedWorld) -> None:
    run.shutdown()
    run.new()
    run.tape.rewind()
    run.start()
    calls = run.tape.calls
    unlinked = calls.index(("unlink", f"/a/{MARKER}"))
    synced = calls.index(("sync_dir", "/a"), unlinked)
    assert synced < min(at for at, (_, path) in enumerate(calls) if path.startswith("/a/orders-0/"))


@pytest.mark.spec("LM-38")
def test_a_crash_while_loading_counts_as_unclean(run: ManagedWorld) -> None:
    run.shutdown()
    run.new()
    run.start(run=False)
    run.jobs.run_one()
    run.restart(power=True)
    assert not any(directory.was_clean for directory in run.manager.directories)
    assert run.manager.previous_broker_epoch is None


@pytest.mark.spec("LM-38")
def test_no_marker_where_a_log_could_not_be_closed(run: ManagedWorld) -> None:
    run.disk.fail_next("sync", "/a/orders-0/*.log")
    run.shutdown()
    assert MARKER not in run.names("/a")
    assert MARKER in run.names("/b")
    run.new()
    run.start()
    assert offsets_in(run.log(P0)) == list(range(30))


@pytest.mark.spec("LM-38")
def test_no_marker_where_a_checkpoint_could_not_be_written(run: ManagedWorld) -> None:
    run.disk.fail_next("sync", "/a/log-start*")
    run.shutdown()
    assert MARKER not in run.names("/a")
    assert MARKER in run.names("/b")


@pytest.mark.parametrize("pattern", ["/a/orders-0/*.log", "/a/log-start*", f"/a/{MARKER}*"])
def test_a_shutdown_ends_even_where_the_only_disk_fails(pattern: str) -> None:
    run = ManagedWorld(("/a",))
    run.start()
    run.create(P0)
    run.append(count=3)
    run.disk.fail_next("sync", pattern)
    run.shutdown()
    assert MARKER not in run.names("/a")
    run.new()
    run.start()  # unlocked
    assert offsets_in(run.log()) == [0, 1, 2]


@pytest.mark.spec("LM-38")
def test_a_start_that_was_cut_short(run: ManagedWorld) -> None:
    """The marker only where it was before, or where every log was recovered; checkpoints keep what was not loaded."""
    for n in range(4):
        run.create(TopicPartition("t", n), "/a")
        run.append(TopicPartition("t", n), 5)
        run.flush(TopicPartition("t", n))
    run.log(TopicPartition("t", 3)).update_high_watermark(5)
    run.manager.increment_log_start(TopicPartition("t", 3), 2, lambda: None, pytest.fail)
    run.manager.checkpoint_recovery_points()
    run.run()
    run.world.kill()  # unclean: both directories lack the marker
    run.new()
    run.start(run=False)
    run.jobs.run_one()  # one log of /a is loaded, the others wait
    run.shutdown()
    assert not run.has_started
    assert MARKER not in run.names("/a")
    assert MARKER in run.names("/b")  # its only log was on its way
    assert b"t 3 5" in run.read("/a/recovery-point-offset-checkpoint")
    assert b"t 3 2" in run.read("/a/log-start-offset-checkpoint")
    run.new()
    run.start()
    assert offsets_in(run.log(TopicPartition("t", 3))) == [2, 3, 4]
    run.shutdown()
    assert MARKER in run.names("/a")
    run.new()  # clean: a start cut short leaves it so
    run.start(run=False)
    run.shutdown()
    assert MARKER in run.names("/a")
    run.new()
    run.start()
    assert run.manager.directories.at("/a").was_clean
    assert len(run.manager.partitions()) == 6


def test_in_any_order(run: ManagedWorld) -> None:
    for seed in range(6):
        world = ManagedWorld(seed=seed)
        world.order = random.Random(seed)
        world.start()
        for n in range(6):
            world.create(TopicPartition("t", n))
            world.append(TopicPartition("t", n), 20)
        world.shutdown()
        world.restart(power=True)
        assert all(directory.was_clean for directory in world.manager.directories)
        assert {world.log(TopicPartition("t", n)).log_end_offset for n in range(6)} == {20}


@pytest.mark.spec("LM-38")
@pytest.mark.parametrize(
    ("content", "epoch"),
    [
        (b'{"version":0,"brokerEpoch":105}', 105),
        (b'{"brokerEpoch":-1,"more":[]}', -1),
        (b"", None),
        (b"null", None),
        (b"[1]", None),
        (b'{"brokerEpoch":"5"}', None),
        (b'{"brokerEpoch":true}', None),
        (b"\xff", None),
        (b"[" * 4000, None),
        (b" " * 5000, None),
    ],
)
def test_what_a_marker_says(content: bytes, epoch: int | None) -> None:
    world = World(directories=("/a",))
    run = ManagedWorld()
    run.disk = world.disk
    run.write(f"/a/{MARKER}", content)
    marker = CleanShutdownMarker(world.disk, "/a")
    assert marker.broker_epoch() == epoch
    assert marker.take() is True
    assert marker.take() is False
    assert marker.broker_epoch() is None


def test_the_epoch_is_known_only_if_all_agree(run: ManagedWorld) -> None:
    run.shutdown(epoch=3)
    run.write(f"/b/{MARKER}", b'{"version":0,"brokerEpoch":4}')
    run.new()
    run.start()
    assert run.manager.previous_broker_epoch is None
