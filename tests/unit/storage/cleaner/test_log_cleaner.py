"""The cleaner at work over a broker's logs: what it cleans, when, and when it must not."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest

from support.compaction.cleaners import BACKOFF_MS, COMPACT, CleanedWorld
from support.logs.builders import in_transaction, marker
from support.logs.managers import IDENTITY, LOG_CONFIG, P0, P1
from tailrace.config.cleaner import CleanerConfig
from tailrace.config.table import ConfigError
from tailrace.metrics.metrics import Metrics
from tailrace.model.ids import TopicPartition
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import COMMIT, end_txn_marker
from tailrace.storage import names
from tailrace.storage.cleaner.states import Paused
from tailrace.storage.compaction.log_compaction import Cleanable, cleanable_of
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.origin import Origin
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

OTHER = TopicPartition("other", 0)


def left_behind(run: CleanedWorld, partition: TopicPartition = P0) -> list[str]:
    suffixes = (names.CLEANED_SUFFIX, names.SWAP_SUFFIX)
    return [name for name in run.names(run.log(partition).dir) if name.endswith(suffixes)]


def is_clean(run: CleanedWorld, partition: TopicPartition = P0) -> bool:
    """No key occurs twice below the active segment."""
    active = run.log(partition).local.active.base_offset
    keys = [key for offset, key in run.keys_at(partition) if offset < active]
    return len(keys) == len(set(keys))


def latest(run: CleanedWorld) -> dict[bytes, int]:
    return {key: offset for offset, key in run.keys_at()}


def first_base(run: CleanedWorld, partition: TopicPartition) -> int:
    return next(iter(run.log(partition).local.segments)).base_offset


# When


@pytest.mark.spec("LM-15", "LM-46")
def test_dirty_logs_are_cleaned_one_after_the_other_without_a_pause() -> None:
    run = CleanedWorld()
    partitions = [TopicPartition("t", n) for n in range(4)]
    for partition in partitions:
        run.dirty(partition)
    assert sorted(run.clean()) == partitions
    assert all(is_clean(run, partition) for partition in partitions)
    assert dict(run.jobs.waiting)["kafka-log-cleaner-thread-0"] == BACKOFF_MS


@pytest.mark.spec("LM-46")
def test_it_sleeps_for_the_backoff_when_there_is_nothing_to_clean() -> None:
    run = CleanedWorld(log_cleaner_backoff_ms=7000)
    run.dirty()
    run.pass_time(6999)
    assert run.cleaned == []
    run.pass_time(1)
    assert run.cleaned == [P0]
    run.run()
    run.put()
    run.pass_time(6999)
    assert run.cleaned == [P0]
    run.pass_time(1)
    assert run.cleaned == [P0, P0]


@pytest.mark.spec("LM-46")
def test_without_the_cleaner_nothing_is_cleaned() -> None:
    run = CleanedWorld(log_cleaner_enable=False)
    run.dirty()
    before = run.keys_at()
    run.pass_time(10 * BACKOFF_MS)
    assert run.manager.cleaner is None
    assert run.keys_at() == before
    assert not any("cleaner" in name for name, _ in run.jobs.waiting)


@pytest.mark.spec("LM-15")
def test_the_dirtiest_comes_first_and_clean_ones_not_at_all() -> None:
    run = CleanedWorld()
    run.dirty(P0, count=200)
    assert run.clean() == [P0]
    run.put(P0, count=40)
    run.dirty(P1, count=60)
    assert run.clean()[0] == P1
    assert run.clean() == []


@pytest.mark.spec("LM-25")
def test_two_workers_clean_two_logs_at_a_time() -> None:
    run = CleanedWorld(log_cleaner_threads=2)
    run.dirty(P0)
    run.dirty(P1)
    run.cleaner.awake()
    most = 0
    while len(run.cleaned) < 2:
        assert run.jobs.run_one() or run.jobs.tick() is None
        most = max(most, len(run.cleaner.progress))
        assert len({each.partition for each in run.cleaner.progress}) == len(run.cleaner.progress)
    assert most == 2


def test_more_logs_than_one_turn_looks_at() -> None:
    run = CleanedWorld()
    partitions = [TopicPartition("t", n) for n in range(230)]
    for partition in partitions:
        run.create(partition)
    run.put(partitions[229])
    run.put(partitions[3])
    assert sorted(run.clean()) == [partitions[3], partitions[229]]


def test_a_log_that_has_not_changed_is_looked_at_closely_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CleanedWorld()
    closely: list[str] = []

    def watched(log: UnifiedLog, *arguments: Any) -> Cleanable:
        closely.append(log.dir)
        return cleanable_of(log, *arguments)

    monkeypatch.setattr("tailrace.storage.compaction.log_compaction.cleanable_of", watched)
    run.dirty(P0)
    run.create(P1)
    run.clean()
    closely.clear()
    run.clean()
    assert closely == []
    run.put(P0, count=1)  # to the active segment
    run.clean()
    assert closely == []
    run.put(P0)
    assert run.clean() == [P0]
    closely.clear()
    run.manager.update_config("orders", replace(COMPACT, max_compaction_lag_ms=10**6))
    run.clean()
    run.clean()
    assert len(closely) == 4  # the time counts


@pytest.mark.spec("LM-16")
def test_a_log_is_looked_at_again_when_a_transaction_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CleanedWorld()
    run.create()
    builder = BatchBuilder(transactional=True, producer_id=3, producer_epoch=0, base_sequence=0)
    builder.append(run.world.clock.now_ms(), b"0", b"")
    assert run.log().append_as_leader((builder.build(),), 0)[0].error is None
    run.put()
    assert run.clean() == []
    marker = end_txn_marker(COMMIT, producer_id=3, producer_epoch=0, coordinator_epoch=0, timestamp=0)
    assert run.log().append_as_leader((marker,), 0, Origin.COORDINATOR)[0].error is None
    run.log().update_high_watermark(run.log().log_end_offset)
    assert run.clean() == [P0]


@pytest.mark.spec("LM-17")
@pytest.mark.parametrize("text", ["orders 0 5000", "orders 0 0"])
def test_a_checkpoint_outside_of_the_log_is_reset(text: str) -> None:
    run = CleanedWorld()
    run.dirty()
    run.log().increment_log_start(10)
    run.shutdown()
    run.write("/a/cleaner-offset-checkpoint", f"0\n1\n{text}\n".encode())
    run.new()
    run.start()
    run.clean()
    assert run.cleaned == [P0]
    assert is_clean(run)
    assert run.checkpoint() == b"0\n1\norders 0 %d\n" % run.log().local.active.base_offset


def test_a_damaged_checkpoint_makes_every_log_dirty(caplog: pytest.LogCaptureFixture) -> None:
    run = CleanedWorld()
    run.dirty()
    run.clean()
    run.shutdown()
    run.write("/a/cleaner-offset-checkpoint", b"0\nmany\n")
    run.new()
    run.start()
    assert "counts as empty" in caplog.text
    run.clean()
    assert run.checkpoint() == b"0\n1\norders 0 %d\n" % run.log().local.active.base_offset


def test_what_the_checkpoint_says_of_partitions_that_are_gone_is_forgotten() -> None:
    run = CleanedWorld()
    run.shutdown()
    run.write("/a/cleaner-offset-checkpoint", b"0\n2\norders 0 40\nother 3 5\n")
    run.new()
    run.start()
    run.dirty()
    assert run.cleaner.cleaner_point("/a", P0) is None
    run.clean()
    assert is_clean(run)


def test_a_restart_goes_on_from_the_checkpoint() -> None:
    run = CleanedWorld()
    run.dirty()
    run.clean()
    point = run.cleaner.cleaner_point("/a", P0)
    run.restart()
    assert run.cleaner.cleaner_point("/a", P0) == point == run.log().local.active.base_offset
    assert run.clean() == []


# Deleting


@pytest.mark.spec("LM-26", "LM-34")
def test_compact_and_delete_does_both() -> None:
    both = replace(COMPACT, cleanup_policy=("compact", "delete"), retention_ms=100_000)
    run = CleanedWorld({"other": both})
    run.dirty(OTHER)
    assert run.clean() == [OTHER]
    assert is_clean(run, OTHER)
    kept = run.log(OTHER).log_start_offset
    run.world.clock.advance(200_000)
    run.clean()
    assert run.log(OTHER).log_start_offset > kept
    assert run.keys_at(OTHER) == []


@pytest.mark.spec("LM-34")
def test_compact_alone_deletes_only_below_the_log_start() -> None:
    old = replace(COMPACT, retention_ms=1, retention_bytes=0, min_cleanable_dirty_ratio=1.0)
    run = CleanedWorld({"other": old})
    run.dirty(OTHER)
    run.world.clock.advance(200_000)
    run.clean()
    assert len(run.keys_at(OTHER)) == 60
    third = list(run.log(OTHER).local.segments)[2].base_offset
    run.log(OTHER).increment_log_start(third + 1)
    run.clean()
    assert run.keys_at(OTHER)[0][0] == third


@pytest.mark.spec("LM-34")
def test_after_each_clean_old_segments_go() -> None:
    run = CleanedWorld()
    run.dirty(P0)
    run.dirty(P1)
    run.log(P1).increment_log_start(list(run.log(P1).local.segments)[2].base_offset)
    run.log(P1).use_config(replace(COMPACT, min_cleanable_dirty_ratio=1.0))
    first = first_base(run, P1)
    run.cleaner.awake()
    while not run.cleaned:
        assert run.jobs.run_one() or run.jobs.tick() is None
    run.jobs.tick()
    assert run.cleaned == [P0]
    assert first_base(run, P1) > first


@pytest.mark.spec("LM-34")
def test_the_retention_task_leaves_compacted_logs_to_the_cleaner() -> None:
    both = replace(COMPACT, cleanup_policy=("compact", "delete"), retention_ms=1, min_cleanable_dirty_ratio=1.0)
    run = CleanedWorld({"other": both, "plain": replace(LOG_CONFIG, retention_ms=1)})
    plain = TopicPartition("plain", 0)
    run.dirty(OTHER)
    run.dirty(plain)
    run.world.clock.advance(100)
    assert run.manager.delete_old_segments() > 0
    assert run.log(plain).log_start_offset == 60
    assert run.log(OTHER).log_start_offset == 0
    run.clean()
    assert run.log(OTHER).log_start_offset == 60


# Keeping it off


@pytest.mark.spec("LM-23")
@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_whoever_pauses_finds_the_partition_free_and_whole(steps: int) -> None:
    run = CleanedWorld(log_cleaner_io_buffer_size=300)
    run.dirty(count=100)
    before = latest(run)
    run.begin(steps=steps)
    run.cleaner.pause((P0,))
    assert run.cleaner.state_of(P0) == Paused(1)
    assert left_behind(run) == []
    assert latest(run) == before
    run.put(count=10)
    before = latest(run)
    assert P0 not in run.clean()
    run.cleaner.pause((P0,))
    run.cleaner.resume((P0,))
    assert P0 not in run.clean()
    run.cleaner.resume((P0,))
    assert run.clean() == [P0]
    assert is_clean(run)
    assert latest(run) == before


@pytest.mark.spec("LM-23", "LM-41")
@pytest.mark.parametrize("steps", [0, 5, 12, 25])
def test_truncation_aborts_the_clean_and_rewinds_its_checkpoint(steps: int) -> None:
    run = CleanedWorld(log_cleaner_io_buffer_size=300)
    run.dirty(count=200)
    run.clean()
    point = run.cleaner.cleaner_point("/a", P0)
    assert point is not None
    assert point > 100
    run.put(count=300)
    run.begin(steps=steps)
    run.truncate_to({P0: 90})
    assert run.cleaner.is_idle
    assert run.cleaner.state_of(P0) is None
    assert left_behind(run) == []
    active = run.log().local.active.base_offset
    assert run.cleaner.cleaner_point("/a", P0) == active <= 90
    assert run.checkpoint() == b"0\n1\norders 0 %d\n" % active  # durable before anything is appended
    run.put(count=200, keys=3)
    assert run.clean() == [P0]
    assert is_clean(run)


@pytest.mark.spec("LM-41")
def test_the_checkpoint_is_rewound_before_cleaning_resumes() -> None:
    run = CleanedWorld()
    run.dirty(count=200)
    run.clean()
    seen: list[int | None] = []
    resume = run.cleaner.resume

    def watched(partitions: object) -> None:
        seen.append(run.cleaner.cleaner_point("/a", P0))
        resume((P0,))

    run.cleaner.resume = watched  # type: ignore[method-assign]
    run.truncate_to({P0: 3})
    assert seen == [run.log().local.active.base_offset]


@pytest.mark.spec("LM-23")
def test_emptying_a_log_aborts_its_clean() -> None:
    run = CleanedWorld(log_cleaner_io_buffer_size=300)
    run.dirty()
    run.begin()
    run.truncate_fully(P0, 1000)
    assert run.cleaner.is_idle
    assert left_behind(run) == []
    assert run.cleaner.state_of(P0) is None
    run.put()
    assert run.clean() == [P0]
    assert run.keys_at()[0][0] >= 1000


@pytest.mark.spec("LM-23", "LM-40")
def test_deleting_a_partition_aborts_its_clean_and_its_checkpoint_goes() -> None:
    run = CleanedWorld(log_cleaner_io_buffer_size=300)
    run.dirty()
    run.dirty(P1)
    run.clean()
    run.put()
    run.begin()
    assert run.delete(P0) == {}
    assert run.cleaner.state_of(P0) is None
    assert run.checkpoint() == b"0\n1\norders 1 %d\n" % run.log(P1).local.active.base_offset
    run.dirty(P0)
    assert run.clean() == [P0]


@pytest.mark.spec("LM-23")
def test_a_move_takes_the_checkpoint_along() -> None:
    run = CleanedWorld(directories=("/a", "/b"), log_cleaner_io_buffer_size=300)
    run.dirty(P0, "/a", count=100)
    run.clean()
    point = run.cleaner.cleaner_point("/a", P0)
    future = run.create_future(P0, "/b")
    while future.log_end_offset < 100:
        future.append_as_follower(bytearray(run.log().read(future.log_end_offset, 1400).read()))
    future.update_high_watermark(100)
    while not run.manager.finish_move(P0):
        run.run()
    run.run()
    assert run.cleaner.cleaner_point("/b", P0) == point
    assert run.cleaner.cleaner_point("/a", P0) is None
    assert run.checkpoint("/a") == b"0\n0\n"
    assert run.checkpoint("/b") == b"0\n1\norders 0 %d\n" % point


@pytest.mark.spec("LM-23", "LM-33")
def test_retention_pauses_the_cleaner_on_what_it_works_on() -> None:
    run = CleanedWorld({"plain": LOG_CONFIG})
    plain = TopicPartition("plain", 0)
    run.dirty(plain)
    states: list[object] = []
    log = run.log(plain)
    delete = log.delete_old_segments

    def watched(checkpoint: object) -> object:
        states.append(run.cleaner.state_of(plain))
        return delete(checkpoint)  # type: ignore[arg-type]

    log.delete_old_segments = watched  # type: ignore[method-assign,assignment]
    run.manager.delete_old_segments()
    assert states == [Paused(1)]
    assert run.cleaner.state_of(plain) is None


def test_a_topic_that_compacts_no_more_is_let_go_of() -> None:
    run = CleanedWorld(log_cleaner_io_buffer_size=300)
    run.dirty()
    run.begin()
    run.manager.update_config("orders", LOG_CONFIG)
    assert run.cleaner.is_idle
    before = run.keys_at()
    assert run.clean() == []
    assert run.keys_at() == before
    run.manager.update_config("orders", COMPACT)
    assert run.clean() == [P0]


def test_shutdown_calls_cleans_off_and_leaves_a_clean_directory() -> None:
    run = CleanedWorld(log_cleaner_io_buffer_size=300)
    run.dirty()
    run.begin()
    directory = run.log().dir
    run.shutdown()
    assert not [name for name in run.names(directory) if name.endswith((names.CLEANED_SUFFIX, names.SWAP_SUFFIX))]
    assert ".kafka_cleanshutdown" in run.names("/a")
    run.new()
    run.start()
    run.clean()
    assert is_clean(run)


@pytest.mark.spec("LM-27")
def test_a_failing_directory_takes_its_cleans_along_and_others_go_on() -> None:
    run = CleanedWorld(directories=("/a", "/b"), log_cleaner_io_buffer_size=300)
    run.dirty(P0, "/a")
    run.dirty(P1, "/b", count=80)
    run.disk.fail_next("write", "/a/*.cleaned", 5)
    run.clean()
    run.run()
    assert [directory.path for directory in run.manager.directories.offline] == ["/a"]
    assert run.manager.log(P0) is None
    assert run.cleaned == [P1]
    assert run.cleaner.uncleanable("/a") == {}
    assert run.cleaner.cleaner_point("/a", P0) is None
    assert run.cleaner.is_idle


# Pace and pool


@pytest.mark.spec("LM-25")
def test_the_throttle_stretches_a_clean() -> None:
    free, slow = CleanedWorld(), CleanedWorld(log_cleaner_io_max_bytes_per_second=1000.0)
    for run in (free, slow):
        run.dirty()
        began = run.world.clock.monotonic_ms()
        run.cleaner.awake()
        while not run.cleaned:
            run.pass_time(100)
        took_ms = run.world.clock.monotonic_ms() - began
        stats = run.gauge("max-clean-time-secs")[()]
        assert (took_ms > 8000) == (run is slow)  # about 8 kB are read twice
        assert (stats > 5) == (run is slow)


@pytest.mark.spec("LM-25", "LM-47")
def test_another_configuration_makes_another_pool() -> None:
    run = CleanedWorld(log_cleaner_io_buffer_size=300)
    run.dirty()
    run.dirty(P1)
    run.begin()
    config = replace(run.cleaner.config, log_cleaner_threads=2, log_cleaner_backoff_ms=100)
    run.cleaner.reconfigure(config)
    assert run.cleaner.is_idle
    assert left_behind(run) == []
    assert sorted(run.clean()) == [P0, P1]
    run.put()
    run.put(P1)
    run.pass_time(100)
    assert sorted(run.cleaned[2:]) == [P0, P1]


@pytest.mark.spec("LM-25")
@pytest.mark.parametrize(("threads", "wanted"), [(1, 3), (4, 1), (4, 9)])
def test_threads_are_halved_or_doubled_at_most(threads: int, wanted: int) -> None:
    run = CleanedWorld(log_cleaner_threads=threads)
    with pytest.raises(ConfigError, match="halved or doubled"):
        run.cleaner.reconfigure(replace(run.cleaner.config, log_cleaner_threads=wanted))
    assert run.cleaner.config.log_cleaner_threads == threads
    run.dirty()
    assert run.clean() == [P0]


def kill_a_worker(run: CleanedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what is no log's fault."""

    def no_memory(*arguments: object) -> None:
        raise MemoryError("no room for an offset map")

    with monkeypatch.context() as patched:
        patched.setattr("tailrace.storage.compaction.offset_map.OffsetMap", no_memory)
        run.clean()


@pytest.mark.spec("LM-29", "LM-47")
def test_a_dead_worker_is_counted_and_a_new_pool_has_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = CleanedWorld()
    run.dirty()
    kill_a_worker(run, monkeypatch)
    assert run.gauge("DeadThreadCount") == {(): 1}
    assert "no room for an offset map" in caplog.text
    assert run.clean() == []
    run.cleaner.reconfigure(run.cleaner.config)
    assert run.gauge("DeadThreadCount") == {(): 0}
    assert run.clean() == [P0]


def test_a_dead_worker_comes_back_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CleanedWorld()
    run.dirty()
    kill_a_worker(run, monkeypatch)
    run.pass_time(BACKOFF_MS)
    assert run.gauge("DeadThreadCount") == {(): 0}
    assert run.cleaned == [P0]


@pytest.mark.spec("LM-29")
def test_metrics_of_the_cleaner() -> None:
    run = CleanedWorld()
    run.dirty(count=100)
    assert run.gauge("cleaner-recopy-percent") == {(): 0}
    seen = []
    run.cleaner.awake()
    while not run.cleaned:
        assert run.jobs.run_one() or run.jobs.tick() is None
        seen.append(run.gauge("max-dirty-percent")[()])
    assert max(seen) == 100
    run.run()
    assert run.gauge("max-dirty-percent") == {(): 0}
    assert 0 < run.gauge("cleaner-recopy-percent")[()] < 50
    assert run.gauge("max-buffer-utilization-percent") == {(): 5}  # 5 keys, 100 slots
    assert run.gauge("max-clean-time-secs") == {(): 0}
    assert run.gauge("uncleanable-partitions-count") == {("/a",): 0}
    assert run.gauge("uncleanable-bytes") == {("/a",): 0}


@pytest.mark.spec("LM-29")
def test_metrics_are_found_where_exporters_look() -> None:
    run = CleanedWorld()
    metrics = Metrics()
    manager = LogManager(run.world.env, run.config, IDENTITY, WarmSet(5), metrics=metrics)
    names_seen = {gauge.name for gauge in metrics.read()}
    assert {"OfflineLogDirectoryCount", "DeadThreadCount", "uncleanable-bytes"} <= names_seen
    metrics.remove(manager.gauges)
    metrics.remove(manager.gauges)
    assert list(metrics.read()) == []


# Settings


def test_settings_of_the_cleaner() -> None:
    config = CleanerConfig.of({"log.cleaner.threads": "4", "log.cleaner.io.max.bytes.per.second": "1e6"})
    assert config.log_cleaner_threads == 4
    assert config.log_cleaner_io_max_bytes_per_second == 1e6
    assert config.log_cleaner_backoff_ms == 15_000


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log.cleaner.threads", "0"),
        ("log.cleaner.threads", "129"),  # less than a megabyte for each
        ("log.cleaner.dedupe.buffer.size", "1048576"),
        ("log.cleaner.io.buffer.load.factor", "0"),
        ("log.cleaner.io.buffer.load.factor", "1.1"),
        ("log.cleaner.io.max.bytes.per.second", "0"),
        ("log.cleaner.io.max.bytes.per.second", "nan"),
        ("log.cleaner.backoff.ms", "-1"),
        ("log.cleaner.enable", "perhaps"),
    ],
)
def test_settings_that_cannot_be(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.") if "threads" not in key else "threads"):
        CleanerConfig.of({key: value})


def test_enabling_needs_a_restart() -> None:
    with pytest.raises(ConfigError, match="started"):
        CleanerConfig().check_change(CleanerConfig(log_cleaner_enable=False))


# What fails


@pytest.mark.spec("LM-27")
def test_a_transaction_index_that_cannot_be_read_takes_the_directory_offline() -> None:
    """It must not be tried again and again, without a pause and without anybody's knowing."""
    run = CleanedWorld(directories=("/a", "/b"))
    run.create(P0, "/a")
    run.log().append_as_leader((in_transaction(1, 0),), 0)
    run.log().append_as_leader((marker(1, commit=False),), 0, Origin.COORDINATOR)
    run.put()
    run.run()
    run.disk.fail_next("open", "*.txnindex", times=None)
    assert run.clean() == []
    assert [each.path for each in run.manager.directories.offline] == ["/a"]


def test_a_log_that_takes_no_writes_is_not_cleaned_and_others_are() -> None:
    """What a swap that failed half way has left is judged by the next load, and must not be touched before."""
    run = CleanedWorld()
    run.dirty(P0, count=300, keys=100)
    run.dirty(P1)
    run.disk.fail_next("rename", "*orders-0/*.log.deleted", errno.ENOSPC)
    assert run.clean() == [P1]
    assert run.log().failure is not None
    before = run.names(run.log().dir)
    assert left_behind(run)
    run.pass_time(40_000)
    assert run.names(run.log().dir) == before
    assert run.cleaner.uncleanable("/a")[P0].failures == 2
    kept = run.keys_at()
    run.restart()
    assert run.keys_at() == kept
    assert left_behind(run) == []


def test_a_file_that_is_gone_keeps_nobody_else_from_being_cleaned() -> None:
    run = CleanedWorld()
    run.dirty(P0, count=200)
    run.dirty(P1)
    gone = list(run.log().local.segments)[1].records
    gone.cool()
    run.disk.unlink(gone.path)
    assert run.clean() == [P1]
    assert gone.path in run.cleaner.uncleanable("/a")[P0].reason
