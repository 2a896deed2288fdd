"""Single rules of compaction, each in a log made for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.compaction.compacted_logs import COMPACTED, RETENTION_MS, CompactedLog
from support.logs.builders import DIRECTORY, batch, bytes_of
from tailrace.env import Mode
from tailrace.model.errors import CorruptMessageError, InvalidRecordError, SegmentGoneError, StorageError
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.record import legacy
from tailrace.record.compression import compress
from tailrace.record.legacy import compressed_wrapper, messages_of, plain_message
from tailrace.record.shallow import batches
from tailrace.storage import names
from tailrace.storage.compaction.log_compaction import cleanable_of
from tailrace.storage.fetch import Isolation
from tailrace.storage.segment import LogSegment
from tailrace.storage.steps import CalledOffError, JobRun


def values(log: CompactedLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in log.data_records()]


@pytest.mark.spec("LM-13")
def test_the_last_record_of_each_key_stays() -> None:
    log = CompactedLog()
    log.put([(b"a", b"1"), (b"b", b"1"), (b"a", b"2")])
    log.put([(b"b", b"2"), (b"c", b"1")])
    log.settle()
    log.put([(b"a", b"in the active segment")])
    log.all_moved_to_end()
    stats = log.clean()
    assert values(log) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1"), (5, b"a", b"in the active segment")]
    assert (stats.cleaner_point, stats.records_read, stats.records_dropped) == (5, 5, 2)
    assert stats.bytes_written < stats.bytes_read == stats.map_bytes_read


@pytest.mark.spec("LM-42")
def test_an_aborted_record_hides_nothing() -> None:
    log = CompactedLog()
    log.put([(b"a", b"committed")])
    log.put([(b"a", b"aborted")], producer_id=1, transactional=True)
    log.end(1, commit=False)
    log.settle()
    log.clean()
    assert values(log) == [(0, b"a", b"committed")]


@pytest.mark.spec("LM-21")
def test_nothing_beyond_the_last_stable_offset_is_touched() -> None:
    log = CompactedLog()
    log.put([(b"a", b"1")])
    log.roll()
    log.put([(b"a", b"2")])
    log.roll()
    log.put([(b"a", b"open")], producer_id=1, transactional=True)
    log.put([(b"a", b"3")])
    log.settle()
    assert log.log.last_stable_offset == 2
    assert log.clean().cleaner_point == 2
    assert [offset for offset, _, _ in values(log)] == [1, 2, 3]
    log.end(1, commit=True)
    log.settle()
    log.clean()
    assert [offset for offset, _, _ in values(log)] == [3]


@pytest.mark.spec("LM-21", "RF-15")
def test_a_marker_stays_until_its_records_are_gone_and_its_horizon_has_passed() -> None:
    log = CompactedLog()
    log.put([(b"a", b"1")], producer_id=1, transactional=True)
    log.end(1, commit=False)
    log.put([(b"a", b"2")], producer_id=1)  # so that the aborted batch is not the producer's last
    log.settle()
    log.clean()  # takes the records; their marker was of use
    assert log.markers() == [1]
    assert [each.first_offset for each in log.log.aborted_transactions(0, 2)] == [0]
    log.put([(b"x", b"")])
    log.settle()
    log.clean()  # the marker ends nothing any more
    horizon_ms = log.now_ms + RETENTION_MS
    assert [each.delete_horizon_ms for _, each in log.stored() if each.is_control] == [horizon_ms]
    assert log.log.aborted_transactions(0, 2) == ()
    log.wait(RETENTION_MS - 1)
    log.put([(b"x", b"")])
    log.settle()
    log.clean()
    assert log.markers() == [1]
    log.wait(1)
    log.put([(b"x", b"")])
    log.settle()
    log.clean()
    assert log.markers() == []
    assert log.findings() == []


@pytest.mark.spec("LM-20")
def test_a_tombstone_stays_until_its_horizon() -> None:
    log = CompactedLog()
    log.put([(b"a", b"1"), (b"b", b"1")])
    log.put([(b"a", None), (b"c", b"1")])
    log.put([(b"z", b"")])
    log.settle()
    log.clean()
    assert values(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1"), (4, b"z", b"")]
    for wait_ms, is_there in ((RETENTION_MS - 1, True), (1, False)):
        log.wait(wait_ms)
        log.put([(b"z", b"")])
        log.settle()
        log.clean()
        assert ((2, b"a", None) in values(log)) == is_there


@pytest.mark.spec("LM-22")
def test_records_without_a_key_go_and_are_counted() -> None:
    log = CompactedLog(replace(COMPACTED, cleanup_policy=("delete",)))
    log.put([(None, b"1"), (b"a", b"1"), (None, None)])
    log.put([(None, b"2")], codec=2)
    log.put([(b"b", b"")])
    log.log.use_config(COMPACTED)
    with pytest.raises(InvalidRecordError):
        log.append(batch(1, key=None))
    log.settle()
    assert log.clean().invalid_records == 3
    assert values(log) == [(1, b"a", b"1"), (4, b"b", b"")]


@pytest.mark.spec("LM-43")
@pytest.mark.parametrize("codec", [0, 3])
def test_a_map_that_gets_full_takes_several_cleans_to_the_same_end(codec: int) -> None:
    def filled() -> CompactedLog:
        log = CompactedLog()
        for n in range(12):
            log.put([(b"%d" % (n * m % 7), b"%d" % n) for m in range(1, 6)], codec=codec)
            if n % 3 == 2:
                log.roll()
        log.settle()
        return log

    whole = filled()
    whole.clean()
    log = filled()
    before = log.table()
    points = []
    while log.cleaner_point != log.log.local.active.base_offset:
        log.clean(slots=4, load_factor=0.9)  # room for three keys
        points.append(log.cleaner_point)
        assert log.table() == before
        assert log.data_records()[-1].offset == 59  # beyond the map everything stays
        assert len(points) < 60
    assert points == sorted(set(points))
    assert len(points) > 3
    assert log.table() == before
    assert {key for _, key, _ in values(log)} == {key for _, key, _ in values(whole)}


@pytest.mark.spec("LM-43")
def test_the_cleaner_point_is_behind_the_last_record_mapped() -> None:
    log = CompactedLog()
    log.put([(b"a", b""), (b"b", b""), (b"a", b""), (b"c", b""), (b"a", b"")])
    log.settle()
    assert log.clean(slots=3, load_factor=0.67).cleaner_point == 2  # a and b
    assert [offset for offset, _, _ in values(log)] == [0, 1, 2, 3, 4]
    assert log.clean(slots=3, load_factor=0.67).cleaner_point == 4
    assert [offset for offset, _, _ in values(log)] == [1, 2, 3, 4]


@pytest.mark.spec("LM-44")
def test_what_does_not_fit_one_segment_goes_into_several() -> None:
    log = CompactedLog(replace(COMPACTED, segment_bytes=100_000))
    for n in range(20):
        log.put([(b"%d" % n, bytes(400)), (b"x", b"")])
    log.put([(b"large", bytes(5000)), (b"x", b"")])  # more than a segment by itself
    log.put([(b"last", b"")])
    log.settle()
    before = log.table()
    log.log.use_config(COMPACTED)
    log.clean()
    sizes = [segment.size for segment in log.log.local.segments]
    assert len(sizes) > 5
    assert sum(size > COMPACTED.segment_bytes for size in sizes) == 1
    assert log.table() == before
    assert log.findings() == []
    log.reopen()
    assert log.table() == before


@pytest.mark.spec("LM-44")
def test_aborted_transactions_are_indexed_where_their_markers_are() -> None:
    log = CompactedLog(replace(COMPACTED, segment_bytes=100_000))
    for n in range(6):
        log.put([(b"%d" % n, bytes(700))])
        log.put([(b"a", b"")], producer_id=n, transactional=True)
        log.end(n, commit=False)
    log.put([(b"a", b"")])
    log.settle()
    aborted = log.log.aborted_transactions(0, 1000)
    log.log.use_config(COMPACTED)
    log.clean()
    assert len(log.log.local.segments) > 3
    assert log.log.aborted_transactions(0, 1000) == aborted
    for segment, following in zip(log.log.local.segments, list(log.log.local.segments)[1:], strict=False):
        for each in segment.txn_index.all():
            assert segment.base_offset <= each.last_offset < following.base_offset
    assert log.findings() == []


@pytest.mark.spec("LM-18")
def test_small_segments_are_merged() -> None:
    log = CompactedLog()
    for n in range(9):
        log.put([(b"%d" % n, bytes(300))])
        log.roll()
    log.settle()
    log.world.jobs.run_all()
    assert snapshots(log, names.SNAPSHOT_SUFFIX) == list(range(1, 10))
    log.clean()
    bases = list(log.log.local.segments.base_offsets)
    assert bases == [0, 5, 9]
    assert snapshots(log, names.SNAPSHOT_SUFFIX) == [9]
    assert snapshots(log, names.SNAPSHOT_SUFFIX + names.DELETED_SUFFIX) == list(range(1, 9))
    log.world.jobs.tick(log.now_ms + COMPACTED.file_delete_delay_ms)
    log.world.jobs.run_all()
    assert not [name for name in log.names() if name.endswith(names.DELETED_SUFFIX)]
    assert log.findings() == []


def snapshots(log: CompactedLog, suffix: str) -> list[int]:
    return [names.offset_of(name) for name in log.names() if name.endswith(suffix)]


@pytest.mark.spec("LM-21")
def test_the_last_batch_before_the_uncleanable_part_stays_if_empty() -> None:
    log = CompactedLog(replace(COMPACTED, cleanup_policy=("delete",)))
    log.put([(b"a", b"1")])
    log.put([(None, b"1"), (None, b"2")])
    log.log.use_config(COMPACTED)
    log.settle()
    log.clean()
    assert log.shape() == [(0, 0, 1, None), (1, 2, 0, None)]


@pytest.mark.spec("LM-31")
@pytest.mark.parametrize("max_message_bytes", [100, 3000, 100_000])
def test_a_batch_larger_than_the_buffer_makes_it_grow(max_message_bytes: int) -> None:
    log = CompactedLog(replace(COMPACTED, segment_bytes=100_000))
    log.put([(b"a", b"1")])
    log.put([(b"b", bytes(20_000)), (b"a", b"2")])
    log.put([(b"c", b"1")])
    log.settle()
    before = log.table()
    log.log.use_config(replace(log.config, max_message_bytes=max_message_bytes))
    log.tape.rewind()
    log.clean(io_buffer_bytes=1000)
    assert log.table() == before
    assert values(log)[0][0] == 1
    # 1000, 2000 and so on, in each of the two passes
    reads = [path for path in log.tape.of("read") if path.endswith(f"{names.log_name(0)}")]
    assert len(reads) < 40


@pytest.mark.spec("LM-31")
def test_a_batch_that_states_more_than_the_file_has_fails_the_clean() -> None:
    log = CompactedLog()
    log.put([(b"a", b"1")])
    log.put([(b"a", bytes(300))])
    log.settle()
    (first, *_) = log.log.local.segments
    path = first.records.path
    whole = [each.position for _, each in log.stored()][1]
    log.disk.open(path, Mode.WRITE).write_at([(1 << 30).to_bytes(4, "big")], whole + 8)
    before = log.names()
    with pytest.raises(CorruptMessageError):
        log.clean(io_buffer_bytes=200)
    assert log.names() == before


@pytest.mark.parametrize("bit", [5, 70, 8 * 61 + 3, 8 * 20])
def test_damage_is_not_given_a_new_checksum(bit: int) -> None:
    """Neither in the records nor in an offset, which no checksum covers."""
    log = CompactedLog()
    log.put([(b"a", b"1"), (b"b", b"1")])
    log.put([(b"a", b"2")])
    log.settle()
    log.flushed()
    (first, *_) = log.log.local.segments
    log.disk.flip_bit(first.records.path, bit)
    data = log.disk.open(first.records.path, Mode.READ).read_at(first.size, 0)
    before = log.names()
    with pytest.raises(CorruptMessageError):
        log.clean()
    assert log.disk.open(first.records.path, Mode.READ).read_at(first.size, 0) == data
    assert log.names() == before


def test_a_log_with_nothing_to_clean_stays_as_it_is() -> None:
    log = CompactedLog()
    assert log.clean().cleaner_point == 0
    log.put([(b"a", b"1"), (b"a", b"2")])
    log.all_moved_to_end()
    before = log.names()
    assert log.clean().cleaner_point == 0
    assert log.names() == before
    log.settle()
    assert log.clean().cleaner_point == 2
    names_then, data = log.names(), bytes_of(log.log)
    assert log.clean().cleaner_point == 2
    assert (log.names(), bytes_of(log.log)) == (names_then, data)


@pytest.mark.spec("LM-16", "LM-17", "LM-15")
def test_what_a_log_offers_to_be_cleaned() -> None:
    log = CompactedLog(replace(COMPACTED, min_compaction_lag_ms=1000, max_compaction_lag_ms=50_000))
    for _ in range(3):
        log.put([(b"a", b"1")])
        log.roll()
        log.wait(1000)
    log.settle()
    found = cleanable_of(log.log, None, log.now_ms)
    assert (found.log.first_dirty_offset, found.log.first_uncleanable_offset) == (0, 3)
    assert not found.is_checkpoint_reset
    found = cleanable_of(log.log, None, log.now_ms - 1007)
    assert found.log.first_uncleanable_offset == 2
    assert found.log.cleanable_bytes == sum(segment.size for segment in list(log.log.local.segments)[:2])
    found = cleanable_of(log.log, 99, log.now_ms)
    assert (found.log.first_dirty_offset, found.is_checkpoint_reset) == (0, True)
    assert not found.log.must_compact
    assert cleanable_of(log.log, 0, log.now_ms + 50_000).log.must_compact


# Attempts that do not end well


class Halted:
    """A clean that stands between two steps."""

    def __init__(self, log: CompactedLog, after_steps: int) -> None:
        self.steps = log.cleaning(io_buffer_bytes=300)
        self._work = next(self.steps)
        for _ in range(after_steps):
            self.step()

    def step(self) -> None:
        try:
            value = self._work()
        except Exception as error:
            self._work = self.steps.throw(error)
        else:
            self._work = self.steps.send(value)

    def go_on(self) -> None:
        while True:
            self.step()


@pytest.mark.parametrize("after_steps", range(0, 18, 2))
def test_a_clean_that_is_called_off_leaves_no_trace(after_steps: int) -> None:
    log = busy()
    before, content = log.names(), bytes_of(log.log)
    halted = Halted(log, after_steps)
    with pytest.raises(CalledOffError):
        halted.steps.throw(CalledOffError())
    assert (log.names(), bytes_of(log.log)) == (before, content)
    log.clean()
    assert log.findings() == []


def test_a_clean_that_is_let_go_of_touches_nothing_any_more() -> None:
    log = busy()
    halted = Halted(log, 12)
    before = log.names()
    log.tape.rewind()
    halted.steps.close()
    assert log.tape.calls == []
    log.clean()
    assert before != log.names()
    assert not [name for name in log.names() if name.endswith(names.CLEANED_SUFFIX)]


def test_a_clean_by_jobs_ends_after_the_step_on_its_way() -> None:
    log = busy()
    log.world.jobs.run_all()
    before = log.names()
    ended: list[Any] = []
    run = JobRun("clean", log.cleaning(io_buffer_bytes=300), log.world.jobs, ended.append, ended.append)
    run.start()
    for _ in range(29):
        log.world.jobs.run_one()
    assert [name for name in log.names() if name.endswith(names.CLEANED_SUFFIX)]
    run.call_off(CalledOffError())
    log.world.jobs.run_all()
    assert [type(each) for each in ended] == [CalledOffError]
    assert log.names() == before


def busy() -> CompactedLog:
    log = CompactedLog()
    for n in range(6):
        log.put([(b"%d" % (n % 4), bytes(200)), (b"x", b"")])
    log.settle()
    log.flushed()
    return log


@pytest.mark.parametrize("change", ["truncate", "truncate active", "delete"])
def test_a_log_that_changes_meanwhile_is_not_swapped(change: str) -> None:
    log = busy()
    log.put([(b"y", b""), (b"z", b"")])
    log.put([(b"y", b""), (b"z", b"")])
    halted = Halted(log, 14)
    assert [name for name in log.names() if name.endswith(names.CLEANED_SUFFIX)]
    if change == "delete":
        log.log.increment_log_start(12)
        log.log.local.remove(list(log.log.local.segments)[:-1])
    else:
        log.log.truncate_to(14 if change == "truncate active" else 5)
    content = bytes_of(log.log)
    with pytest.raises(SegmentGoneError):
        halted.go_on()
    assert bytes_of(log.log) == content
    assert not [name for name in log.names() if name.endswith(names.CLEANED_SUFFIX)]


def test_files_of_an_attempt_that_died_go_before_anything_is_swapped() -> None:
    log = busy()
    LogSegment.create(log.log.local.place, 3, names.CLEANED_SUFFIX)
    LogSegment.create(log.log.local.place, 1 << 40, names.CLEANED_SUFFIX)
    steps = log.cleaning()
    next(steps)()
    assert not [name for name in log.names() if name.endswith(names.CLEANED_SUFFIX)]
    steps.close()


def test_a_disk_that_refuses_ends_the_clean_with_a_typed_error() -> None:
    log = busy()
    content = bytes_of(log.log)
    log.disk.fail_next("write", "*.cleaned", 28)
    with pytest.raises(StorageError):
        log.clean()
    assert not [name for name in log.names() if name.endswith(names.CLEANED_SUFFIX)]
    assert bytes_of(log.log) == content
    log.clean()  # a full disk passes


def test_a_clean_runs_as_jobs_beside_appends() -> None:
    log = busy()
    ended: list[Any] = []
    JobRun("clean", log.cleaning(io_buffer_bytes=300), log.world.jobs, ended.append, ended.append).start()
    turns = 0
    while not ended:
        assert log.world.jobs.run_one(log.world.random)
        log.put([(b"new", b"%d" % turns)])
        turns += 1
    assert ended[0].cleaner_point == 12
    assert turns > 10
    assert log.table()[b"new"] == b"%d" % (turns - 1)
    log.log.flush()
    log.world.jobs.run_all()
    assert log.findings() == []


def test_a_failing_job_is_reported() -> None:
    log = busy()
    ended: list[Any] = []
    log.disk.fail_next("write", "*.cleaned", 5)
    JobRun("clean", log.cleaning(), log.world.jobs, ended.append, ended.append).start()
    log.world.jobs.run_all()
    assert isinstance(ended[0], StorageError)


def test_readers_find_their_way_after_a_swap() -> None:
    log = busy()
    assert log.log.high_watermark == 12
    log.clean()
    for offset in range(13):
        for isolation in Isolation:
            data = log.log.read(offset, 1 << 20, isolation).read()
            assert all(each.last_offset >= offset for each in batches(data))
    log.log.bounds.check()


def test_a_high_watermark_in_an_old_segment_finds_its_new_place() -> None:
    log = CompactedLog()
    for n in range(4):
        log.put([(b"%d" % n, bytes(900)), (b"x", b"")])
    log.log.update_high_watermark(5)
    last = log.log.local.active
    log.roll()
    log.log.maybe_increment_high_watermark(LogOffsetMetadata(8, last.base_offset, last.size))
    assert log.log.high_watermark_metadata().segment_base == last.base_offset
    log.clean()
    assert log.log.high_watermark_metadata() == LogOffsetMetadata(8, 8, 0)


# Messages of format v0 and v1


def legacy_log(*segments: list[bytes], **config: Any) -> CompactedLog:
    """A log of old, and an active segment behind it."""
    log = CompactedLog(replace(COMPACTED, **config))
    log.world.kill()
    for name in log.names():
        log.disk.unlink(f"{DIRECTORY}/{name}")
    for entries in segments:
        data = b"".join(entries)
        base = min(message.offset for entry in batches(data) for message in messages_of(data, entry, 1 << 20))
        path = f"{DIRECTORY}/{names.log_name(base)}"
        log.disk.open(path, Mode.CREATE).write_at([data], 0)
    log.open()
    log.settle()
    return log


@pytest.mark.spec("LM-13", "LM-22")
@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_compacted_too(magic: int) -> None:
    log = legacy_log(
        [
            plain_message(0, 50, b"a", b"1", magic=magic),
            compressed_wrapper([(1, 51, b"a", b"2"), (2, 52, b"b", b"1"), (3, 53, None, b"?")], magic=magic, codec=1),
            plain_message(4, 54, b"b", b"2", magic=magic),
            plain_message(5, 55, b"c", b"2", magic=magic),
        ]
    )
    stats = log.clean()
    stamped = magic == 1
    assert [(each.offset, each.timestamp, each.key, each.value) for each in log.data_records()] == [
        (1, 51 if stamped else -1, b"a", b"2"),
        (4, 54 if stamped else -1, b"b", b"2"),
        (5, 55 if stamped else -1, b"c", b"2"),
    ]
    assert (stats.invalid_records, stats.records_dropped) == (1, 3)
    assert log.findings() == []


@pytest.mark.spec("LM-45")
def test_old_tombstones_go_when_the_last_clean_segment_is_so_much_younger() -> None:
    log = legacy_log([plain_message(0, 50, b"a", b"1", magic=1), plain_message(1, 50, b"b", None, magic=1)])
    log.clean()
    assert [each.offset for each in log.data_records()] == [0, 1]
    for wait_ms, is_there in ((RETENTION_MS - 1, True), (1, False)):
        log.wait(wait_ms)
        log.put([(b"z", bytes(1900))])
        log.settle()
        log.clean()  # the new segment is dirty still: it does not count
        log.put([(b"y", b"")])
        log.settle()
        log.clean()
        assert (1 in [each.offset for each in log.data_records()]) == is_there


@pytest.mark.spec("LM-45")
def test_a_cleaned_segment_has_the_age_of_the_one_it_replaces() -> None:
    log = busy()
    modified_ms = log.disk.modified_ms(log.log.local.segments.first.records.path)
    log.wait(5000)
    log.clean()
    assert log.disk.modified_ms(log.log.local.segments.first.records.path) == modified_ms


def test_an_old_message_that_must_leave_its_place_marked_leaves_an_empty_batch() -> None:
    log = legacy_log([plain_message(0, 50, b"a", b"1", magic=1), plain_message(1, 50, None, b"1", magic=1)])
    log.clean()
    assert [(each.magic, each.last_offset, each.record_count) for _, each in log.stored()] == [(1, 0, 1), (2, 1, 0)]
    assert log.findings() == []


def test_wrappers_with_messages_of_another_magic_are_mended() -> None:
    inner = b"".join(plain_message(n, 50, b"k%d" % n, b"1", magic=0) for n in range(2))
    wrapper = legacy._entry(1, 1, 1, 50, 0, None, compress(1, inner))
    log = legacy_log([wrapper])
    log.clean()
    ((data, entry),) = log.stored()
    assert [message.magic for message in messages_of(data, entry, 1 << 20)] == [1, 1]
    assert [message.key for message in messages_of(data, entry, 1 << 20)] == [b"k0", b"k1"]
