"""The live view, killed processes, dead handles, mappings, cloning."""

from __future__ import annotations

import errno
import os
import random
import time

import pytest

from tailrace.env import Entry, Files, Mode, write_fully
from tailrace.env.files import MAX_PARTS
from tailrace.model.invariant import InvariantError
from tailrace.sim import CrashPoint, MappedFault, SimClock, SimDisk, SimulatedCrash, Survival, World, sim_env

PAGE = 4096


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(1)


def code_of(error: pytest.ExceptionInfo[OSError]) -> int | None:
    return error.value.errno


def test_fulfils_the_protocol_and_reads_back(disk: SimDisk) -> None:
    files: Files = disk
    file = files.open("/f", Mode.CREATE)
    assert file.write_at([b"ab", bytearray(b"cd"), memoryview(b"ef")], PAGE - 3) == 6
    assert file.size() == PAGE + 3
    assert file.read_at(100, PAGE - 4) == b"\0abcdef"
    buffer = bytearray(8)
    assert file.read_into(memoryview(buffer), PAGE) == 3
    assert buffer == b"def\0\0\0\0\0"
    assert file.path == "/f"


def test_its_descriptors_are_no_real_ones(disk: SimDisk) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(disk.open("/f", Mode.CREATE).fileno())


def test_huge_sparse_files_cost_nothing(disk: SimDisk) -> None:
    file = disk.open("/index", Mode.CREATE)
    file.truncate(1 << 40)
    file.write_at([b"x"], (1 << 40) - 1)
    assert disk.allocated_bytes() == PAGE
    assert file.read_at(5, (1 << 40) - 3) == b"\0\0x"
    file.truncate(10)
    assert disk.allocated_bytes() == 0


def test_wrong_arguments(disk: SimDisk) -> None:
    file = disk.open("/f", Mode.CREATE)
    for call in (
        lambda: file.write_at([b"x"], -1),
        lambda: file.write_at([b"x"] * (MAX_PARTS + 1), 0),
        lambda: file.read_at(1, -1),
        lambda: file.truncate(-1),
        lambda: file.map(),
    ):
        with pytest.raises(OSError) as caught:
            call()
        assert code_of(caught) == errno.EINVAL
    with pytest.raises(OSError) as caught:
        disk.open("/" + "x" * 256, Mode.CREATE)
    assert code_of(caught) == errno.ENAMETOOLONG


def test_closed_and_read_only_handles(disk: SimDisk) -> None:
    disk.open("/f", Mode.CREATE).write_at([b"abc"], 0)
    file = disk.open("/f", Mode.READ)
    with pytest.raises(OSError) as caught:
        file.write_at([b"x"], 0)
    assert code_of(caught) == errno.EBADF
    with pytest.raises(OSError) as caught:
        file.truncate(0)
    assert code_of(caught) == errno.EINVAL
    file.close()
    file.close()
    for call in (file.fileno, file.size, file.sync, file.map, lambda: file.read_at(1, 0)):
        with pytest.raises(OSError) as caught:
            call()
        assert code_of(caught) == errno.EBADF


def test_times_come_from_the_clock() -> None:
    clock = SimClock(100)
    disk = SimDisk(1, clock)
    file = disk.open("/f", Mode.CREATE)
    assert disk.modified_ms("/f") == 100
    clock.advance(5)
    file.write_at([b"x"], 0)
    assert disk.modified_ms("/f") == 105
    clock.advance(5)
    file.truncate(0)
    assert disk.modified_ms("/f") == 110
    disk.set_modified_ms("/f", 7)
    assert disk.modified_ms("/f") == 7
    file.write_at([b"x"], 0)
    assert disk.modified_ms("/f") == 110


def test_a_mapping_sees_later_writes_until_closed(disk: SimDisk) -> None:
    file = disk.open("/f", Mode.CREATE)
    file.write_at([b"abcdef"], 0)
    mapping = file.map()
    file.write_at([b"XYZ"], 4)
    file.close()
    assert len(mapping) == 6
    assert mapping[3:100] == b"dXY"
    assert mapping[-2:] == b"XY"
    assert mapping[0:6:2] == b"acX"
    assert mapping[4:2] == b""
    mapping.close()
    with pytest.raises(ValueError):
        mapping[0:1]
    with pytest.raises(ValueError):
        len(mapping)


def test_a_mapping_read_behind_the_end_of_its_file_is_revealed(disk: SimDisk) -> None:
    file = disk.open("/f", Mode.CREATE)
    file.write_at([b"x" * 3 * PAGE], 0)
    mapping = file.map()
    file.truncate(PAGE + 1)
    assert mapping[PAGE : PAGE + 3] == b"x\0\0"
    assert mapping[2 * PAGE - 1 : 2 * PAGE] == b"\0"
    with pytest.raises(MappedFault):
        mapping[2 * PAGE - 1 : 2 * PAGE + 1]
    with pytest.raises(InvariantError):
        mapping[2 * PAGE : 2 * PAGE + 1]
    assert mapping[2 * PAGE : 2 * PAGE] == b""


def test_operations_count_what_changes_something(disk: SimDisk) -> None:
    disk.make_dir("/d")
    file = disk.open("/d/f", Mode.CREATE)
    disk.open("/d/f", Mode.CREATE)
    disk.open("/d/f", Mode.REPLACE)
    disk.make_dir("/d")
    file.read_at(1, 0)
    disk.list("/d")
    assert disk.ops == 2
    file.write_at([b"x"], 0)
    file.sync()
    file.truncate(2)
    disk.open("/d/f", Mode.REPLACE)
    disk.rename("/d/f", "/d/g")
    disk.sync_dir("/d")
    disk.unlink("/d/g")
    disk.remove_dir("/d")
    assert disk.ops == 10
    disk.faults.count_reads = True
    disk.exists("/d")
    assert disk.ops == 11


def test_everything_raises_while_the_machine_is_down(disk: SimDisk) -> None:
    file = disk.open("/f", Mode.CREATE)
    file.write_at([b"abc"], 0)
    mapping = file.map()
    disk.crash()
    assert disk.is_down
    for call in (
        lambda: disk.open("/f", Mode.READ),
        lambda: disk.list("/"),
        lambda: disk.exists("/f"),
        lambda: disk.size("/f"),
        lambda: disk.modified_ms("/f"),
        lambda: disk.make_dir("/d"),
        lambda: disk.rename("/f", "/g"),
        lambda: disk.unlink("/f"),
        lambda: disk.remove_dir("/f"),
        lambda: disk.sync_dir("/"),
        lambda: file.write_at([b"x"], 0),
        lambda: file.read_at(1, 0),
        lambda: mapping[0:1],
        file.size,
        file.sync,
        file.map,
        file.fileno,
    ):
        with pytest.raises(SimulatedCrash):
            call()
    file.close()
    mapping.close()


@pytest.mark.parametrize("back", [SimDisk.restart, SimDisk.kill])
def test_handles_and_mappings_die_with_the_process(disk: SimDisk, back: object) -> None:
    file = disk.open("/f", Mode.CREATE)
    file.write_at([b"abc"], 0)
    mapping = file.map()
    disk.sync_all()
    assert callable(back)
    back(disk)
    for call in (file.size, lambda: file.write_at([b"x"], 0), file.sync, lambda: mapping[0:1]):
        with pytest.raises(OSError) as caught:
            call()
        assert code_of(caught) == errno.EBADF
    assert disk.open("/f", Mode.READ).read_at(9, 0) == b"abc"


def test_kill_loses_nothing(disk: SimDisk) -> None:
    disk.open("/f", Mode.CREATE).write_at([b"abc"], 0)
    disk.kill()
    assert disk.open("/f", Mode.READ).read_at(9, 0) == b"abc"
    disk.crash_at(disk.ops + 1, CrashPoint.AFTER)
    with pytest.raises(SimulatedCrash):
        disk.open("/f", Mode.WRITE).write_at([b"X"], 0)
    disk.kill()
    assert disk.open("/f", Mode.READ).read_at(9, 0) == b"Xbc"
    disk.restart(Survival.NOTHING)
    assert disk.list("/") == []


@pytest.mark.parametrize(
    ("point", "expected"), [(CrashPoint.BEFORE, {0}), (CrashPoint.AFTER, {3}), (CrashPoint.DURING, {0, 1, 2, 3})]
)
def test_crash_points_of_a_write(point: CrashPoint, expected: set[int]) -> None:
    sizes = set()
    for seed in range(100):
        disk = SimDisk(seed)
        file = disk.open("/f", Mode.CREATE)
        disk.crash_at(2, point)
        with pytest.raises(SimulatedCrash):
            file.write_at([b"ab", b"c"], 0)
        disk.kill()
        content = disk.open("/f", Mode.READ).read_at(9, 0)
        assert b"abc".startswith(content)
        sizes.add(len(content))
    assert sizes == expected


def test_a_crash_that_did_not_come_is_called_off(disk: SimDisk) -> None:
    disk.crash_at(1)
    disk.crash_at(None)
    disk.make_dir("/a")
    disk.crash_at(2)
    disk.restart()
    disk.make_dir("/b")
    assert not disk.is_down
    with pytest.raises(InvariantError):
        disk.crash_at(disk.ops)


def test_a_crash_can_strike_at_a_read(disk: SimDisk) -> None:
    disk.faults.count_reads = True
    disk.crash_at(1)
    with pytest.raises(SimulatedCrash):
        disk.list("/")
    assert disk.is_down


def test_a_crash_beats_an_error_of_the_operation(disk: SimDisk) -> None:
    disk.fail_next("unlink")
    disk.crash_at(1, CrashPoint.AFTER)
    with pytest.raises(SimulatedCrash):
        disk.unlink("/missing")


def story(disk: SimDisk, moves: random.Random) -> list[object]:
    """A little life with crashes; returns everything it saw."""
    seen: list[object] = []
    for round_number in range(6):
        disk.crash_at(disk.ops + moves.randint(1, 12))
        try:
            disk.make_dir("/d")
            for name in ("a", "b"):
                file = disk.open(f"/d/{name}", Mode.CREATE)
                write_fully(file, [bytes([round_number + 1]) * moves.randint(1, 9000)], file.size())
                file.sync()
                file.truncate(file.size() // 2)
            disk.rename("/d/a", "/d/b")
            disk.sync_dir("/d")
        except SimulatedCrash:
            disk.restart()
        except OSError as error:
            seen.append(error.errno)
        if disk.exists("/d"):
            for name, _ in disk.list("/d"):
                file = disk.open(f"/d/{name}", Mode.READ)
                seen.append((name, file.read_at(1 << 20, 0), disk.modified_ms(f"/d/{name}")))
    disk.crash_at(None)
    return seen


def test_the_same_seed_and_calls_give_the_same_outcome() -> None:
    for seed in range(20):
        assert story(SimDisk(seed), random.Random(seed)) == story(SimDisk(seed), random.Random(seed))
    assert len({repr(story(SimDisk(seed), random.Random(1))) for seed in range(20)}) > 10


def test_a_clone_has_the_same_future_and_is_apart() -> None:
    for seed in range(20):
        disk = SimDisk(seed)
        story(disk, random.Random(seed))
        disk.open("/x", Mode.CREATE).write_at([b"unsynced" * 1000], 0)
        disk.fail_next("sync_dir", skip=1)
        clone = disk.clone()
        clone.open("/only", Mode.CREATE).write_at([b"z"], 0)
        clone.unlink("/only")
        assert not disk.exists("/only")
        clone = disk.clone()
        assert story(clone, random.Random(5)) == story(disk, random.Random(5))


def test_clones_with_other_dice_have_other_futures() -> None:
    disk = SimDisk(1)
    disk.open("/f", Mode.CREATE).write_at([b"x" * 5000], 0)
    disk.crash()
    outcomes = set()
    for seed in range(50):
        clone = disk.clone(seed)
        clone.restart()
        outcomes.add(clone.open("/f", Mode.READ).read_at(9999, 0) if clone.exists("/f") else None)
    assert len(outcomes) > 3


def test_world_gives_an_environment_and_its_strings() -> None:
    world = World(3, directories=("/data", "/data/deep"))
    world.restart(Survival.NOTHING)
    assert world.env.files.list("/data") == [Entry("deep", True)]
    assert world.env.clock is world.clock
    assert world.env.random.random() == World(3).env.random.random()
    log: list[int] = []
    for lose in (world.restart, world.kill):
        world.env.jobs.run("lost", lambda: 1, log.append)
        lose()
    world.jobs.run_all()
    assert log == []
    assert sim_env(5).files.exists("/data")


def cycle(seed: int) -> None:
    disk = SimDisk(seed)
    disk.make_dir("/d")
    for number in range(5):
        file = disk.open(f"/d/{number}", Mode.CREATE)
        file.truncate(10 << 20)
        for position in range(0, 4000, 400):
            file.write_at([b"x" * 400], position)
        file.sync()
        file.write_at([b"y" * 20_000], 4000)
    disk.sync_dir("/d")
    disk.crash()
    disk.restart()
    assert len(disk.clone(1).list("/")) <= 1


def test_space_is_what_the_limit_leaves(disk: SimDisk) -> None:
    disk.faults.capacity_bytes = 10 * PAGE
    disk.open("/f", Mode.CREATE).write_at([b"x" * (PAGE + 1)], 0)
    assert disk.space("/") == (10 * PAGE, 8 * PAGE)
    disk.faults.capacity_bytes = PAGE
    assert disk.space("/") == (PAGE, 0)
    disk.faults.capacity_bytes = None
    assert disk.space("/").usable_bytes > 2**60
    with pytest.raises(FileNotFoundError):
        disk.space("/gone")


def test_thousands_of_crashes_a_minute() -> None:
    """Aims at 2 ms of processor time; the limit leaves room for slow machines and instrumented runs."""
    start = time.process_time()
    for seed in range(50):
        cycle(seed)
    assert (time.process_time() - start) / 50 < 0.02
