"""Data directories that people, disks and clocks do odd things to: nothing is lost, and the message says where."""

from __future__ import annotations

import errno

import pytest

from support.logs.managers import LOG_CONFIG, P0, P1, ManagedWorld, offsets_in
from tailrace.model.errors import LogDirLockedError, LogDirUnavailableError, StorageError

HOUR_MS = 3_600_000


def with_logs() -> ManagedWorld:
    """P0 in /a, P1 in /b, of twenty flushed records each."""
    run = ManagedWorld()
    run.start()
    for partition, directory in ((P0, "/a"), (P1, "/b")):
        run.create(partition, directory)
        run.append(partition, 20)
        run.flush(partition)
    return run


@pytest.mark.spec("LM-07")
@pytest.mark.parametrize("name", ["lost+found", "nodash", "bad-delete", "orders-x"])
def test_an_unknown_folder_is_left_alone_and_warned_about(name: str, caplog: pytest.LogCaptureFixture) -> None:
    run = with_logs()
    run.shutdown()
    run.disk.make_dir(f"/a/{name}")
    run.write(f"/a/{name}/00000000000000000000.log", b"somebody's")
    run.new()
    run.start()
    run.pass_time(10 * HOUR_MS)
    assert run.read(f"/a/{name}/00000000000000000000.log") == b"somebody's"
    assert name in caplog.text
    assert "left alone" in caplog.text
    assert offsets_in(run.log(P0)) == list(range(20))


@pytest.mark.spec("LM-07")
def test_unknown_files_are_left_alone_and_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    run = with_logs()
    run.shutdown()
    run.write("/a/notes.txt", b"mine")
    run.write("/a/orders-7", b"a file with the name of a partition")
    run.new()
    run.start()
    run.shutdown()
    assert run.read("/a/notes.txt") == b"mine"
    assert run.read("/a/orders-7") == b"a file with the name of a partition"
    warned = [record.getMessage() for record in caplog.records if "left alone" in record.getMessage()]
    assert len(warned) == 2
    assert all("/a" in message for message in warned)
    assert "notes.txt" in warned[0]


@pytest.mark.spec("LM-27", "LM-48")
def test_a_directory_that_turns_read_only_goes_offline_and_comes_back_whole(caplog: pytest.LogCaptureFixture) -> None:
    run = with_logs()
    for op in ("write", "create", "rename", "unlink", "truncate"):
        run.disk.fail_next(op, "/a/*", errno.EROFS, times=None)  # type: ignore[arg-type]
    with pytest.raises(StorageError) as refused:
        run.append(P0)
    assert refused.value.code == 56
    assert "/a/orders-0" in str(refused.value)
    assert "for writing" in refused.value.hint
    run.run()
    assert "/a is offline, and with it orders-0" in caplog.text
    run.append(P1)
    run.disk.faults.heal()
    run.restart()
    assert offsets_in(run.log(P0)) == list(range(20))
    assert offsets_in(run.log(P1)) == list(range(21))


@pytest.mark.spec("LM-27", "LM-48")
def test_a_directory_that_vanishes_takes_itself_offline_and_is_not_made_anew() -> None:
    """By an `rm -r` or an unmount: every call by name finds nothing."""
    run = with_logs()
    for op in ("create", "open", "rename", "unlink", "list", "make_dir", "sync_dir"):
        run.disk.fail_next(op, lambda path: path.startswith("/a"), errno.ENOENT, times=None)  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="/a/orders-0"):
        run.log(P0).roll()
    run.run()
    assert [directory.path for directory in run.manager.directories.live] == ["/b"]
    assert run.manager.partitions() == [P1]
    with pytest.raises(LogDirUnavailableError):
        run.create(P0)
    run.tape.rewind()
    run.pass_time(10 * HOUR_MS)
    run.shutdown()
    assert not [path for op, path in run.tape.calls if path.startswith("/a") and op != "stat"]
    run.disk.faults.heal()
    run.new()
    run.start()
    assert offsets_in(run.log(P0)) == list(range(20))


def test_a_locked_directory_is_named_with_what_to_do() -> None:
    run = with_logs()
    run.new()
    with pytest.raises(LogDirLockedError, match=r"/a is used by another process.*\.lock") as refused:
        run.start()
    assert "stop the other process" in refused.value.hint


@pytest.mark.spec("LM-03")
def test_a_damaged_meta_file_is_named_and_the_data_stays(caplog: pytest.LogCaptureFixture) -> None:
    run = with_logs()
    run.shutdown()
    meta = run.read("/a/meta.properties")
    run.write("/a/meta.properties", b"version=1\n")
    run.new()
    run.start()
    assert "/a/meta.properties lacks cluster.id or node.id" in caplog.text
    assert run.manager.partitions() == [P1]
    run.shutdown()
    run.write("/a/meta.properties", meta)
    run.new()
    run.start()
    assert offsets_in(run.log(P0)) == list(range(20))


@pytest.mark.spec("LM-03")
def test_a_missing_meta_file_is_made_anew_with_another_id() -> None:
    run = with_logs()
    before = run.manager.directories.at("/a").id
    run.shutdown()
    run.disk.unlink("/a/meta.properties")
    run.new()
    run.start()
    assert run.manager.directories.at("/a").id not in (None, before)
    assert offsets_in(run.log(P0)) == list(range(20))


@pytest.mark.spec("LM-05")
@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_missing_checkpoint_costs_no_record(name: str, is_killed: bool) -> None:
    run = with_logs()
    run.manager.checkpoint_recovery_points()
    run.manager.checkpoint_log_starts()
    run.run()
    if is_killed:
        run.world.kill()
    else:
        run.shutdown()
    run.disk.unlink(f"/a/{name}")
    run.new()
    run.start()
    assert offsets_in(run.log(P0)) == list(range(20))


@pytest.mark.spec("LM-05")
def test_a_damaged_checkpoint_is_named(caplog: pytest.LogCaptureFixture) -> None:
    run = with_logs()
    run.shutdown()
    run.write("/a/recovery-point-offset-checkpoint", b"0\n1\norders\n")
    run.new()
    run.start()
    assert "/a/recovery-point-offset-checkpoint has the line 'orders'" in caplog.text
    assert "counts as empty" in caplog.text


# Clocks


@pytest.mark.spec("LM-09")
def test_a_clock_that_jumps_back_deletes_nothing_before_its_time() -> None:
    run = ManagedWorld(("/a",), topic_defaults=LOG_CONFIG.__class__(segment_bytes=3000, retention_ms=HOUR_MS))
    run.start()
    run.create(P0)
    now_ms = run.world.clock.now_ms()
    run.append(P0, 60, timestamp=now_ms)
    run.log(P0).update_high_watermark(60)
    run.world.clock.set(now_ms - 100 * HOUR_MS)
    assert run.manager.delete_old_segments() == 0
    run.world.clock.set(now_ms + HOUR_MS)
    assert run.manager.delete_old_segments() == 0
    run.world.clock.set(now_ms + HOUR_MS + 1)
    assert run.manager.delete_old_segments() > 0


@pytest.mark.spec("LM-12")
@pytest.mark.parametrize("jump_ms", [-1000 * HOUR_MS, 1000 * HOUR_MS])
def test_a_deleted_partition_waits_its_delay_whatever_the_clock_does(jump_ms: int) -> None:
    run = with_logs()
    run.delete(P0)
    (path,) = run.manager.waiting_for_removal
    run.world.clock.set(run.world.clock.now_ms() + jump_ms)
    run.pass_time(59_999)
    assert run.disk.exists(path)
    run.pass_time(40_000)
    assert not run.disk.exists(path)
