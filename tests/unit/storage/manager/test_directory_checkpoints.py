"""The four checkpoint files of a directory, and writers that come too late."""

from __future__ import annotations

import pytest

from support.logs.managers import P0, P1, ManagedWorld, offsets_in
from tailrace.model.errors import CorruptCheckpointError
from tailrace.sim import World
from tailrace.storage.manager.directory_checkpoints import DirectoryCheckpoints


@pytest.fixture
def world() -> World:
    return World(directories=("/a",))


@pytest.mark.spec("LM-05")
def test_four_files_under_kafkas_names(world: World) -> None:
    checkpoints = DirectoryCheckpoints(world.disk, "/a")
    for number, each in enumerate(
        (checkpoints.recovery_point, checkpoints.log_start, checkpoints.replication, checkpoints.cleaner)
    ):
        each.write({P0: number})
    world.restart()
    assert [entry.name for entry in world.disk.list("/a")] == [
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]
    assert DirectoryCheckpoints(world.disk, "/a").cleaner.read() == {P0: 3}


@pytest.mark.spec("LM-05")
def test_an_older_write_never_overwrites_a_newer(world: World) -> None:
    checkpoint = DirectoryCheckpoints(world.disk, "/a").recovery_point
    early, late = checkpoint.prepare({P0: 1}), checkpoint.prepare({P0: 2})
    late()
    early()
    assert checkpoint.read() == {P0: 2}


def test_an_older_write_fails_if_the_newer_one_has_failed(world: World) -> None:
    """A segment is deleted, or a log truncated, as soon as its checkpoint is durable."""
    checkpoint = DirectoryCheckpoints(world.disk, "/a").recovery_point
    checkpoint.write({P0: 0})
    early, late = checkpoint.prepare({P0: 1}), checkpoint.prepare({P0: 2})
    world.disk.fail_next("rename")
    with pytest.raises(OSError, match="Input/output"):
        late()
    with pytest.raises(OSError, match="a later write of /a/recovery-point-offset-checkpoint failed"):
        early()
    assert checkpoint.read() == {P0: 0}
    checkpoint.write({P0: 0})  # what it held may be gone: it is written again
    assert checkpoint.read() == {P0: 0}
    early()


def test_what_is_there_already_is_not_written_again(world: World) -> None:
    checkpoint = DirectoryCheckpoints(world.disk, "/a").recovery_point
    checkpoint.write({P0: 1})
    ops = world.disk.ops
    checkpoint.write({P0: 1})
    assert world.disk.ops == ops


def test_what_the_file_may_mention(world: World) -> None:
    DirectoryCheckpoints(world.disk, "/a").recovery_point.write({P0: 1})
    checkpoint = DirectoryCheckpoints(world.disk, "/a").recovery_point
    assert not checkpoint.may_mention(P0)
    checkpoint.read()
    assert checkpoint.may_mention(P0)
    assert not checkpoint.may_mention(P1)
    checkpoint.prepare({P1: 1})
    assert checkpoint.may_mention(P1)


@pytest.mark.spec("LM-05")
@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
@pytest.mark.parametrize("content", [b"", b"nonsense", b"0\n9\n", b"1\n0\n", b"0\n1\norders 0 -5\n", b"\xff"])
def test_a_damaged_file_counts_as_empty(name: str, content: bytes) -> None:
    run = ManagedWorld(("/a",))
    run.start()
    run.create(P0)
    run.append(count=30)
    run.log().update_high_watermark(30)
    run.manager.increment_log_start(P0, 10, lambda: None, pytest.fail)
    run.run()
    run.flush()
    run.world.kill()
    run.write(f"/a/{name}", content)
    run.new()
    run.start()
    is_reset = name.startswith("log-start")
    assert offsets_in(run.log()) == list(range(0 if is_reset else 10, 30))
    if not is_reset:
        assert run.log().recovery_point == 0


def test_other_files_are_refused_when_damaged(world: World) -> None:
    checkpoint = DirectoryCheckpoints(world.disk, "/a").replication
    checkpoint.write({P0: 1})
    world.disk.flip_bit("/a/replication-offset-checkpoint", 0)
    with pytest.raises(CorruptCheckpointError):
        checkpoint.read()
