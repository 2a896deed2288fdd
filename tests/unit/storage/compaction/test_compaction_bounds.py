"""What bounds a clean: the sizes of groups, the ages of segments, the log start, the buffer for one batch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.compaction.compacted_logs import COMPACTED, CompactedLog
from tailrace.storage.compaction.chunks import ReadBuffer
from tailrace.storage.compaction.log_compaction import cleanable_of


def nearly_full(log: CompactedLog, records: int, value_bytes: int) -> list[int]:
    """Three segments of which only the last record stays; their bases and the active one's."""
    for _ in range(3):
        for _ in range(records):
            log.put([(b"a", bytes(value_bytes))])
        log.roll()
    log.settle()
    return list(log.log.local.segments.base_offsets)


@pytest.mark.spec("LM-18")
def test_segments_whose_data_would_not_fit_one_are_not_merged() -> None:
    log = CompactedLog()
    bases = nearly_full(log, 4, 400)
    assert len(bases) == 4
    log.clean()
    assert list(log.log.local.segments.base_offsets) == bases


@pytest.mark.spec("LM-18")
def test_segments_whose_indexes_would_not_fit_one_are_not_merged() -> None:
    config = replace(COMPACTED, segment_bytes=100_000, index_interval_bytes=0, segment_index_bytes=120)
    log = CompactedLog(config)
    bases = nearly_full(log, 8, 1)
    assert len(bases) == 4
    log.clean()
    assert list(log.log.local.segments.base_offsets) == bases
    roomy = CompactedLog(replace(config, segment_index_bytes=960))
    nearly_full(roomy, 8, 1)
    roomy.clean()
    assert list(roomy.log.local.segments.base_offsets) == [0, bases[-1]]


@pytest.mark.spec("LM-16")
def test_the_largest_timestamp_of_a_segment_tells_its_age() -> None:
    log = CompactedLog(replace(COMPACTED, min_compaction_lag_ms=1000))
    log.put([(b"a", b"1")])
    log.wait(5000)
    log.put([(b"a", b"2")])
    log.roll()
    log.settle()
    youngest_ms = log.log.local.segments.first.largest.timestamp  # type: ignore[union-attr]
    assert cleanable_of(log.log, None, youngest_ms + 999).log.first_uncleanable_offset == 0
    assert cleanable_of(log.log, None, youngest_ms + 1000).log.first_uncleanable_offset == 2


@pytest.mark.spec("LM-17")
@pytest.mark.parametrize(("checkpoint", "is_reset"), [(1, True), (2, False), (3, False), (4, True)])
def test_a_checkpoint_is_held_against_the_log_start_and_the_log_end(checkpoint: int, is_reset: bool) -> None:
    log = CompactedLog()
    log.put([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    log.settle()
    log.log.increment_log_start(2)
    found = cleanable_of(log.log, checkpoint, log.now_ms)
    assert found.is_checkpoint_reset == is_reset
    assert found.log.first_dirty_offset == (2 if is_reset else checkpoint)


@pytest.mark.spec("LM-21")
def test_a_marker_stays_as_long_as_a_record_of_its_transaction_does() -> None:
    """However much time passes: it gets no delete horizon before."""
    log = CompactedLog()
    log.put([(b"a", b"1")], producer_id=1, transactional=True)
    log.end(1, commit=True)
    log.put([(b"b", b"1")], producer_id=1)
    log.settle()
    for _ in range(4):
        log.clean()
        log.wait(100_000)
        log.put([(b"x", b"")])
        log.settle()
    assert log.markers() == [1]
    assert [each.delete_horizon_ms for _, each in log.stored() if each.is_control] == [None]
    assert log.table()[b"a"] == b"1"


@pytest.mark.spec("LM-31")
@pytest.mark.parametrize(
    ("max_message_bytes", "sizes"),
    [
        (100, [1000, 2000, 4000, 5000]),
        (3000, [1000, 2000, 3000, 5000]),
        (100_000, [1000, 2000, 4000, 8000]),
    ],
)
def test_a_buffer_doubles_up_to_the_largest_message_then_up_to_the_batch(
    max_message_bytes: int, sizes: list[int]
) -> None:
    buffer = ReadBuffer(1000, max_message_bytes)
    seen = [buffer.size]
    while buffer.size < 5000:
        buffer.grow_for(5000)
        seen.append(buffer.size)
        assert len(seen) < 10
    assert seen == sizes
    buffer.restore()
    assert buffer.size == 1000
