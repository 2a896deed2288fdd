"""Single rules of the cleaner, each in a broker made for it: what is skipped, shared, deleted, reset and counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from support.compaction.cleaners import BACKOFF_MS, COMPACT, SMALL_MAP_BYTES, CleanedWorld
from support.logs.managers import P0, P1
from tailrace.config.cleaner import CleanerConfig
from tailrace.env import Mode
from tailrace.model.errors import StorageError
from tailrace.model.ids import TopicPartition
from tailrace.storage.cleaner.checkpoints import CleanerCheckpoints
from tailrace.storage.cleaner.selection import Selection
from tailrace.storage.steps import Steps
from tailrace.storage.unified_log import UnifiedLog

NEVER = replace(COMPACT, min_cleanable_dirty_ratio=1.0)
OTHER = TopicPartition("other", 0)


def damage(run: CleanedWorld, partition: TopicPartition) -> None:
    path = next(iter(run.log(partition).local.segments)).records.path
    file = run.disk.open(path, Mode.WRITE)
    file.write_at((bytes([file.read_at(1, 200)[0] ^ 1]),), 200)


def first_base(run: CleanedWorld, partition: TopicPartition) -> int:
    return next(iter(run.log(partition).local.segments)).base_offset


# Choosing


@pytest.mark.spec("LM-15")
def test_a_log_below_its_topics_ratio_is_left_alone() -> None:
    run = CleanedWorld({"other": replace(COMPACT, min_cleanable_dirty_ratio=0.9)})
    for partition in (P0, OTHER):
        run.dirty(partition, count=60, keys=60)
    assert set(run.clean()) == {P0, OTHER}
    for partition in (P0, OTHER):
        run.put(partition, count=120, keys=120)  # two thirds are dirty: above a half, below nine tenths
    assert set(run.clean()) == {P0}


@pytest.mark.spec("LM-15", "LM-24")
def test_the_dirtiest_log_is_skipped_while_it_cannot_be_cleaned() -> None:
    run = CleanedWorld()
    run.dirty(P0, count=60, keys=60)
    run.clean()
    run.dirty(P1)
    run.put(P0, count=120, keys=120)
    damage(run, P1)
    assert set(run.clean()) == {P0}
    run.put(P0, count=400, keys=400)
    assert set(run.clean()) == {P0}
    assert run.cleaner.uncleanable("/a")[P1].failures == 1


@pytest.mark.spec("LM-15")
def test_a_log_that_one_worker_cleans_is_no_other_workers() -> None:
    run = CleanedWorld(log_cleaner_threads=2, log_cleaner_io_buffer_size=600)
    run.dirty(count=200)
    run.begin()
    seen = 0
    while not run.cleaned:
        assert run.jobs.run_one() or run.jobs.tick() is None
        seen = max(seen, len(run.cleaner.progress))
    assert seen == 1


@pytest.mark.spec("LM-15")
def test_the_next_dirtiest_log_is_chosen_where_the_dirtiest_is_taken_while_others_are_looked_at() -> None:
    run = CleanedWorld()
    for partition in (P0, P1, OTHER):
        run.dirty(partition, count=60, keys=60)
    run.clean()
    for partition, count in ((P0, 120), (P1, 240), (OTHER, 180)):
        run.put(partition, count=count)
    store = run.cleaner._store
    checkpoints = CleanerCheckpoints(store)
    for directory in store.directories.live:
        checkpoints.read(directory)
    asked: Counter[TopicPartition] = Counter()

    def may_clean(partition: TopicPartition) -> bool:
        asked[partition] += 1
        assert asked[partition] <= 2, "a log that another worker has taken is no candidate again"
        return partition != P1 or asked[partition] == 1

    looking = Selection(store, checkpoints, may_clean, lambda *_: None).dirtiest()
    with pytest.raises(StopIteration) as ended:
        next(looking)
    assert ended.value.value.partition == OTHER


@pytest.mark.spec("LM-17")
@pytest.mark.parametrize("offset", [5000, 0])
def test_a_checkpoint_outside_of_the_log_is_rewritten_though_nothing_is_cleaned(
    offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    run = CleanedWorld({"orders": NEVER})
    run.dirty()
    run.log().increment_log_start(10)
    run.shutdown()
    run.write("/a/cleaner-offset-checkpoint", b"0\n1\norders 0 %d\n" % offset)
    run.new()
    run.start()
    run.clean()
    assert run.checkpoint() == b"0\n1\norders 0 10\n"
    assert "outside of the log" in caplog.text


# Sharing


@pytest.mark.spec("LM-25")
def test_two_workers_together_keep_to_the_rate() -> None:
    took_ms = []
    for threads in (1, 2):
        run = CleanedWorld(log_cleaner_threads=threads, log_cleaner_io_max_bytes_per_second=1000.0)
        run.dirty(P0)
        run.dirty(P1)
        began = run.world.clock.monotonic_ms()
        run.cleaner.awake()
        while len(run.cleaned) < 2:
            run.pass_time(100)
        took_ms.append(run.world.clock.monotonic_ms() - began)
    assert took_ms[1] > 0.7 * took_ms[0]


@pytest.mark.spec("LM-25")
def test_another_rate_holds_from_the_next_pool_on() -> None:
    run = CleanedWorld(log_cleaner_io_max_bytes_per_second=1.0)
    run.dirty()
    run.cleaner.reconfigure(replace(run.cleaner.config, log_cleaner_io_max_bytes_per_second=1e12))
    began = run.world.clock.monotonic_ms()
    assert run.clean() == [P0]
    assert run.world.clock.monotonic_ms() - began < 1000


@pytest.mark.spec("LM-14", "LM-25")
def test_workers_share_the_memory_for_keys() -> None:
    assert CleanerConfig().log_cleaner_dedupe_buffer_size == 128 << 20
    assert CleanerConfig().log_cleaner_io_buffer_load_factor == 0.9
    for threads, percent in ((1, 40), (2, 80)):  # of 100 slots, or of 50
        run = CleanedWorld(log_cleaner_threads=threads, log_cleaner_dedupe_buffer_size=SMALL_MAP_BYTES)
        run.dirty(count=120, keys=40)
        assert run.clean() == [P0]
        assert run.gauge("max-buffer-utilization-percent") == {(): percent}


@pytest.mark.spec("LM-14")
def test_a_map_is_filled_up_to_the_load_factor_and_then_comes_another_clean() -> None:
    run = CleanedWorld(log_cleaner_io_buffer_load_factor=0.3)
    run.dirty(count=80, keys=40)
    cleans = run.clean()
    assert len(cleans) > 1
    assert run.gauge("max-buffer-utilization-percent")[()] <= 30


# Deleting and cutting


@pytest.mark.spec("LM-34")
def test_old_segments_go_after_a_clean_and_before_the_next() -> None:
    run = CleanedWorld({"other": NEVER}, log_cleaner_io_buffer_size=300)
    for partition in (P0, P1, OTHER):
        run.dirty(partition)
    run.log(OTHER).increment_log_start(list(run.log(OTHER).local.segments)[2].base_offset)
    before = first_base(run, OTHER)
    run.cleaner.awake()
    while not run.cleaned or not run.cleaner.progress:
        assert run.jobs.run_one() or run.jobs.tick() is None
    assert len(run.cleaned) == 1
    assert first_base(run, OTHER) > before


@pytest.mark.spec("LM-41")
def test_the_checkpoint_is_rewound_before_the_log_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash in between, records that come in the place of the cut ones would pass for clean."""
    run = CleanedWorld()
    run.dirty(count=200)
    run.clean()
    seen: list[bytes] = []
    cut = UnifiedLog.truncating

    def watched(log: UnifiedLog, offset: int) -> Steps[bool]:
        seen.append(run.checkpoint())
        return cut(log, offset)

    monkeypatch.setattr(UnifiedLog, "truncating", watched)
    run.truncate_to({P0: 3})
    assert seen == [b"0\n1\norders 0 %d\n" % run.log().local.active.base_offset]


@pytest.mark.spec("LM-27")
def test_what_was_uncleanable_in_a_failing_directory_is_dropped() -> None:
    run = CleanedWorld(directories=("/a", "/b"))
    run.dirty(P0, "/a")
    run.dirty(P1, "/b")
    damage(run, P0)
    run.clean()
    assert list(run.cleaner.uncleanable("/a")) == [P0]
    run.disk.fail_next("write", "/a/orders-0/*")
    with pytest.raises(StorageError):
        run.append(P0)
    run.run()
    assert run.manager.log(P0) is None
    assert run.cleaner.uncleanable("/a") == {}
    assert run.gauge("uncleanable-partitions-count")["/a",] == 0


# Counting


@pytest.mark.spec("LM-29")
def test_the_longest_clean_is_told_in_seconds() -> None:
    run = CleanedWorld(log_cleaner_io_max_bytes_per_second=1000.0)
    run.dirty()
    run.cleaner.awake()
    began = run.world.clock.monotonic_ms()
    while not run.cleaned:
        run.pass_time(100)
    took_s = (run.world.clock.monotonic_ms() - began) / 1000
    assert 0.5 * took_s < run.gauge("max-clean-time-secs")[()] <= took_s


@pytest.mark.spec("LM-22")
def test_dropped_records_without_a_key_are_told_with_their_number(caplog: pytest.LogCaptureFixture) -> None:
    plain = replace(COMPACT, cleanup_policy=("delete",))
    run = CleanedWorld({"other": plain})
    run.create(OTHER)
    run.append(OTHER, 30, key=None)
    run.log(OTHER).update_high_watermark(30)
    run.manager.update_config("other", COMPACT)
    assert run.clean() == [OTHER]
    assert "records without a key were dropped" in caplog.text
    assert "/a/other-0" in caplog.text


# Clocks


@pytest.mark.spec("LM-24")
@pytest.mark.parametrize("jump_ms", [-(10**9), 10**9])
def test_a_clock_that_jumps_changes_no_pause(jump_ms: int) -> None:
    run = CleanedWorld()
    run.dirty()
    damage(run, P0)
    run.clean()
    run.world.clock.set(run.world.clock.now_ms() + jump_ms)
    run.clean()
    assert run.cleaner.uncleanable("/a")[P0].failures == 1
    run.pass_time(BACKOFF_MS)
    assert run.cleaner.uncleanable("/a")[P0].failures == 2
