"""Old segments give way to new ones: whatever is interrupted, the log is the old one or the new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from support.logs.log_files import (
    COMPACTED,
    DIRECTORY,
    Bench,
    busy_log,
    content,
    derived,
    names_in,
    offsets_of,
    path,
    read_file,
    segment_names,
    write_file,
)
from tailrace.record.shallow import batches
from tailrace.sim.faults import SimulatedCrash, Survival
from tailrace.storage import names
from tailrace.storage.segment import LogSegment
from tailrace.storage.swap import replace_segments, retire
from tailrace.storage.transaction_index import AbortedTxn
from tailrace.storage.unified_log import UnifiedLog

SUFFIXES = (names.CLEANED_SUFFIX, names.SWAP_SUFFIX, names.DELETED_SUFFIX)


class Prepared(NamedTuple):
    """A flushed log, and the ways its first two segments (offsets 0 to 18) may be written anew."""

    bench: Bench
    log: UnifiedLog
    end: int


def prepared() -> Prepared:
    bench = Bench(COMPACTED)
    log = bench.open()
    busy_log(log)
    log.flush()
    bench.finish_jobs()
    log.close()
    bench.disk.sync_all()
    log = bench.open(was_clean=True)
    bench.finish_jobs()
    assert log.local.segments.base_offsets == (0, 10, 19)
    return Prepared(bench, log, log.log_end_offset)


def rewritten(log: UnifiedLog, bases: Sequence[int], dropped: Sequence[int] = ()) -> list[LogSegment]:
    """The first two segments' batches in segments of these bases, without those that begin at `dropped`."""
    data = b"".join(read_file(log.local.place.env.files, each.records.path) for each in list(log.local.segments)[:2])
    aborted = [each for segment in list(log.local.segments)[:2] for each in segment.txn_index.all()]
    made: list[LogSegment] = []
    for base, end in zip(bases, [*bases[1:], 19], strict=True):
        segment = LogSegment.create(log.local.place, base, names.CLEANED_SUFFIX)
        for batch in batches(data):
            if base <= batch.base_offset < end and batch.base_offset not in dropped:
                segment.append((batch,), (data[batch.position : batch.end],), batch.size)
        for each in aborted:
            if base <= each.last_offset < end and each.last_offset not in dropped:
                segment.add_aborted(each)
        segment.become_inactive()
        made.append(segment)
    return made


def merge(log: UnifiedLog) -> None:
    replace_segments(
        log.local.place, log.local.segments, list(log.local.segments)[:2], rewritten(log, [0], dropped=(0, 7, 12))
    )


def split_in_three(log: UnifiedLog) -> None:
    replace_segments(log.local.place, log.local.segments, list(log.local.segments)[:2], rewritten(log, [0, 5, 9]))


def split_and_drop(log: UnifiedLog) -> None:
    """Five out of two, the first of which is empty: it marks where the old ones began."""
    replace_segments(
        log.local.place,
        log.local.segments,
        list(log.local.segments)[:2],
        rewritten(log, [0, 3, 7, 10, 17], dropped=(0,)),
    )


def empty_the_second(log: UnifiedLog) -> None:
    """The new segment ends where the first old one did: a load cannot know that it stands for the second one too."""
    replace_segments(
        log.local.place,
        log.local.segments,
        list(log.local.segments)[:2],
        rewritten(log, [0], dropped=range(10, 19)),
    )


SWAPS = [merge, split_in_three, split_and_drop, empty_the_second]


class View(NamedTuple):
    """What must be that of the old log or that of the new one, as a whole."""

    content: bytes
    aborted: tuple[AbortedTxn, ...]


def view(log: UnifiedLog) -> View:
    return View(content(log), derived(log).aborted)


def both_views(swap: Callable[[UnifiedLog], None]) -> tuple[View, View]:
    found = prepared()
    before = view(found.log)
    swap(found.log)
    after = view(found.log)
    assert before != after or swap is split_in_three
    return before, after


def check_load(bench: Bench, end: int, old: View, new: View) -> UnifiedLog:
    log = bench.open(recovery_point=end)
    assert view(log) in (old, new)
    left = [name for name in names_in(bench.disk) if name.endswith(SUFFIXES)]
    assert left == []
    return log


@pytest.mark.spec("LS-24")
def test_new_segments_take_the_place_of_old_ones() -> None:
    found = prepared()
    log = found.log
    merge(log)
    assert log.local.segments.base_offsets == (0, 19)
    assert {0, 7, 12}.isdisjoint(first for first, _ in offsets_of(log))
    merged = view(log)
    assert sorted(name for name in segment_names(found.bench.disk) if name.endswith(".log")) == [
        names.log_name(0),
        names.log_name(19),
    ]
    assert names.log_name(10) + names.DELETED_SUFFIX in names_in(found.bench.disk)
    found.bench.world.jobs.tick(found.bench.world.clock.now_ms() + 1000)
    found.bench.finish_jobs()
    assert not any(name.endswith(SUFFIXES) for name in names_in(found.bench.disk))
    found.bench.kill()
    assert view(found.bench.open(recovery_point=found.end)) == merged
    assert found.bench.findings() == []


@pytest.mark.spec("LS-24")
@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("survival", list(Survival))
def test_lost_power_at_any_operation_of_a_swap_leaves_the_old_log_or_the_new(
    swap: Callable[[UnifiedLog], None], survival: Survival
) -> None:
    old, new = both_views(swap)
    counted = prepared()
    before = counted.bench.disk.ops
    swap(counted.log)
    operations = counted.bench.disk.ops - before
    seen = set()
    for seed in range(3 if survival is Survival.ANY else 1):
        for crash_at in range(1, operations + 1):
            bench = prepared().bench.clone(seed * 1000 + crash_at)
            log = bench.open(was_clean=True)
            bench.disk.sync_all()
            bench.disk.crash_at(bench.disk.ops + crash_at)
            with pytest.raises(SimulatedCrash):
                swap(log)
            bench.lose_power(survival)
            seen.add(view(check_load(bench, log.log_end_offset, old, new)))
            assert bench.findings() == []
    assert seen == {old, new}


@pytest.mark.spec("LS-24")
@pytest.mark.parametrize("swap", SWAPS)
def test_lost_power_while_a_load_settles_a_swap_changes_nothing(swap: Callable[[UnifiedLog], None]) -> None:
    """Every state that a crash in the swap leaves is loaded, with a second crash at every operation of the load."""
    old, new = both_views(swap)
    end = prepared().end
    states: dict[tuple[str, ...], Bench] = {}
    counted = prepared()
    before = counted.bench.disk.ops
    swap(counted.log)
    for crash_at in range(1, counted.bench.disk.ops - before + 1):
        bench = prepared().bench.clone(crash_at)
        log = bench.open(was_clean=True)
        bench.disk.sync_all()
        bench.disk.crash_at(bench.disk.ops + crash_at)
        with pytest.raises(SimulatedCrash):
            swap(log)
        bench.lose_power()
        if any(name.endswith(SUFFIXES) for name in names_in(bench.disk)):
            states.setdefault(tuple(names_in(bench.disk)), bench)
    assert len(states) > 10
    for number, state in enumerate(states.values()):
        whole = state.clone(number)
        before = whole.disk.ops
        expected = view(check_load(whole, end, old, new))
        for crash_at in range(before + 1, whole.disk.ops + 1):
            bench = state.clone(1000 * number + crash_at)
            bench.disk.crash_at(crash_at)
            with pytest.raises(SimulatedCrash):
                bench.open(recovery_point=end)
            bench.lose_power()
            assert view(check_load(bench, end, old, new)) == expected


@pytest.mark.spec("LS-24")
def test_a_removed_segment_that_comes_back_has_its_transaction_index() -> None:
    """Or none of its other indexes, so that the load makes all of them anew."""
    found = prepared()
    before = view(found.log)
    came_back = 0
    for seed in range(40):
        bench = found.bench.clone(seed)
        log = bench.open(was_clean=True)
        bench.disk.sync_all()
        retire(log.local.place, list(log.local.segments)[:1])
        bench.lose_power()
        log = bench.open(recovery_point=found.end)
        if log.local.segments.base_offsets[0] == 0:
            came_back += 1
            assert view(log) == before
    assert came_back < 40


def test_old_files_that_cannot_be_unlinked_are_left_to_the_next_load() -> None:
    found = prepared()
    merge(found.log)
    found.bench.disk.fail_next("unlink", "*.deleted", times=None)
    found.bench.world.jobs.tick(found.bench.world.clock.now_ms() + 1000)
    found.bench.finish_jobs()
    found.bench.disk.faults.heal()
    found.bench.kill()
    found.bench.open(recovery_point=found.end)
    assert not any(name.endswith(SUFFIXES) for name in names_in(found.bench.disk))


def lay_out(bench: Bench, segment: LogSegment, suffix: str) -> None:
    segment.sync()
    segment.records.change_suffix(names.CLEANED_SUFFIX, suffix)
    segment.change_index_suffix(names.CLEANED_SUFFIX, suffix)
    bench.disk.sync_all()


@pytest.mark.spec("LS-24")
def test_files_that_were_being_removed_or_written_go() -> None:
    found = prepared()
    before = view(found.log)
    for segment in rewritten(found.log, [0, 10]):
        lay_out(found.bench, segment, names.DELETED_SUFFIX if segment.base_offset else names.CLEANED_SUFFIX)
    found.bench.kill()
    log = found.bench.open(recovery_point=found.end)
    assert view(log) == before
    assert not any(name.endswith(SUFFIXES) for name in names_in(found.bench.disk))


@pytest.mark.spec("LS-24")
def test_a_whole_swap_replaces_everything_from_its_base_to_its_end() -> None:
    found = prepared()
    (merged,) = rewritten(found.log, [0], dropped=(0, 7, 12))
    lay_out(found.bench, merged, names.SWAP_SUFFIX)
    found.bench.kill()
    log = found.bench.open(recovery_point=found.end)
    assert log.local.segments.base_offsets == (0, 19)
    assert {0, 7, 12}.isdisjoint(first for first, _ in offsets_of(log))
    assert [each.last_offset for each in derived(log).aborted] == [9, 16]


@pytest.mark.spec("LS-24")
@pytest.mark.parametrize("cleaned_base", [0, 5])
def test_a_swap_at_or_above_an_unfinished_segment_is_dropped(cleaned_base: int) -> None:
    found = prepared()
    before = view(found.log)
    for segment in rewritten(found.log, [0, 5], dropped=(0, 7, 12)):
        if segment.base_offset == 5:
            lay_out(found.bench, segment, names.SWAP_SUFFIX)
    LogSegment.create(found.log.local.place, cleaned_base, names.CLEANED_SUFFIX)
    found.bench.kill()
    log = found.bench.open(recovery_point=found.end)
    assert view(log) == before
    assert log.local.segments.base_offsets == (0, 10, 19)


@pytest.mark.spec("LS-24")
def test_a_swap_below_an_unfinished_segment_counts() -> None:
    found = prepared()
    (merged,) = rewritten(found.log, [0], dropped=(0, 7, 12))
    lay_out(found.bench, merged, names.SWAP_SUFFIX)
    LogSegment.create(found.log.local.place, 19, names.CLEANED_SUFFIX)
    found.bench.kill()
    log = found.bench.open(recovery_point=found.end)
    assert log.local.segments.base_offsets == (0, 19)
    assert 0 not in [first for first, _ in offsets_of(log)]


@pytest.mark.spec("LS-24")
def test_an_index_that_alone_was_not_swapped_in_yet_follows_its_data() -> None:
    """A crash after the data file's rename: the index is taken as it is, since nothing of it is older."""
    found = prepared()
    disk = found.bench.disk
    found.bench.close(found.log)
    index = read_file(disk, path(names.txn_index_name(10)))
    disk.rename(path(names.txn_index_name(10)), path(names.txn_index_name(10) + names.SWAP_SUFFIX))
    disk.sync_all()
    log = found.bench.open(was_clean=True)
    assert read_file(disk, path(names.txn_index_name(10))) == index
    assert [each.last_offset for each in derived(log).aborted] == [9, 16]


@pytest.mark.spec("LS-24")
def test_names_that_only_look_like_a_segments_are_left_alone() -> None:
    found = prepared()
    before = view(found.log)
    found.bench.close(found.log)
    disk = found.bench.disk
    strangers = ["README.swap", "0.log.swap", "99999999999999999999.log", "00000000000000000003.logs"]
    for name in strangers:
        write_file(disk, path(name), b"")
    disk.make_dir(path(names.log_name(3) + names.SWAP_SUFFIX))
    assert view(found.bench.open(was_clean=True)) == before
    assert set(strangers) <= set(names_in(disk))
    assert disk.list(DIRECTORY)
