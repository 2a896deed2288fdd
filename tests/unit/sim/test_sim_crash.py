"""What a lost power supply may and may not do. Each test runs over many seeds and wants to see every legal outcome."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from tailrace.env import Mode
from tailrace.sim import Faults, SimClock, SimDisk, Survival

PAGE = 4096
SECTOR = 512
SEEDS = 200


def after_crash(setup: Callable[[SimDisk], None], path: str = "/f", faults: Faults | None = None) -> list[bytes | None]:
    """The content of `path` after a crash, one per seed; None where the name is gone."""
    outcomes: list[bytes | None] = []
    for seed in range(SEEDS):
        disk = SimDisk(seed, faults=None if faults is None else faults.copy())
        setup(disk)
        disk.crash()
        disk.restart()
        outcomes.append(content(disk, path))
    return outcomes


def content(disk: SimDisk, path: str) -> bytes | None:
    if not disk.exists(path):
        return None
    return disk.open(path, Mode.READ).read_at(1 << 30, 0)


def written(disk: SimDisk, path: str, data: bytes) -> None:
    """Durable: bytes and name."""
    disk.open(path, Mode.REPLACE).write_at([data], 0)
    disk.sync_all()


# Data


def test_synced_bytes_and_name_are_always_there() -> None:
    def setup(disk: SimDisk) -> None:
        file = disk.open("/f", Mode.CREATE)
        file.write_at([b"a" * 10_000], 0)
        file.sync()
        disk.sync_dir("/")

    assert set(after_crash(setup)) == {b"a" * 10_000}


def test_an_unsynced_overwrite_is_old_new_or_torn_by_sectors() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/f", b"a" * PAGE)
        disk.open("/f", Mode.WRITE).write_at([b"b" * PAGE], 0)

    outcomes = after_crash(setup)
    assert b"a" * PAGE in outcomes
    assert b"b" * PAGE in outcomes
    torn = [outcome for outcome in outcomes if outcome and len(set(outcome)) == 2]
    assert torn
    for outcome in outcomes:
        assert outcome is not None
        assert len(outcome) == PAGE
        assert all(len(set(outcome[at : at + SECTOR])) == 1 for at in range(0, PAGE, SECTOR))


def test_an_intermediate_version_can_survive() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/f", b"a" * 100)
        file = disk.open("/f", Mode.WRITE)
        for letter in (b"b", b"c", b"d"):
            file.write_at([letter * 100], 0)

    assert set(after_crash(setup)) == {letter * 100 for letter in (b"a", b"b", b"c", b"d")}


def test_pages_survive_each_on_its_own() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/f", b"a" * 3 * PAGE)
        file = disk.open("/f", Mode.WRITE)
        for page in range(3):
            file.write_at([b"b" * PAGE], page * PAGE)

    seen = {
        "".join(chr(outcome[page * PAGE]) for page in range(3)) for outcome in after_crash(setup) if outcome is not None
    }
    assert seen == {one + two + three for one in "ab" for two in "ab" for three in "ab"}


def test_an_untouched_page_never_changes() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/f", b"a" * 2 * PAGE)
        disk.open("/f", Mode.WRITE).write_at([b"b" * 3 * PAGE], PAGE)

    assert all(outcome and outcome[:PAGE] == b"a" * PAGE for outcome in after_crash(setup))


# Size


def test_an_append_leaves_old_new_or_page_by_page_size() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/f", b"a" * 1000)
        disk.open("/f", Mode.WRITE).write_at([b"b" * 10_000], 1000)

    outcomes = after_crash(setup, faults=Faults(garbage_probability=0.0))
    assert {len(outcome) for outcome in outcomes if outcome is not None} == {1000, PAGE, 2 * PAGE, 11_000}
    assert all(outcome and outcome[:1000] == b"a" * 1000 for outcome in outcomes)
    assert b"a" * 1000 + b"b" * 10_000 in outcomes
    assert any(outcome and len(outcome) == 11_000 and outcome.endswith(b"\0" * 1000) for outcome in outcomes)
    assert all(outcome and set(outcome) <= set(b"ab\0") for outcome in outcomes)


def test_several_appends_leave_any_size_on_the_way() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/f", b"")
        file = disk.open("/f", Mode.WRITE)
        for position in range(0, 400, 100):
            file.write_at([b"x" * 100], position)

    assert {len(outcome) for outcome in after_crash(setup) if outcome is not None} == {0, 100, 200, 300, 400}


def test_a_lost_page_in_grown_space_is_zeros_or_garbage() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/f", b"a" * 600)
        disk.open("/f", Mode.WRITE).write_at([b"b" * 2000], 600)

    zeros = garbage = 0
    for outcome in after_crash(setup, faults=Faults(garbage_probability=0.5)):
        assert outcome is not None
        assert outcome[:600] == b"a" * 600
        # The sector in which the synced bytes end was written with zeros behind them.
        assert set(outcome[600 : 2 * SECTOR]) <= set(b"b\0")
        zeros += outcome[600:] == bytes(2000)
        garbage += not set(outcome) <= set(b"ab\0")
    assert zeros
    assert garbage
    clean = after_crash(setup, faults=Faults(garbage_probability=0.0))
    assert all(set(outcome or b"") <= set(b"ab\0") for outcome in clean)


def test_garbage_never_touches_what_lay_below_the_synced_end() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/f", b"a" * PAGE)
        disk.open("/f", Mode.WRITE).write_at([b"b" * PAGE], 0)

    assert all(set(outcome or b"") <= set(b"ab") for outcome in after_crash(setup, faults=Faults(1.0)))


def test_a_truncate_can_be_undone() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/f", b"a" * 2 * PAGE)
        disk.open("/f", Mode.WRITE).truncate(10)

    outcomes = after_crash(setup)
    assert b"a" * 10 in outcomes
    assert b"a" * 2 * PAGE in outcomes
    assert {len(outcome) for outcome in outcomes if outcome is not None} == {10, 2 * PAGE}


def test_a_synced_truncate_stays_and_what_was_cut_never_returns() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/f", b"a" * 2 * PAGE)
        file = disk.open("/f", Mode.WRITE)
        file.truncate(10)
        file.sync()
        file.truncate(2 * PAGE)

    assert set(after_crash(setup)) == {b"a" * 10, b"a" * 10 + bytes(2 * PAGE - 10)}


def test_space_added_by_a_truncate_is_zeros_in_one_step() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/f", b"")
        disk.open("/f", Mode.WRITE).truncate(5 * PAGE)

    assert set(after_crash(setup, faults=Faults(1.0))) == {b"", bytes(5 * PAGE)}


def test_a_lost_tail_does_not_shine_through_when_the_file_grows_again() -> None:
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        written(disk, "/f", b"a" * 10)
        disk.open("/f", Mode.WRITE).write_at([b"b" * 2 * PAGE], 10)
        disk.restart()
        file = disk.open("/f", Mode.WRITE)
        survived = file.size()
        file.truncate(4 * PAGE)
        assert file.read_at(4 * PAGE, survived) == bytes(4 * PAGE - survived)
        file.sync()
        disk.restart()
        assert disk.open("/f", Mode.READ).read_at(4 * PAGE, survived) == bytes(4 * PAGE - survived)


def test_the_modification_time_is_the_synced_or_the_newest() -> None:
    seen = set()
    for seed in range(SEEDS):
        clock = SimClock(100)
        disk = SimDisk(seed, clock)
        written(disk, "/f", b"a")
        clock.advance(5)
        disk.open("/f", Mode.WRITE).write_at([b"b"], 0)
        disk.restart()
        seen.add(disk.modified_ms("/f"))
    assert seen == {100, 105}


# Names


def names_after_crash(setup: Callable[[SimDisk], None], path: str = "/") -> set[frozenset[str]]:
    seen = set()
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        setup(disk)
        disk.restart()
        seen.add(frozenset(name for name, _ in disk.list(path)))
    return seen


def sets(*names: str) -> set[frozenset[str]]:
    return {frozenset(name) for name in names}


def test_syncing_a_file_does_not_save_its_name() -> None:
    def setup(disk: SimDisk) -> None:
        file = disk.open("/f", Mode.CREATE)
        file.write_at([b"abc"], 0)
        file.sync()

    assert set(after_crash(setup)) == {None, b"abc"}


def test_syncing_a_directory_does_not_save_its_files_bytes() -> None:
    def setup(disk: SimDisk) -> None:
        disk.open("/f", Mode.CREATE).write_at([b"abc"], 0)
        disk.sync_dir("/")

    outcomes = set(after_crash(setup))
    assert None not in outcomes
    assert {b"", b"abc", bytes(3)} <= outcomes


def test_syncing_a_directory_does_not_save_its_own_name() -> None:
    def setup(disk: SimDisk) -> None:
        disk.make_dir("/d")
        disk.open("/d/f", Mode.CREATE)
        disk.sync_dir("/d")

    assert names_after_crash(setup) == sets("", "d")


def test_syncing_the_parent_does_not_save_names_below() -> None:
    def setup(disk: SimDisk) -> None:
        disk.make_dir("/d")
        disk.open("/d/f", Mode.CREATE)
        disk.sync_dir("/")

    assert names_after_crash(setup, "/d") == sets("", "f")


def test_changes_of_different_names_are_independent() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/c", b"")
        disk.open("/a", Mode.CREATE)
        disk.open("/b", Mode.CREATE)
        disk.unlink("/c")

    assert names_after_crash(setup) == sets("c", "", "ac", "a", "bc", "b", "abc", "ab")


def test_a_rename_that_replaces_is_whole() -> None:
    seen = set()
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        written(disk, "/old", b"old")
        written(disk, "/new", b"new")
        disk.rename("/new", "/old")
        disk.restart()
        seen.add((content(disk, "/old"), content(disk, "/new")))
    assert seen == {(b"old", b"new"), (b"new", None)}


def test_changes_of_one_name_keep_their_order() -> None:
    def setup(disk: SimDisk) -> None:
        disk.open("/a", Mode.CREATE)
        disk.rename("/a", "/b")
        disk.rename("/b", "/c")
        disk.unlink("/c")

    assert names_after_crash(setup) == sets("", "a", "b", "c")


def test_a_checkpoint_written_by_the_book_is_never_torn() -> None:
    """temp, sync, rename: the old bytes or the new ones; with the directory synced, the new."""

    def setup(disk: SimDisk, sync_dir: bool) -> None:
        written(disk, "/f", b"old")
        file = disk.open("/f.tmp", Mode.REPLACE)
        file.write_at([b"brand new"], 0)
        file.sync()
        disk.rename("/f.tmp", "/f")
        if sync_dir:
            disk.sync_dir("/")

    assert set(after_crash(lambda disk: setup(disk, sync_dir=False))) == {b"old", b"brand new"}
    assert set(after_crash(lambda disk: setup(disk, sync_dir=True))) == {b"brand new"}


def test_a_checkpoint_renamed_before_its_sync_can_be_torn() -> None:
    def setup(disk: SimDisk) -> None:
        written(disk, "/f", b"old")
        disk.open("/f.tmp", Mode.REPLACE).write_at([b"brand new"], 0)
        disk.rename("/f.tmp", "/f")

    assert {b"old", b"brand new", b""} <= set(after_crash(setup))


def test_a_removed_directory_can_return_with_its_files() -> None:
    seen = set()
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        disk.make_dir("/d")
        written(disk, "/d/f", b"abc")
        disk.unlink("/d/f")
        disk.remove_dir("/d")
        disk.restart()
        seen.add((disk.exists("/d"), content(disk, "/d/f")))
    assert seen == {(True, b"abc"), (True, None), (False, None)}


def test_a_directory_keeps_its_files_when_its_rename_is_lost() -> None:
    seen = set()
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        disk.make_dir("/t-0")
        written(disk, "/t-0/f", b"abc")
        disk.rename("/t-0", "/t-0.delete")
        disk.restart()
        seen.add((content(disk, "/t-0/f"), content(disk, "/t-0.delete/f")))
    assert seen == {(b"abc", None), (None, b"abc")}


@pytest.mark.parametrize("synced", ["/", "/d"])
def test_a_rename_between_directories_is_safe_with_either(synced: str) -> None:
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        written(disk, "/f", b"abc")
        disk.make_dir("/d")
        disk.rename("/f", "/d/g")
        disk.sync_dir(synced)
        disk.restart()
        assert (content(disk, "/f"), content(disk, "/d/g")) == (None, b"abc")


def test_a_file_moved_into_a_new_directory_is_not_lost_with_it() -> None:
    seen = set()
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        written(disk, "/f", b"abc")
        disk.make_dir("/d")
        disk.rename("/f", "/d/g")
        disk.restart()
        seen.add((content(disk, "/f"), content(disk, "/d/g")))
    assert seen == {(b"abc", None), (None, b"abc")}


def test_a_directory_is_removed_only_after_its_files_moved_out() -> None:
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        disk.make_dir("/d")
        written(disk, "/d/f", b"abc")
        disk.rename("/d/f", "/g")
        disk.remove_dir("/d")
        disk.restart()
        assert {content(disk, "/d/f"), content(disk, "/g")} == {None, b"abc"}


def test_a_safe_removal_makes_the_moves_out_safe() -> None:
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        disk.make_dir("/d")
        disk.make_dir("/e")
        written(disk, "/d/f", b"abc")
        disk.rename("/d/f", "/e/f")
        disk.remove_dir("/d")
        disk.sync_dir("/")
        disk.restart()
        assert (disk.exists("/d"), content(disk, "/e/f")) == (False, b"abc")


def test_a_safe_move_makes_the_earlier_rename_safe() -> None:
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        disk.make_dir("/d")
        disk.make_dir("/e")
        written(disk, "/d/a", b"abc")
        disk.rename("/d/a", "/d/b")
        disk.rename("/d/b", "/e/b")
        disk.sync_dir("/e")
        disk.restart()
        assert (content(disk, "/d/a"), content(disk, "/d/b"), content(disk, "/e/b")) == (None, None, b"abc")


@pytest.mark.parametrize(("survival", "expected"), [(Survival.NOTHING, None), (Survival.EVERYTHING, b"abc")])
def test_a_test_can_ask_for_the_outcome(survival: Survival, expected: bytes | None) -> None:
    for seed in range(20):
        disk = SimDisk(seed)
        disk.open("/f", Mode.CREATE).write_at([b"abc"], 0)
        disk.restart(survival)
        assert content(disk, "/f") == expected
        disk.restart(Survival.NOTHING)
        assert content(disk, "/f") == expected


# Properties

names = st.sampled_from(["a", "b", "c", "d/a", "d/b", "e/a", "e/b"])


@settings(max_examples=examples(150))
@given(st.lists(st.tuples(names, names, st.booleans()), max_size=12), st.integers(0, 1000))
def test_a_file_nobody_unlinked_is_there_exactly_once(moves: list[tuple[str, str, bool]], seed: int) -> None:
    """Whatever is renamed where, in directories old and new, synced or not."""
    disk = SimDisk(seed)
    disk.make_dir("/d")
    for name in ("a", "b", "c", "d/a"):
        written(disk, f"/{name}", name.encode())
    disk.make_dir("/e")
    for source, target, sync in moves:
        if disk.exists(f"/{source}") and not disk.exists(f"/{target}"):
            disk.rename(f"/{source}", f"/{target}")
        if sync:
            disk.sync_dir(f"/{target}"[:-2] or "/")
    if disk.list("/d") == []:
        disk.remove_dir("/d")
    disk.restart()
    found = []
    for folder in ("", "/d", "/e"):
        if disk.exists(folder):
            found += [content(disk, f"{folder}/{name}") for name, is_dir in disk.list(folder) if not is_dir]
    assert sorted(found, key=repr) == [b"a", b"b", b"c", b"d/a"]


actions = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 3 * PAGE), st.integers(1, 2 * PAGE)),
    st.tuples(st.just("truncate"), st.integers(0, 4 * PAGE), st.just(0)),
    st.tuples(st.just("sync"), st.just(0), st.just(0)),
    st.tuples(st.just("crash"), st.just(0), st.just(0)),
)


@settings(max_examples=examples(150))
@given(st.lists(actions, max_size=20), st.integers(0, 1000))
def test_what_was_synced_and_not_touched_since_is_there(steps: list[tuple[str, int, int]], seed: int) -> None:
    disk = SimDisk(seed)
    written(disk, "/f", b"")
    synced = b""
    touched: set[int] = set()
    shortest = 0
    for number, (action, at, length) in enumerate([*steps, ("crash", 0, 0)]):
        file = disk.open("/f", Mode.WRITE)
        if action == "write":
            file.write_at([bytes([number % 255 + 1]) * length], at)
            touched.update(range(at // PAGE, (at + length - 1) // PAGE + 1))
        elif action == "truncate":
            file.truncate(at)
            touched.update(range(at // PAGE, 6))
            shortest = min(shortest, at)
        else:
            if action == "sync":
                file.sync()
            else:
                disk.restart()
                now = content(disk, "/f")
                assert now is not None
                assert len(now) >= shortest
                for page in range(len(synced) // PAGE + 1):
                    if page not in touched:
                        start, end = page * PAGE, min(page * PAGE + PAGE, len(synced))
                        assert now[start:end] == synced[start:end]
            synced = content(disk, "/f") or b""
            touched, shortest = set(), len(synced)
