"""Offsets by time: right for every order of timestamps, through both indexes, over segments, and the special places."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.builders import NOW_MS, SimLog, batch, in_transaction, placed, sized_batch, time_entries, with_config
from tailrace.record.builder import BatchBuilder
from tailrace.record.legacy import compressed_wrapper, plain_message
from tailrace.storage.offset_lookup import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP, FoundOffset

CONFIG = with_config(index_interval_bytes=300, message_timestamp_after_max_ms=1 << 50)


def log_of(times: list[list[list[int]]]) -> SimLog:
    """Segments of batches of timestamps."""
    sim = SimLog(CONFIG)
    for n, segment in enumerate(times):
        if n:
            sim.log.roll()
        for batch_times in segment:
            builder = BatchBuilder()
            for timestamp in batch_times:
                builder.append(timestamp, b"k", b"v" * 60)
            sim.append(builder.build(), epoch=n)
    return sim


@pytest.mark.spec("LS-20")
def test_the_first_record_at_or_after_the_time() -> None:
    sim = log_of([[[100], [200, 210], [300]], [[400], [500]]])
    assert [sim.log.offset_by_time(time) for time in (0, 100, 101, 205, 301, 500, 501)] == [
        FoundOffset(100, 0, 0),
        FoundOffset(100, 0, 0),
        FoundOffset(200, 1, 0),
        FoundOffset(210, 2, 0),
        FoundOffset(400, 4, 1),
        FoundOffset(500, 5, 1),
        None,
    ]


@pytest.mark.spec("LS-20")
def test_times_out_of_order_do_not_hide_an_earlier_offset() -> None:
    sim = log_of([[[900], [100], [950], [200]], [[100], [300], [960]]])
    assert [found.offset if (found := sim.log.offset_by_time(time)) else None for time in (1, 901, 951, 961)] == [
        0, 2, 6, None,
    ]  # fmt: skip


@pytest.mark.spec("LS-20")
def test_the_search_begins_at_the_largest_indexed_time_not_above_the_target() -> None:
    sim = SimLog(CONFIG)
    for n in range(400):
        sim.append(sized_batch(200, timestamp=NOW_MS + 10 * n))
    active = sim.log.local.active
    assert len(time_entries(active)) == 199
    sim.log.offset_by_time(NOW_MS)
    sim.tape.rewind()
    assert sim.log.offset_by_time(NOW_MS + 3005) == FoundOffset(NOW_MS + 3010, 301, 0)
    # One window of headers to reach the entry's batch, one more from there, and the batch with the answer.
    assert len([path for path in sim.tape.of("read") if path.endswith(".log")]) == 3


@pytest.mark.spec("LS-20")
def test_a_restart_changes_no_answer() -> None:
    sim = log_of([[[900], [100], [950], [200]] * 20, [[100], [980], [960]] * 20])
    times = [1, 901, 951, 961, 981]
    before = [sim.log.offset_by_time(time) for time in [*times, MAX_TIMESTAMP]]
    sim.log.close()
    sim.open(was_clean=True)
    assert [sim.log.offset_by_time(time) for time in [*times, MAX_TIMESTAMP]] == before
    sim.kill_and_open()
    assert [sim.log.offset_by_time(time) for time in [*times, MAX_TIMESTAMP]] == before


@pytest.mark.spec("LS-20")
def test_earliest_latest_and_tiered() -> None:
    sim = log_of([[[100, 110]], [[200], [300]]])
    log = sim.log
    log.update_high_watermark(4)
    assert log.offset_by_time(EARLIEST) == FoundOffset(-1, 0, 0)
    assert log.offset_by_time(LATEST) == FoundOffset(-1, 4, 1)
    log.increment_log_start(1)
    log.increment_local_log_start(3)
    assert log.offset_by_time(EARLIEST) == FoundOffset(-1, 1, 0)
    assert log.offset_by_time(EARLIEST_LOCAL) == FoundOffset(-1, 3, 1)
    assert log.offset_by_time(LATEST_TIERED) == FoundOffset(-1, -1, -1)


@pytest.mark.spec("LS-20")
def test_the_largest_timestamp_and_the_first_record_that_has_it() -> None:
    sim = log_of([[[100], [500, 900]], [[300], [900]], [[200]]])
    assert sim.log.offset_by_time(MAX_TIMESTAMP) == FoundOffset(900, 2, 0)
    assert SimLog().log.offset_by_time(MAX_TIMESTAMP) is None


@pytest.mark.spec("LS-20")
def test_nothing_below_the_log_start_is_an_answer() -> None:
    sim = log_of([[[100], [900], [300], [400]], [[200]]])
    sim.all_moved_to_end()
    sim.log.increment_log_start(2)
    assert sim.log.offset_by_time(50) == FoundOffset(300, 2, 0)
    assert sim.log.offset_by_time(MAX_TIMESTAMP) == FoundOffset(400, 3, 0)
    assert sim.log.offset_by_time(500) is None


@pytest.mark.spec("LS-20")
@pytest.mark.parametrize("codec", range(5))
def test_inside_a_compressed_batch(codec: int) -> None:
    sim = SimLog(CONFIG)
    sim.append(batch(10, 50, step_ms=10, codec=codec))
    assert sim.log.offset_by_time(NOW_MS + 35) == FoundOffset(NOW_MS + 40, 4, 0)


@pytest.mark.spec("RF-07", "LS-20")
def test_inside_old_formats() -> None:
    sim = SimLog(CONFIG)
    sim.log.append_as_follower(plain_message(0, 5, None, b"v", magic=0))  # has no timestamp
    sim.log.append_as_follower(compressed_wrapper([(n, 100 * n, None, b"v") for n in (1, 2, 3)], magic=1, codec=1))
    sim.log.append_as_follower(placed(batch(1, timestamp=400), 4))
    assert [sim.log.offset_by_time(time).offset for time in (0, 101, 201, 301)] == [1, 2, 3, 4]  # type: ignore[union-attr]


@pytest.mark.spec("LS-20")
def test_after_a_truncation_what_was_cut_off_is_found_no_more() -> None:
    sim = log_of([[[100 + n] for n in range(40)], [[900], [950]]])
    sim.log.truncate_to(20)
    assert sim.log.offset_by_time(120) is None
    assert sim.log.offset_by_time(MAX_TIMESTAMP) == FoundOffset(119, 19, 0)
    sim.append(batch(1, timestamp=500), in_transaction(7, 0, timestamp=110))
    assert sim.log.offset_by_time(120) == FoundOffset(500, 20, 0)


@settings(max_examples=examples(80))
@given(
    times=st.lists(
        st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=3), min_size=1, max_size=12), min_size=1, max_size=4
    ),
    start=st.floats(0, 1),
    target=st.integers(0, 61),
    restarts=st.booleans(),
)
@pytest.mark.spec("LS-20")
def test_any_log_answers_as_a_scan_would(
    times: list[list[list[int]]], start: float, target: int, restarts: bool
) -> None:
    sim = log_of(times)
    flat = [timestamp for segment in times for each in segment for timestamp in each]
    if restarts:
        sim.log.close()
        sim.open(was_clean=True)
    sim.all_moved_to_end()
    log_start = int(start * (len(flat) - 1))
    sim.log.increment_log_start(log_start)
    expected = next((n for n in range(log_start, len(flat)) if flat[n] >= target), None)
    found = sim.log.offset_by_time(target)
    assert (found.offset if found else None) == expected
    if found is not None:
        assert found.timestamp == flat[found.offset]
