"""Reading by offset: how far each kind of reader sees, where a slice begins and ends, and what is never touched."""

from __future__ import annotations

import pytest
from foreign_sets import seen
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.builders import (
    CONFIG,
    DIRECTORY,
    SimLog,
    bases,
    batch,
    bytes_of,
    holds,
    in_transaction,
    offsets,
    placed,
    sized_batch,
    sound,
    with_config,
)
from tailrace.env import Mode
from tailrace.model.errors import InvalidDataError, OffsetOutOfRangeError
from tailrace.model.offsets import LogOffsetMetadata
from tailrace.record.batch import CRC_AT, HEADER_BYTES, crc_of
from tailrace.record.legacy import compressed_wrapper, plain_message
from tailrace.record.reader import records_of
from tailrace.storage.fetch import Isolation

EVERY = list(Isolation)


@pytest.fixture
def sim() -> SimLog:
    """Segments at 0, 10 and 20; ten batches of one record and 200 bytes in each; the last is active."""
    made = SimLog(with_config(index_interval_bytes=500))
    for base in (0, 10, 20):
        if base:
            made.log.roll()
        for _ in range(10):
            made.append(sized_batch(200))
    assert bases(made.log) == [0, 10, 20]
    return made


class TestBounds:
    @pytest.mark.spec("LS-17")
    def test_each_isolation_sees_up_to_its_own_bound(self) -> None:
        sim = SimLog()
        sim.append(batch(4))
        sim.append(in_transaction(7, 0, count=2))
        sim.append(batch(3))
        sim.append(batch(5))
        sim.log.update_high_watermark(9)
        seen_by = {isolation: offsets(sim.log.read(0, 1 << 20, isolation).read()) for isolation in EVERY}
        assert seen_by == {
            Isolation.LOG_END: [(0, 3), (4, 5), (6, 8), (9, 13)],
            Isolation.HIGH_WATERMARK: [(0, 3), (4, 5), (6, 8)],
            Isolation.TXN_COMMITTED: [(0, 3)],
        }

    @pytest.mark.spec("LS-17")
    def test_between_the_bound_and_the_end_there_is_nothing(self, sim: SimLog) -> None:
        sim.log.update_high_watermark(15)
        for offset in range(15, 31):
            found = sim.log.read(offset, 1000, Isolation.HIGH_WATERMARK)
            assert (found.records, found.read()) == (None, b"")
        assert sim.log.read(30, 1000).records is None

    @pytest.mark.spec("LS-17")
    @pytest.mark.parametrize("isolation", EVERY)
    def test_beyond_the_end_and_below_the_start_are_out_of_range(self, sim: SimLog, isolation: Isolation) -> None:
        sim.log.update_high_watermark(30)
        with pytest.raises(OffsetOutOfRangeError) as caught:
            sim.log.read(31, 1000, isolation)
        assert caught.value.code == 1
        sim.log.increment_log_start(12)
        for offset in (-1, 0, 11):
            with pytest.raises(OffsetOutOfRangeError):
                sim.log.read(offset, 1000, isolation)
        assert offsets(sim.log.read(12, 1000, isolation).read())[0] == (12, 12)

    @pytest.mark.spec("LS-17")
    def test_below_the_first_segment_is_out_of_range_even_before_the_log_start_has_moved(self, sim: SimLog) -> None:
        sim.log.local.remove([segment for segment in sim.log.local.segments if segment.base_offset < 20])
        with pytest.raises(OffsetOutOfRangeError):
            sim.log.read(19, 1000)

    @pytest.mark.spec("LS-17")
    @pytest.mark.parametrize("high_watermark", [0, 1, 9, 10, 11, 19, 20, 25, 30])
    def test_a_watermark_anywhere_cuts_the_slice_there(self, sim: SimLog, high_watermark: int) -> None:
        sim.log.update_high_watermark(high_watermark)
        offset, found = 0, []
        while data := sim.log.read(offset, 1 << 20, Isolation.HIGH_WATERMARK).read():
            found += offsets(data)
            offset = found[-1][1] + 1
        assert found == [(n, n) for n in range(high_watermark)]


class TestWhereASliceBegins:
    @pytest.mark.spec("LS-17")
    def test_at_the_batch_that_holds_the_offset_found_from_the_index(self, sim: SimLog) -> None:
        for offset in range(30):
            found = sim.log.read(offset, 1)
            assert found.start == LogOffsetMetadata(offset, offset // 10 * 10, offset % 10 * 200)
            assert offsets(found.read()) == [(offset, offset)]

    @pytest.mark.spec("LS-17")
    def test_only_headers_behind_the_index_entry_are_scanned(self) -> None:
        """With entries every 500 bytes, a lookup reads the file once, from the entry on."""
        sim = SimLog(with_config(index_interval_bytes=500))
        for _ in range(200):
            sim.append(sized_batch(200))
        sim.log.read(0, 1)
        sim.tape.rewind()
        found = sim.log.read(150, 1)
        assert found.start.position == 150 * 200
        assert len([path for path in sim.tape.of("read") if path.endswith(".log")]) == 1

    @pytest.mark.spec("LS-17")
    def test_inside_a_batch_the_whole_batch_is_given(self) -> None:
        sim = SimLog()
        sim.append(batch(5), batch(5))
        assert offsets(sim.log.read(3, 1 << 20).read()) == [(0, 4), (5, 9)]
        assert offsets(sim.log.read(8, 1 << 20).read()) == [(5, 9)]

    @pytest.mark.spec("LS-17")
    def test_a_gap_in_the_offsets_leads_on_to_the_next_batch_and_the_next_segment(self) -> None:
        sim = SimLog()
        for offset in (0, 10, 50):
            sim.log.append_as_follower(placed(batch(2), offset))
        sim.log.roll()
        sim.log.append_as_follower(placed(batch(1), 90))
        assert [offsets(sim.log.read(offset, 1).read())[0] for offset in (1, 2, 9, 12, 51, 52, 60, 89)] == [
            (0, 1), (10, 11), (10, 11), (50, 51), (50, 51), (90, 90), (90, 90), (90, 90),
        ]  # fmt: skip

    @pytest.mark.spec("LS-17")
    def test_empty_segments_are_passed_over(self, sim: SimLog) -> None:
        first, second, _ = sim.log.local.segments
        second.cut_at(10)
        assert offsets(sim.log.read(10, 1).read()) == [(20, 20)]
        first.cut_at(5)
        assert offsets(sim.log.read(7, 1).read()) == [(20, 20)]


class TestWhereItEnds:
    @pytest.mark.spec("LS-18")
    def test_a_first_batch_larger_than_asked_for_is_given_whole(self) -> None:
        sim = SimLog()
        sim.append(sized_batch(5000), sized_batch(300))
        found = sim.log.read(0, 100)
        assert (len(found.read()), found.first_entry_incomplete) == (5000, False)
        assert len(sim.log.read(1, 0).read()) == 300

    @pytest.mark.spec("LS-18")
    def test_without_it_the_size_is_kept_and_the_cut_is_told(self) -> None:
        sim = SimLog()
        sim.append(sized_batch(5000), sized_batch(300))
        found = sim.log.read(0, 100, min_one_message=False)
        assert (len(found.read()), found.first_entry_incomplete) == (100, True)
        assert sim.log.read(0, 0, min_one_message=False).records is None
        assert not sim.log.read(0, 5000, min_one_message=False).first_entry_incomplete

    @pytest.mark.spec("LS-17", "LS-18")
    def test_a_slice_is_cut_at_the_size_and_stays_in_its_segment(self, sim: SimLog) -> None:
        assert len(sim.log.read(0, 777).read()) == 777
        assert offsets(sim.log.read(0, 777).read()) == [(0, 0), (1, 1), (2, 2)]  # the partial batch is not handed on
        assert len(sim.log.read(5, 1 << 20).read()) == 5 * 200

    @pytest.mark.spec("LS-18")
    def test_even_one_message_does_not_go_beyond_the_bound(self) -> None:
        sim = SimLog()
        sim.append(sized_batch(5000))
        assert sim.log.read(0, 100, Isolation.HIGH_WATERMARK).records is None


class TestWhatIsNeverTouched:
    @pytest.mark.spec("LS-42")
    @pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
    def test_a_payload_that_nobody_can_decode_is_served_byte_for_byte(self, codec: int) -> None:
        sim = SimLog(with_config(index_interval_bytes=0))
        sim.log.append_as_follower(placed(batch(1), 0))
        undecodable = placed(batch(9, 100, codec=codec), 1)
        undecodable[HEADER_BYTES:] = bytes(255 - n % 256 for n in range(len(undecodable) - HEADER_BYTES))
        undecodable[CRC_AT : CRC_AT + 4] = crc_of(undecodable, 0, len(undecodable)).to_bytes(4, "big")
        sim.log.append_as_follower(undecodable)
        sim.log.append_as_follower(placed(batch(1), 10))
        sim.all_moved_to_end()
        for isolation in EVERY:
            assert sim.log.read(4, 1, isolation).read() == undecodable
        assert offsets(sim.log.read(10, 1).read()) == [(10, 10)]
        with pytest.raises(InvalidDataError):
            list(records_of(undecodable, sound(undecodable)[0]))

    @pytest.mark.spec("RF-07")
    @pytest.mark.parametrize("magic", [0, 1])
    def test_old_formats_are_found_by_offset_and_handed_out_as_they_are(self, magic: int) -> None:
        sim = SimLog(with_config(index_interval_bytes=0))
        entries = [
            plain_message(0, 5, b"k", b"v", magic=magic),
            compressed_wrapper([(1, 6, None, b"a"), (2, 7, None, b"b"), (5, 8, None, b"c")], magic=magic, codec=1),
            plain_message(6, 9, None, b"v", magic=magic),
        ]
        for entry in entries:
            sim.log.append_as_follower(entry)
        assert bytes_of(sim.log) == b"".join(entries)
        assert [sim.log.read(offset, 1).read() for offset in range(7)] == [
            entries[place] for place in (0, 1, 1, 1, 1, 1, 2)
        ]
        assert [each.offset for each in seen(bytes_of(sim.log))] == [0, 1, 2, 5, 6]

    def test_a_slice_survives_the_deletion_of_its_segment(self, sim: SimLog) -> None:
        found = sim.log.read(3, 400)
        expected = found.read()
        sim.log.local.remove([sim.log.local.segments.first])
        sim.world.jobs.tick(sim.world.clock.now_ms() + CONFIG.file_delete_delay_ms)
        sim.world.jobs.run_all()
        assert "00000000000000000000.log.deleted" not in sim.names()
        assert found.read() == expected

    def test_an_index_that_lies_is_made_anew_by_the_reader_who_finds_out(self, sim: SimLog) -> None:
        path = f"{DIRECTORY}/00000000000000000010.index"
        expected = [sim.log.read(offset, 1).read() for offset in range(30)]
        sim.log.close()
        index = sim.disk.open(path, Mode.WRITE)
        index.write_at([(6).to_bytes(4, "big") + (250).to_bytes(4, "big")], 0)
        sim.open(was_clean=True)
        assert [sim.log.read(offset, 1).read() for offset in range(30)] == expected


@settings(max_examples=examples(60))
@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 900)), min_size=1, max_size=40),
    rolls=st.sets(st.integers(0, 39)),
    interval=st.sampled_from([0, 100, 1000]),
    max_bytes=st.integers(1, 3000),
    wanted=st.data(),
)
def test_every_offset_of_any_log_is_found(
    sizes: list[tuple[int, int]], rolls: set[int], interval: int, max_bytes: int, wanted: st.DataObject
) -> None:
    sim = SimLog(with_config(index_interval_bytes=interval))
    for n, (count, value_bytes) in enumerate(sizes):
        if n in rolls and sim.log.local.active.size:
            sim.log.roll()
        sim.append(batch(count, value_bytes))
    expected = holds(sim.log)
    assert expected[-1][1] + 1 == sim.log.log_end_offset
    offset = wanted.draw(st.integers(0, sim.log.log_end_offset - 1))
    data = sim.log.read(offset, max_bytes).read()
    first, last = offsets(data)[0]
    assert first <= offset <= last
    assert (first, last) in expected
    assert len(data) <= max(max_bytes, sound(data)[0].size)
