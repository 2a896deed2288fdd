"""The leader epoch cache: Kafka's rules in memory, and what of it is safe when."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched_files import WatchedFiles

from tailrace.env import InlineJobs, Mode
from tailrace.env.real.files import RealFiles
from tailrace.model.errors import CorruptCheckpointError, InvalidDataError
from tailrace.sim.faults import Op, SimulatedCrash, Survival
from tailrace.sim.world import World
from tailrace.storage.epoch_cache import EpochEntry, LeaderEpochCache

CHECKPOINT = "/data/leader-epoch-checkpoint"


def cache_in(world: World, *entries: tuple[int, int]) -> LeaderEpochCache:
    cache = LeaderEpochCache(world.disk, world.jobs, "/data")
    cache.assign_all(EpochEntry(*entry) for entry in entries)
    return cache


def loaded(world: World) -> LeaderEpochCache:
    cache = LeaderEpochCache(world.disk, world.jobs, "/data")
    cache.load()
    return cache


def text_of(world: World, path: str = CHECKPOINT) -> str:
    return world.disk.open(path, Mode.READ).read_at(1 << 20, 0).decode()


# In memory


@pytest.mark.spec("LS-32")
def test_an_empty_cache_knows_nothing() -> None:
    cache = cache_in(World())
    assert cache.entries == ()
    assert cache.latest_epoch is None
    assert cache.latest_entry is None
    assert cache.earliest_entry is None
    assert cache.epoch_for_offset(0) is None
    assert cache.end_offset_for(0, 73) == (-1, -1)
    assert cache.end_offset_for(-1, 73) == (-1, -1)


@pytest.mark.spec("LS-32")
def test_epochs_are_appended_and_a_start_offset_stays() -> None:
    cache = cache_in(World(), (2, 10), (3, 20))
    cache.assign(3, 25)
    cache.assign(3, 20)
    assert cache.entries == ((2, 10), (3, 20))
    cache.assign(5, 30)
    assert cache.entries == ((2, 10), (3, 20), (5, 30))
    assert (cache.latest_epoch, cache.latest_entry, cache.earliest_entry) == (5, (5, 30), (2, 10))


@pytest.mark.spec("LS-32")
@pytest.mark.parametrize(
    ("new", "left"),
    [
        ((4, 30), ((1, 10), (2, 20), (4, 30))),  # nothing was written in epoch 3
        ((4, 25), ((1, 10), (2, 20), (4, 25))),
        ((4, 20), ((1, 10), (4, 20))),
        ((4, 5), ((4, 5),)),
        ((3, 15), ((1, 10), (3, 15))),
        ((2, 40), ((1, 10), (2, 40))),
        ((2, 15), ((1, 10), (2, 15))),
        ((0, 40), ((0, 40),)),
        ((0, 0), ((0, 0),)),
    ],
)
def test_entries_that_contradict_a_new_one_are_removed(new: tuple[int, int], left: tuple[tuple[int, int], ...]) -> None:
    cache = cache_in(World(), (1, 10), (2, 20), (3, 30))
    cache.assign(*new)
    assert cache.entries == left


@pytest.mark.spec("LS-32")
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40)), max_size=30))
def test_epochs_and_start_offsets_always_ascend(assignments: list[tuple[int, int]]) -> None:
    cache = cache_in(World())
    for epoch, start_offset in assignments:
        cache.assign(epoch, start_offset)
        for one, other in zip(cache.entries, cache.entries[1:], strict=False):
            assert one.epoch < other.epoch
            assert one.start_offset < other.start_offset
        assert cache.latest_epoch == epoch


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1), (-2, 5)])
def test_an_undefined_epoch_cannot_be_assigned(entry: tuple[int, int]) -> None:
    for cache in (cache_in(World()), cache_in(World(), (0, 0))):
        before = cache.entries
        with pytest.raises(InvalidDataError):
            cache.assign(*entry)
        assert cache.entries == before


@pytest.mark.spec("LS-32")
def test_the_end_of_an_epoch_is_the_next_ones_start_or_the_logs_end() -> None:
    cache = cache_in(World(), (2, 10), (4, 20), (7, 30))
    assert cache.end_offset_for(7, 73) == (7, 73)
    assert cache.end_offset_for(4, 73) == (4, 30)
    assert cache.end_offset_for(2, 73) == (2, 20)
    assert cache.end_offset_for(3, 73) == (2, 20)
    assert cache.end_offset_for(6, 73) == (4, 30)
    assert cache.end_offset_for(1, 73) == (1, 10)
    assert cache.end_offset_for(0, 73) == (0, 10)
    assert cache.end_offset_for(8, 73) == (-1, -1)
    assert cache.end_offset_for(-1, 73) == (-1, -1)


def test_the_epoch_of_an_offset() -> None:
    cache = cache_in(World(), (2, 10), (4, 20), (7, 30))
    assert [cache.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 29, 30, 2**62)] == [None, 2, 2, 4, 4, 7, 7]


@pytest.mark.spec("LS-32")
@pytest.mark.parametrize(
    ("end_offset", "left"),
    [(31, 3), (30, 2), (21, 2), (20, 1), (11, 1), (10, 0), (0, 0), (-1, 3), (2**62, 3)],
)
def test_truncation_at_the_end_drops_epochs_that_began_there_or_later(end_offset: int, left: int) -> None:
    entries = ((2, 10), (4, 20), (7, 30))
    cache = cache_in(World(), *entries)
    cache.truncate_from_end(end_offset)
    assert cache.entries == entries[:left]
    assert cache.latest_epoch == (entries[left - 1][0] if left else None)
    cache.assign(9, 90)
    assert cache.entries == (*entries[:left], (9, 90))


@pytest.mark.spec("LS-32")
@pytest.mark.parametrize(
    ("start_offset", "left"),
    [
        (5, ((2, 10), (4, 20), (7, 30))),
        (10, ((2, 10), (4, 20), (7, 30))),
        (15, ((2, 15), (4, 20), (7, 30))),
        (20, ((4, 20), (7, 30))),
        (29, ((4, 29), (7, 30))),
        (31, ((7, 31),)),
    ],
)
def test_truncation_at_the_start_moves_the_epoch_that_wrote_it(
    start_offset: int, left: tuple[tuple[int, int], ...]
) -> None:
    cache = cache_in(World(), (2, 10), (4, 20), (7, 30))
    cache.truncate_from_start(start_offset)
    assert cache.entries == left
    cache.assign(7, 40)
    assert cache.entries == left


@pytest.mark.parametrize(
    ("offset", "epoch", "entries", "left"),
    [
        (0, 0, ((1, 0), (2, 10)), ((1, 0), (2, 10))),
        (10, 2, ((2, 10), (3, 20)), ((1, 0), (2, 10), (3, 20))),
        (15, 2, ((2, 15), (3, 20)), ((1, 0), (2, 10), (3, 20))),
        (10, 2, (), ((1, 0), (2, 10))),  # nothing follows a snapshot
        (15, 1, ((1, 15), (3, 20)), ((1, 0), (3, 20))),  # an entry has a later epoch than what it describes
        (10, 1, ((4, 10),), ((1, 0), (4, 10))),
    ],
)
def test_entries_are_replaced_from_an_offset(
    offset: int, epoch: int, entries: tuple[tuple[int, int], ...], left: tuple[tuple[int, int], ...]
) -> None:
    before = ((1, 0), (2, 10), (3, 20))
    cache = cache_in(World(0), *before)
    assert cache.replace_from(offset, epoch, [EpochEntry(*each) for each in entries]) == (left != before)
    assert cache.entries == left


def test_clear_forgets_everything() -> None:
    world = World()
    cache = cache_in(world, (2, 10), (4, 20))
    cache.clear()
    assert (cache.entries, cache.latest_epoch) == ((), None)
    cache.assign(4, 20)
    assert cache.entries == ((4, 20),)


# The file


@pytest.mark.spec("LS-32")
def test_the_file_has_version_count_and_one_line_per_epoch() -> None:
    world = World()
    cache_in(world, (0, 0), (5, 4711))
    assert text_of(world) == "0\n2\n0 0\n5 4711\n"
    assert loaded(world).entries == ((0, 0), (5, 4711))


def test_the_constructor_touches_nothing_and_no_file_is_no_epochs(tmp_path: Path) -> None:
    files = WatchedFiles(RealFiles())
    cache = LeaderEpochCache(files, InlineJobs(), str(tmp_path))
    assert not cache.load()
    assert (cache.entries, files.opens, list(tmp_path.iterdir())) == ((), [], [])


@pytest.mark.parametrize(
    "text",
    ["", "0\n", "1\n0\n", "0\n1\n", "0\n1\n5 10", "0\n2\n5 10\n", "0\n1\n5\n", "0\n1\n5 10 15\n", "0\n1\n-1 10\n",
     "0\n1\n5 -10\n", "0\n1\n2147483648 1\n", "0\n1\n5 9223372036854775808\n", "0\n1\nfive 10\n", "\0" * 20],
)  # fmt: skip
def test_a_damaged_file_is_refused(text: str) -> None:
    world = World()
    world.disk.open(CHECKPOINT, Mode.CREATE).write_at((text.encode(),), 0)
    cache = LeaderEpochCache(world.disk, world.jobs, "/data")
    with pytest.raises(CorruptCheckpointError):
        cache.load()
    cache.assign_all([EpochEntry(1, 5)])  # as rebuilt from the log
    assert loaded(world).entries == ((1, 5),)


@pytest.mark.spec("LS-32")
def test_contradicting_entries_in_the_file_are_repaired() -> None:
    world = World()
    world.disk.open(CHECKPOINT, Mode.CREATE).write_at((b"0\n4\n1 10\n3 30\n2 20\n5 20\n",), 0)
    cache = loaded(world)
    assert cache.entries == ((1, 10), (5, 20))
    cache.sync_now()
    assert text_of(world) == "0\n2\n1 10\n5 20\n"


# What is safe when


def crashed(world: World, survival: Survival) -> tuple[EpochEntry, ...]:
    world.disk.crash()
    world.restart(survival)
    return loaded(world).entries


@pytest.mark.spec("LS-50")
def test_an_assignment_is_in_the_file_at_once_and_its_fsync_is_started() -> None:
    world = World()
    cache = cache_in(world)
    cache.assign(3, 30)
    assert text_of(world) == "0\n1\n3 30\n"
    assert world.jobs.pending == [f"flush {CHECKPOINT}"]
    world.kill()
    assert loaded(world).entries == ((3, 30),)


@pytest.mark.spec("LS-50")
def test_an_assignment_is_safe_from_lost_power_once_its_job_ran() -> None:
    world = World()
    cache = cache_in(world)
    cache.assign(3, 30)
    world.jobs.run_all()
    assert crashed(world, Survival.NOTHING) == ((3, 30),)


@pytest.mark.spec("LS-50")
def test_the_owner_never_syncs_when_it_assigns_or_truncates(tmp_path: Path) -> None:
    world = World()
    files = WatchedFiles(RealFiles())
    cache = LeaderEpochCache(files, world.jobs, str(tmp_path))
    cache.assign(1, 10)
    cache.assign(2, 20)
    cache.truncate_from_end(15)
    cache.truncate_from_start(12)
    cache.clear()
    assert files.syncs == []
    world.jobs.run_all()
    assert files.syncs != []


@pytest.mark.spec("LS-50")
@pytest.mark.parametrize(
    ("truncate", "left"),
    [
        (lambda cache: cache.truncate_from_end(20), ((2, 10),)),
        (lambda cache: cache.truncate_from_start(15), ((2, 15), (4, 20))),
        (lambda cache: cache.clear(), ()),
    ],
)
def test_a_truncation_is_in_memory_at_once_and_in_the_file_by_a_job(
    truncate: Callable[[LeaderEpochCache], None], left: tuple[tuple[int, int], ...]
) -> None:
    world = World()
    cache = cache_in(world, (2, 10), (4, 20))
    world.jobs.run_all()
    operations = world.disk.ops
    truncate(cache)
    assert cache.entries == left
    assert world.disk.ops == operations
    assert world.jobs.pending == [f"flush {CHECKPOINT}"]
    world.jobs.run_all()
    assert crashed(world, Survival.NOTHING) == left


def test_a_truncation_that_changes_nothing_writes_nothing() -> None:
    world = World()
    cache = cache_in(world, (2, 10), (4, 20))
    world.jobs.run_all()
    cache.truncate_from_end(21)
    cache.truncate_from_start(10)
    cache.assign(4, 99)
    cache.assign_all([])
    assert world.jobs.pending == []


@pytest.mark.spec("LS-50")
@given(st.lists(st.tuples(st.sampled_from("aets"), st.integers(0, 6), st.integers(0, 40)), max_size=15), st.integers())
def test_jobs_in_any_order_leave_the_newest_entries(steps: list[tuple[str, int, int]], seed: int) -> None:
    world = World()
    rng = random.Random(seed)
    cache = cache_in(world)
    for step, epoch, offset in steps:
        if step == "a":
            cache.assign(epoch, offset)
        elif step == "e":
            cache.truncate_from_end(offset)
        elif step == "t":
            cache.truncate_from_start(offset)
        elif rng.random() < 0.5:
            cache.sync_now()
        for _ in range(rng.randrange(3)):
            world.jobs.run_one(rng)
    world.jobs.run_all(rng)
    cache.sync_now()
    assert crashed(world, Survival.NOTHING) == cache.entries


@pytest.mark.parametrize("seed", range(30))
def test_after_lost_power_the_entries_are_those_synced_last_or_newer_or_refused(seed: int) -> None:
    """Never a silent loss of an entry that was durable."""
    world = World(seed)
    states = []
    cache = cache_in(world)
    durable = 0
    rng = random.Random(seed)
    world.disk.crash_at(world.disk.ops + rng.randrange(1, 60))
    try:
        for epoch in range(50):
            states.append((*cache.entries, EpochEntry(epoch, epoch * 10)))
            cache.assign(epoch, epoch * 10)
            if rng.random() < 0.3:
                cache.sync_now()
                durable = epoch
            if rng.random() < 0.5:
                world.jobs.run_one(rng)
    except SimulatedCrash:
        world.restart()
    else:
        world.disk.crash()
        world.restart()
    after = LeaderEpochCache(world.disk, world.jobs, "/data")
    try:
        exists = after.load()
    except CorruptCheckpointError:
        return
    assert (not exists and durable == 0) or after.entries in states[durable:]


@pytest.mark.spec("LS-50")
def test_sync_now_makes_assignments_and_truncations_durable_without_any_job() -> None:
    world = World()
    cache = cache_in(world, (2, 10), (4, 20))
    cache.truncate_from_end(15)
    cache.sync_now()
    assert crashed(world, Survival.NOTHING) == ((2, 10),)


def test_sync_now_makes_an_empty_cache_durable_too() -> None:
    world = World()
    cache_in(world).sync_now()
    world.disk.crash()
    world.restart(Survival.NOTHING)
    cache = LeaderEpochCache(world.disk, world.jobs, "/data")
    assert cache.load()
    assert cache.entries == ()


def test_entries_that_a_killed_process_left_unsynced_are_synced(tmp_path: Path) -> None:
    world = World()
    cache_in(world, (2, 10))
    world.kill()
    loaded(world).sync_now()
    assert crashed(world, Survival.NOTHING) == ((2, 10),)


def test_nothing_is_synced_twice(tmp_path: Path) -> None:
    files = WatchedFiles(RealFiles())
    cache = LeaderEpochCache(files, InlineJobs(), str(tmp_path))
    cache.assign(1, 10)
    count = len(files.syncs)
    assert count == 2
    cache.sync_now()
    assert len(files.syncs) == count


@pytest.mark.parametrize("seed", range(10))
def test_after_a_failed_sync_the_file_is_written_anew(seed: int) -> None:
    """The kernel may drop what it could not write and call the next sync of the same file a success."""
    world = World(seed)
    world.disk.faults.failed_sync_drops = True
    cache = cache_in(world, (2, 10))
    world.disk.fail_next("sync", "*leader-epoch-checkpoint")
    with pytest.raises(OSError, match="Input/output error"):
        cache.sync_now()
    cache.sync_now()
    assert crashed(world, Survival.NOTHING) == ((2, 10),)


def test_an_assignment_that_cannot_be_written_did_not_happen() -> None:
    world = World()
    cache = cache_in(world, (2, 10))
    failures: tuple[Op, ...] = ("create", "write", "rename")
    for failing in failures:
        world.disk.faults.fail_next(failing, "*leader-epoch-checkpoint*")
        with pytest.raises(OSError, match="Input/output error"):
            cache.assign(4, 20)
        assert cache.entries == ((2, 10),)
        assert text_of(world) == "0\n1\n2 10\n"
        world.disk.faults.heal()
    cache.assign(4, 20)
    assert loaded(world).entries == ((2, 10), (4, 20))


def test_a_failing_disk_is_reported_by_the_sync_that_matters_and_not_by_the_job() -> None:
    world = World()
    cache = cache_in(world, (2, 10))
    world.disk.fail_next("sync", times=2)
    world.jobs.run_all()
    with pytest.raises(OSError, match="Input/output error"):
        cache.sync_now()
    cache.sync_now()
    world.restart(Survival.NOTHING)
    assert loaded(world).entries == ((2, 10),)


def test_a_job_whose_directory_is_gone_does_nothing() -> None:
    world = World()
    cache = cache_in(world, (2, 10), (4, 20))
    cache.truncate_from_end(15)
    world.disk.unlink(CHECKPOINT)
    world.disk.remove_dir("/data")
    world.jobs.run_all()
    with pytest.raises(FileNotFoundError):
        cache.sync_now()


def test_it_follows_its_directory() -> None:
    world = World()
    cache = cache_in(world, (2, 10), (4, 20))
    cache.truncate_from_end(15)
    world.disk.rename("/data", "/moved")
    cache.moved_to("/moved")
    world.jobs.run_all()
    assert text_of(world, "/moved/leader-epoch-checkpoint") == "0\n1\n2 10\n"


class Pausing(WatchedFiles):
    """Stops a thread inside a sync until told to go on."""

    def __init__(self) -> None:
        super().__init__(RealFiles())
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def open(self, path: str, mode: Mode) -> Any:
        file = super().open(path, mode)
        real_sync = file.sync

        def sync() -> None:
            self.reached.set()
            assert self.go_on.wait(60)
            real_sync()

        file.sync = sync  # type: ignore[method-assign]
        return file


@pytest.mark.spec("LS-50")
def test_the_owner_does_not_wait_for_a_slow_sync_and_is_not_overwritten(tmp_path: Path) -> None:
    world = World()
    files = Pausing()
    cache = LeaderEpochCache(files, world.jobs, str(tmp_path))
    cache.assign(1, 10)
    cache.truncate_from_start(15)
    flush = threading.Thread(target=cache.sync_now)
    flush.start()
    assert files.reached.wait(60)
    cache.assign(2, 20)
    cache.assign(3, 30)
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n1 15\n2 20\n3 30\n"
    files.go_on.set()
    flush.join()
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n1 15\n2 20\n3 30\n"
    world.jobs.run_all()
    cache = LeaderEpochCache(files, world.jobs, str(tmp_path))
    cache.load()
    assert cache.entries == ((1, 15), (2, 20), (3, 30))
