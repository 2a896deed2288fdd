"""The parts that statistics are made of: histograms, time lines, samples, keys, plans; and bytes that mean harm."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st

from support.stats.model import check_sizes
from support.stats.topics import SEGMENTED, T0, Put, Row, counted, write_topic
from tailrace.model.errors import TailraceError
from tailrace.spark.statistics import age_line
from tailrace.spark.statistics import headers as headers_module
from tailrace.spark.statistics.age_line import AgeLine
from tailrace.spark.statistics.headers import Headers
from tailrace.spark.statistics.keys import MOST_KEY_BYTES, identities, key_of
from tailrace.spark.statistics.plan import LEAST_SAMPLE_BYTES, sample_budgets
from tailrace.spark.statistics.retention import retention_of
from tailrace.spark.statistics.sample import BATCH_COST_BYTES, RECORD_COST_BYTES, BatchSample, are_in
from tailrace.spark.statistics.sizes import BINS, Sizes
from tailrace.spark.statistics.tally import PartitionTally
from tailrace.spark.statistics.timeline import END_MS, MOST_BUCKETS, WIDTHS_MS, TimeLine
from tailrace.spark.statistics.topic_stats import HotKey, PartitionStats

# Sizes


@given(parts=st.lists(st.lists(st.one_of(st.integers(0, 40), st.integers(0, 1 << 40)), max_size=30), max_size=4))
def test_histograms_add_up(parts: list[list[int]]) -> None:
    whole = Sizes()
    for part in parts:
        own = Sizes()
        own.add(np.array(part, np.int64))
        whole.take(own)
    check_sizes(whole.histogram(), [size for part in parts for size in part])


def test_sizes_beyond_all_bins_are_in_the_last_one() -> None:
    sizes = Sizes()
    sizes.add(np.array([1 << 60], np.int64))
    assert sizes.counts[BINS - 1] == 1
    assert sizes.histogram().greatest == 1 << 60


# Time lines


def test_each_width_divides_the_next() -> None:
    assert all(greater % less == 0 for less, greater in pairwise(WIDTHS_MS))
    assert END_MS // WIDTHS_MS[-1] < 240, "so few buckets are enough for all times there are"


@given(
    parts=st.lists(
        st.lists(st.one_of(st.integers(T0, T0 + 5000), st.integers(-(1 << 63), (1 << 63) - 1)), max_size=50), max_size=4
    )
)
def test_time_lines_add_up(parts: list[list[int]]) -> None:
    whole = TimeLine(2)
    for part in parts:
        own = TimeLine(2)
        times = np.array(part, np.int64)
        own.add(times, (np.ones(len(part), np.int64), times % 7))
        whole.take(own)
    times = [time for part in parts for time in part]
    dated = [time for time in times if 0 <= time < END_MS]
    expected: dict[int, list[int]] = {}
    for time in dated:
        sums = expected.setdefault(time - time % whole.width_ms, [0, 0])
        sums[:] = [sums[0] + 1, sums[1] + time % 7]
    assert dict(zip(whole.starts.tolist(), whole.sums.tolist(), strict=True)) == expected
    assert whole.undated[0] == len(times) - len(dated)


def test_a_time_line_never_has_many_buckets() -> None:
    line = TimeLine(1)
    for start in range(0, 40_000, 1000):
        times = T0 + np.arange(start, start + 1000, dtype=np.int64) * 17
        line.add(times, (np.ones(1000, np.int64),))
    assert len(line.starts) <= MOST_BUCKETS
    assert (line.sums.sum(), line.width_ms) == (40_000, 1000)
    assert line.span == 680
    line.add(np.array([0, END_MS - 1], np.int64), (np.ones(2, np.int64),))
    assert len(line.starts) <= MOST_BUCKETS


# Samples


def sampled_of(count: int, room: int, partition: int = 0) -> BatchSample:
    """`room` is for how many of the batches there is some."""
    sample = BatchSample(partition, room * (36 + RECORD_COST_BYTES + BATCH_COST_BYTES))
    offsets = np.arange(count, dtype=np.int64) * 10
    numbers = sample.numbers(offsets)
    for offset, number in zip(offsets.tolist(), numbers, strict=True):
        if sample.wants(number):
            sample.add(int(number), offset, offset + 9, bytes(36), 1)
    return sample


def test_a_sample_with_room_for_all_has_all() -> None:
    sample = sampled_of(50, 50)
    found = sample.batches(1.0, 100)
    assert [each.base_offset for each in found] == list(range(0, 500, 10))
    assert {each.weight for each in found} == {1.0}
    assert [each.is_closed for each in found] == [each.last_offset < 100 for each in found]
    sample.remove(20)
    assert 20 not in [each.base_offset for each in sample.batches(1.0, None)]


def test_a_sample_keeps_to_its_budget_and_is_fair() -> None:
    """Over many partitions each batch is taken about as often, and weights make up for what is not taken."""
    taken = np.zeros(100)
    weighed = []
    for partition in range(200):
        found = sampled_of(100, 20, partition).batches(1.0, None)
        assert len(found) == 20
        taken[[each.base_offset // 10 for each in found]] += 1
        weighed.append(sum(each.weight for each in found))
    assert np.mean(weighed) == pytest.approx(100, rel=0.1)
    assert 15 < taken.min() <= taken.max() < 65


def test_what_is_removed_leaves_room_and_no_bytes() -> None:
    sample = sampled_of(1000, 1000)
    for offset in range(0, 9900, 10):
        sample.remove(offset)
        sample.remove(offset)
    assert [each.base_offset for each in sample.batches(1.0, None)] == list(range(9900, 10_000, 10))
    assert sample.ranges()[1].tolist() == list(range(9909, 10_000, 10))
    assert max(len(sample._heap), len(sample._added)) < 100
    assert sample.chance == 1


def test_what_was_added_is_known_from_an_offset_on() -> None:
    sample = sampled_of(100, 20)
    assert len(sample.added(0)[0]) > 20, "also what had to go again"
    kept = sample.ranges()[0]
    firsts, lasts = sample.added(500)
    assert lasts.min() >= 500
    assert set(kept[kept >= 500].tolist()) <= set(firsts.tolist())
    assert sample.added(1000)[0].tolist() == []


def test_a_sample_passes_over_what_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    from tailrace.spark.statistics import sample as sample_module

    monkeypatch.setattr(sample_module, "MOST_BATCH_BYTES", 30)
    sample = sampled_of(3, 3)
    assert (sample.batches(1.0, None), sample.passed_over) == ([], 3)
    assert sampled_of(3, 0).batches(1.0, None) == []


@given(
    offsets=st.lists(st.integers(0, 100)), bounds=st.lists(st.integers(0, 100), unique=True).map(sorted), data=st.data()
)
def test_which_offsets_lie_in_ranges(offsets: list[int], bounds: list[int], data: Any) -> None:
    pairs = list(zip(bounds[::2], bounds[1::2], strict=False))
    firsts, lasts = (np.array([pair[side] for pair in pairs], np.int64) for side in range(2))
    found = are_in(np.array(offsets, np.int64), firsts, lasts)
    assert found.tolist() == [any(first <= offset <= last for first, last in pairs) for offset in offsets]


@given(sizes=st.lists(st.integers(1, 10**7), min_size=1, max_size=40), sample=st.integers(0, 10**9))
def test_budgets_of_samples(sizes: list[int], sample: int) -> None:
    budgets = sample_budgets(sizes, sample)
    assert len(budgets) == len(sizes)
    assert sum(budgets) <= sample + LEAST_SAMPLE_BYTES * len(sizes)
    assert any(budgets) == (sample > 0)
    if sample >= LEAST_SAMPLE_BYTES * len(sizes):
        assert all(budgets)


# Keys and headers


def test_long_keys_are_told_apart_and_shown_in_part() -> None:
    keys = [b"x" * MOST_KEY_BYTES, b"x" * MOST_KEY_BYTES + b"a", b"x" * MOST_KEY_BYTES + b"b", b"", b"k"]
    sizes = np.array(list(map(len, keys)), np.int64)
    found = identities(pa.array(keys, pa.binary()), sizes).to_pylist()
    assert len(set(found)) == len(keys)
    assert [key_of(each) for each in found] == [(key[:MOST_KEY_BYTES], len(key)) for key in keys]


@pytest.mark.parametrize(
    ("key", "key_bytes", "text"),
    [
        ("ä".encode() * 2 + b"\xc3", 300, "ää…"),
        (b"\xc3", 1, "0xc3"),
        (b"abc", 3, "abc"),
        (b"", 0, "''"),
        (b"\xff\x00", 2, "0xff00"),
        (b"a\n", 2, "0x610a"),
        (b"abc", 9, "abc…"),
    ],
)
def test_keys_for_people(key: bytes, key_bytes: int, text: str) -> None:
    assert HotKey(key, key_bytes, 1, 1, 1.0).text == text


def test_more_names_of_headers_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers_module, "MOST_NAMES", 10)
    monkeypatch.setattr(headers_module, "MOST_LISTED", 4)
    type_ = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = [[{"key": f"n{number}", "value": b"v" * number}, {"key": "same", "value": None}] for number in range(20)]
    found = Headers()
    sizes, framed = found.add(pa.array([*rows, None, []], type_))
    assert sizes.tolist() == [len(f"n{number}same") + number for number in range(20)] + [0, 0]
    assert framed.tolist() == [size + 4 for size in sizes.tolist()[:20]] + [0, 0]
    whole = Headers()
    whole.take(found)
    whole.take(found)
    told = whole.stats()
    assert (told.records, told.count) == (40, 80)
    assert (len(told.names), told.other_names, told.has_more_names) == (4, 6, True)
    assert told.names[0].name == "same"


# Retention


def aged(*batches: tuple[int, int]) -> PartitionTally:
    """Batches of a time and of so many bytes, with a record each."""
    times, sizes = (np.array(each, np.int64) for each in zip(*batches, strict=True))
    tally = PartitionTally(len(times), int(sizes.sum()), len(times))
    tally.date(int(times.min()), int(times.max()))
    tally.ages.add(times, (sizes, np.ones(len(times), np.int64)))
    return tally


def test_what_retention_keeps() -> None:
    hour, mb = 3_600_000, 1_000_000
    tallies = {
        0: aged((T0, 5 * mb), (T0 + hour, 3 * mb), (T0 + 2 * hour, 4 * mb), (T0 + 10 * hour, mb)),
        1: aged((T0 + 5 * hour, mb)),
    }
    partitions = [
        PartitionStats(number, 0, 9, each.records, each.stored_bytes, each.batches, each.first_ms, each.last_ms)
        for number, each in tallies.items()
    ]
    found = retention_of(tallies, partitions)
    assert found.newest_ms == T0 + 10 * hour
    assert {each.name: (each.kept_bytes // mb, each.kept_records) for each in found.times} == {
        "1h": (1, 1),
        "6h": (2, 2),
        "1d": (14, 5),
        "3d": (14, 5),
        "7d": (14, 5),
        "30d": (14, 5),
    }
    kept = {each.limit_bytes // mb: (each.kept_bytes // mb, each.oldest_ms) for each in found.sizes}
    assert kept == {
        1: (2, T0 + 10 * hour),
        10: (11, T0 + hour),
        1000: (14, T0),
        10_000: (14, T0),
        100_000: (14, T0),
        1_000_000: (14, T0),
    }
    undated = aged((-1, 5 * mb))
    undated.first_ms = undated.last_ms = None
    told = retention_of({0: undated}, [PartitionStats(0, 0, 9, 1, 5 * mb, 1, None, None)])
    assert (told.newest_ms, told.times[0].kept_bytes, told.sizes[0].oldest_ms) == (None, 5 * mb, None)


@pytest.mark.parametrize("outliers", [(), (0,), (5, T0 - 1000 * 86_400_000)])
def test_what_retention_keeps_of_a_long_time(outliers: tuple[int, ...]) -> None:
    """A batch a minute for a year, in pieces that come in any order; a few times are far from all others."""
    minute, end = 60_000, T0 + 365 * 86_400_000
    times = np.concatenate((np.array(outliers, np.int64), np.arange(T0, end, minute, dtype=np.int64)))
    pieces = [aged(*((at, 1) for at in piece.tolist())) for piece in np.array_split(times, 7)]
    random.Random(3).shuffle(pieces)
    whole = PartitionTally()
    for piece in pieces:
        whole.take(piece)
    found = retention_of({0: whole}, [PartitionStats(0, 0, 9, 9, 9, 9, whole.first_ms, whole.last_ms)])
    for each in found.times:
        wanted = each.limit_ms // minute + 1
        assert wanted <= each.kept_records <= wanted * 49 / 48 + 1, each.name
    assert len(whole.ages.starts) <= age_line.MOST_BUCKETS


@given(
    parts=st.lists(st.lists(st.integers(-5, END_MS + 5) | st.integers(T0, T0 + 9999), max_size=60), max_size=6),
    most=st.integers(1, 50),
)
def test_age_lines_add_up(parts: list[list[int]], most: int) -> None:
    whole = AgeLine(1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(age_line, "MOST_BUCKETS", most)
        for part in parts:
            line = AgeLine(1)
            for times in (part[::2], part[1::2]):
                line.add(np.array(times, np.int64), (np.ones(len(times), np.int64),))
            whole.take(line)
    every = sorted(time for part in parts for time in part if 0 <= time < END_MS)
    assert int(whole.sums.sum()) == len(every)
    assert int(whole.undated[0]) == sum(map(len, parts)) - len(every)
    assert (np.diff(whole.starts) > 0).all()
    for since in every:
        kept = int(whole.sums[whole.lasts >= since].sum())
        older = since - (every[-1] - since) // age_line.PARTS * 2 - 1
        assert sum(time >= since for time in every) <= kept, "nothing that is so young is missed"
        assert kept <= sum(time >= older for time in every), "and little else is kept"


# Harm


def test_damaged_segments_end_in_statistics_or_in_an_error_of_ours(tmp_path: Path) -> None:
    dice = random.Random(11)
    rows = tuple(Row(T0 + n, b"k%d" % n, b"v" * n, (("h", b"x"),)) for n in range(20))
    written = [Put(0, rows, codec, producer, None) for codec in range(5) for producer in (-1, 4)]
    write_topic(tmp_path / "good", written)
    good = next((tmp_path / "good" / "t-0").glob("*.log")).read_bytes()
    ended = 0
    for number in range(60):
        folder = tmp_path / f"bad{number}"
        shutil.copytree(tmp_path / "good", folder)
        data = bytearray(good)
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        if dice.random() < 0.2:
            del data[dice.randrange(len(data)) :]
        next((folder / "t-0").glob("*.log")).write_bytes(data)
        skips = number % 2 == 0
        try:
            found = counted(folder, options={"skipCorrupt": skips, "failOnDataLoss": not skips})
        except TailraceError:
            continue
        ended += 1
        assert 0 <= found.records <= 200
    assert ended >= 25


def test_times_from_the_beginning_to_the_end_of_the_calendar(tmp_path: Path) -> None:
    times = (0, 1, END_MS - 1, END_MS, T0, (1 << 63) // 1000 - 1)
    config = replace(SEGMENTED, message_timestamp_after_max_ms=(1 << 63) - 1)
    write_topic(tmp_path, [Put(0, tuple(Row(time, b"k", b"v") for time in times))], config=config)
    found = counted(tmp_path)
    assert found.rates.undated == 2
    assert sum(each.records for each in found.rates.buckets) == 4
    assert (found.first_ms, found.last_ms) == (0, END_MS - 1)
