"""Calls that fail, short writes, a full disk, damage."""

from __future__ import annotations

import errno
from typing import get_args

import pytest

from tailrace.env import Mode, write_fully
from tailrace.model.invariant import InvariantError
from tailrace.sim import Faults, Op, SimDisk, Survival

PAGE = 4096


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(1)


def fails_with(code: int, call: object) -> None:
    assert callable(call)
    with pytest.raises(OSError) as caught:
        call()
    assert caught.value.errno == code


def test_the_next_call_fails_once(disk: SimDisk) -> None:
    disk.fail_next()
    fails_with(errno.EIO, lambda: disk.make_dir("/d"))
    disk.make_dir("/d")


def test_failures_choose_operation_path_and_errno(disk: SimDisk) -> None:
    disk.fail_next("write", "*.log", errno.EACCES)
    index, log = disk.open("/a.index", Mode.CREATE), disk.open("/a.log", Mode.CREATE)
    index.write_at([b"x"], 0)
    log.sync()
    fails_with(errno.EACCES, lambda: log.write_at([b"x"], 0))
    assert log.size() == 0
    log.write_at([b"x"], 0)


def test_failures_by_function_after_some_and_for_ever(disk: SimDisk) -> None:
    disk.fail_next("unlink", lambda path: path.endswith("b"), errno.EROFS, skip=1, times=None)
    for name in ("a1", "b", "a2", "cb"):
        disk.open(f"/{name}", Mode.CREATE)
    disk.unlink("/a1")
    disk.unlink("/b")
    disk.unlink("/a2")
    for _ in range(3):
        fails_with(errno.EROFS, lambda: disk.unlink("/cb"))
    disk.faults.heal()
    disk.unlink("/cb")


def test_a_rename_fails_by_its_target_too(disk: SimDisk) -> None:
    disk.open("/a.swap", Mode.CREATE)
    disk.fail_next("rename", "/a.log")
    fails_with(errno.EIO, lambda: disk.rename("/a.swap", "/a.log"))
    assert disk.exists("/a.swap")
    disk.fail_next("rename", "*.swap")
    fails_with(errno.EIO, lambda: disk.rename("/a.swap", "/a.log"))


@pytest.mark.parametrize(
    "op",
    get_args(Op),
)
def test_every_operation_can_fail(disk: SimDisk, op: Op) -> None:
    disk.make_dir("/d")
    file = disk.open("/f", Mode.CREATE)
    file.write_at([b"x"], 0)
    calls = {
        "open": lambda: disk.open("/f", Mode.READ),
        "create": lambda: disk.open("/new", Mode.CREATE),
        "read": lambda: file.read_at(1, 0),
        "write": lambda: file.write_at([b"y"], 0),
        "truncate": lambda: disk.open("/f", Mode.REPLACE),
        "sync": file.sync,
        "map": file.map,
        "stat": lambda: disk.size("/f"),
        "set_time": lambda: disk.set_modified_ms("/f", 5),
        "list": lambda: disk.list("/"),
        "make_dir": lambda: disk.make_dir("/d2"),
        "rename": lambda: disk.rename("/f", "/g"),
        "unlink": lambda: disk.unlink("/f"),
        "remove_dir": lambda: disk.remove_dir("/d"),
        "sync_dir": lambda: disk.sync_dir("/"),
    }
    disk.fail_next(op)
    before = disk.clone()
    fails_with(errno.EIO, calls[op])
    assert disk.list("/") == before.clone().list("/") if op != "list" else True
    assert file.read_at(9, 0) == b"x"


def test_read_only(disk: SimDisk) -> None:
    file = disk.open("/f", Mode.CREATE)
    file.write_at([b"abc"], 0)
    disk.faults.read_only = True
    for call in (
        lambda: disk.open("/new", Mode.CREATE),
        lambda: disk.open("/f", Mode.WRITE),
        lambda: disk.open("/f", Mode.REPLACE),
        lambda: disk.make_dir("/d"),
        lambda: disk.rename("/f", "/g"),
        lambda: disk.unlink("/f"),
        lambda: file.write_at([b"x"], 0),
        lambda: file.truncate(0),
    ):
        fails_with(errno.EROFS, call)
    assert disk.open("/f", Mode.READ).read_at(9, 0) == b"abc"


def test_short_writes() -> None:
    disk = SimDisk(1, faults=Faults(short_write_probability=0.5))
    file = disk.open("/f", Mode.CREATE)
    counts = set()
    for _ in range(200):
        count = file.write_at([b"ab", b"cd"], 0)
        counts.add(count)
        assert file.read_at(count, 0) == b"abcd"[:count]
    assert counts == {1, 2, 3, 4}
    data = [bytes([n]) * 100 for n in range(50)]
    write_fully(file, data, 7)
    assert file.read_at(1 << 20, 7) == b"".join(data)


def test_a_full_disk_writes_what_fits_then_refuses() -> None:
    disk = SimDisk(1, faults=Faults(capacity_bytes=3 * PAGE))
    file = disk.open("/f", Mode.CREATE)
    file.truncate(1 << 30)
    assert disk.allocated_bytes() == 0
    assert file.write_at([b"x" * 5 * PAGE], 100) == 3 * PAGE - 100
    fails_with(errno.ENOSPC, lambda: file.write_at([b"x"], 3 * PAGE))
    assert file.write_at([b"y" * PAGE], 50) == PAGE
    assert file.write_at([], 3 * PAGE) == 0
    fails_with(errno.ENOSPC, lambda: write_fully(file, [b"z" * 10], 3 * PAGE - 5))
    assert file.read_at(10, 3 * PAGE - 5) == b"z" * 5 + bytes(5)
    disk.open("/g", Mode.CREATE)
    disk.unlink("/f")
    assert disk.open("/g", Mode.WRITE).write_at([b"x" * 5 * PAGE], 0) == 3 * PAGE


def test_a_truncate_frees_space() -> None:
    disk = SimDisk(1, faults=Faults(capacity_bytes=2 * PAGE))
    file = disk.open("/f", Mode.CREATE)
    file.write_at([b"x" * 2 * PAGE], 0)
    file.truncate(PAGE)
    assert file.write_at([b"x" * 2 * PAGE], PAGE) == PAGE


def test_flip_bit_damages_cache_and_medium(disk: SimDisk) -> None:
    file = disk.open("/f", Mode.CREATE)
    file.write_at([b"\0" * PAGE + b"abc"], 0)
    disk.sync_all()
    disk.flip_bit("/f", PAGE * 8 + 1)
    assert file.read_at(9, PAGE) == b"cbc"
    disk.restart()
    assert disk.open("/f", Mode.READ).read_at(9, PAGE) == b"cbc"
    disk.flip_bit("/f", PAGE * 8 + 1)
    assert disk.open("/f", Mode.READ).read_at(9, PAGE) == b"abc"
    with pytest.raises(InvariantError):
        disk.flip_bit("/f", (PAGE + 3) * 8)


def test_a_failed_sync_leaves_the_data_to_the_next_one(disk: SimDisk) -> None:
    file = disk.open("/f", Mode.CREATE)
    disk.sync_dir("/")
    file.write_at([b"abc"], 0)
    disk.fail_next("sync")
    fails_with(errno.EIO, file.sync)
    file.sync()
    disk.restart(Survival.NOTHING)
    assert disk.open("/f", Mode.READ).read_at(9, 0) == b"abc"


def failed_sync_then(seed: int, *, write_again: bool) -> bytes:
    disk = SimDisk(seed, faults=Faults(failed_sync_drops=True, garbage_probability=0.0))
    file = disk.open("/f", Mode.CREATE)
    disk.sync_dir("/")
    file.write_at([b"a" * 2 * PAGE], 0)
    disk.fail_next("sync")
    fails_with(errno.EIO, file.sync)
    assert file.read_at(1 << 20, 0) == b"a" * 2 * PAGE
    if write_again:
        file.write_at([b"b"], 2 * PAGE - 1)
    file.sync()
    disk.restart(Survival.NOTHING)
    return disk.open("/f", Mode.READ).read_at(1 << 20, 0)


def test_a_failed_sync_can_drop_the_data_for_good() -> None:
    outcomes = {failed_sync_then(seed, write_again=False) for seed in range(200)}
    assert b"" in outcomes
    assert b"a" * 2 * PAGE in outcomes
    assert len(outcomes) > 4


def test_a_page_written_again_after_a_dropping_sync_is_saved_whole() -> None:
    outcomes = {failed_sync_then(seed, write_again=True) for seed in range(200)}
    assert {outcome[PAGE:] for outcome in outcomes if len(outcome) == 2 * PAGE} == {b"a" * (PAGE - 1) + b"b"}
    assert bytes(PAGE) in {outcome[:PAGE] for outcome in outcomes}


def test_such_a_page_is_never_a_mixture_that_was_not_in_memory() -> None:
    """Within a sector there are the dropped bytes and the new ones, or neither."""
    seen = set()
    for seed in range(400):
        disk = SimDisk(seed, faults=Faults(failed_sync_drops=True, garbage_probability=0.0))
        file = disk.open("/f", Mode.CREATE)
        file.truncate(PAGE)
        disk.sync_all()
        file.write_at([b"aa"], 0)
        disk.fail_next("sync")
        fails_with(errno.EIO, file.sync)
        file.write_at([b"b"], 0)
        file.write_at([b"c"], 0)
        disk.restart()
        seen.add(disk.open("/f", Mode.READ).read_at(2, 0))
    assert seen == {b"\0\0", b"aa", b"ba", b"ca"}
