"""Statistics of topics that few have: old messages, odd times, headers that count wrong, heaps of small batches."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from crc32c import crc32c

from support.logs.builders import marker
from support.stats.model import check
from support.stats.topics import SEGMENTED, T0, Put, Row, clean, counted, log_bytes, write_topic
from tailrace.record.builder import BatchBuilder
from tailrace.record.legacy import compressed_wrapper, plain_message
from tailrace.record.shallow import batches
from tailrace.spark.errors import OptionError
from tailrace.spark.report.html import render
from tailrace.spark.statistics.report import stats_page
from tailrace.spark.statistics.topic_stats import TopicStats

PASSING_OVER = {"skipCorrupt": True, "failOnDataLoss": False}


def write_bytes(path: Path, data: bytes) -> Path:
    """As the one segment of a topic."""
    write_topic(path, [])
    file = next((path / "t-0").glob("*.log"))
    file.write_bytes(data)
    return file


def put(file: Path, at: int, number: int, size: int = 8) -> None:
    """A number into the first batch, whose CRC is made right again."""
    data = bytearray(file.read_bytes())
    first = next(iter(batches(data)))
    data[at : at + size] = number.to_bytes(size, "big", signed=True)
    data[17:21] = crc32c(bytes(data[21 : first.end])).to_bytes(4, "big")
    file.write_bytes(data)


def old_messages(magic: int, codec: int, count: int = 60) -> bytes:
    """In turns, a message of its own and three in a wrapper."""
    dice = random.Random(5)
    data, offset = bytearray(), 0
    while offset < count:
        rows = [
            (offset + place, T0 + offset + place, b"k%d" % dice.randrange(9), b"value" * dice.randrange(20))
            for place in range(3)
        ]
        data += compressed_wrapper(rows, magic=magic, codec=codec)
        data += plain_message(offset + 3, T0 + offset + 3, b"k3", b"plain", magic=magic)
        offset += 4
    return bytes(data)


@pytest.mark.parametrize(("magic", "codec"), [(0, 1), (1, 1), (1, 3)])
def test_old_messages_are_counted_one_by_one_in_any_pieces(tmp_path: Path, magic: int, codec: int) -> None:
    data = old_messages(magic, codec)
    write_bytes(tmp_path, data)
    whole = counted(tmp_path)
    assert (whole.records, whole.batches, whole.stored_bytes) == (60, 30, len(data))
    assert (whole.batch_records.total, whole.batch_records.greatest) == (60, 3)
    assert [each.records for each in whole.producers.listed] == [60]
    assert sum(each.records for each in whole.codecs) == 60
    assert {each.kept_records for each in whole.retention.times} == {60}
    for piece in (1, 2, 7):
        cut = counted(tmp_path, options={"maxRecordsPerPartition": piece})
        told = ("records", "batches", "stored_bytes", "plain_bytes", "batch_records", "codecs", "producers", "keys")
        assert {name: getattr(cut, name) for name in told} == {name: getattr(whole, name) for name in told}


@pytest.mark.parametrize(("magic", "codec"), [(0, 1), (1, 3)])
def test_old_messages_are_cleaned_as_told(tmp_path: Path, magic: int, codec: int) -> None:
    write_bytes(tmp_path, old_messages(magic, codec, 400))
    before, found = log_bytes(tmp_path, 0), counted(tmp_path).compaction
    done = clean(tmp_path, 0, rolls=True, now_ms=int(time.time() * 1000))
    assert found.is_exact
    assert found.whole.records == done.records_written
    assert found.whole.gained_bytes == pytest.approx(before - log_bytes(tmp_path, 0), rel=0.05, abs=64)


@pytest.mark.parametrize("time_ms", [-1, -5, -(1 << 62), -(1 << 63), 1 << 62, (1 << 63) - 1])
def test_times_that_are_none(tmp_path: Path, time_ms: int) -> None:
    write_topic(tmp_path, [Put(0, (Row(T0, b"a", b"v"),)), Put(0, (Row(T0, b"b", b"v"),))])
    file = next((tmp_path / "t-0").glob("*.log"))
    put(file, 27, time_ms)
    put(file, 35, time_ms)
    found = counted(tmp_path)
    assert (found.records, found.rates.undated, found.first_ms, found.last_ms) == (2, 1, T0, T0)
    assert "Over time" in render(stats_page(found))


def test_a_name_of_a_header_that_is_no_text(tmp_path: Path) -> None:
    write_topic(tmp_path, [Put(0, (Row(T0, b"k", b"v", (("nameXname", None),)),))])
    file = next((tmp_path / "t-0").glob("*.log"))
    put(file, file.read_bytes().index(b"X"), -1, 1)
    (name,) = counted(tmp_path).headers.names
    assert (name.name, name.records, name.count) == ("name\ufffdname", 1, 1)


def test_a_batch_that_lies_about_its_records_is_not_believed(tmp_path: Path) -> None:
    write_topic(tmp_path, [Put(0, (Row(T0, b"a", b"v"),)), Put(0, (Row(T0, b"b", b"v"),))])
    put(next((tmp_path / "t-0").glob("*.log")), 57, (1 << 31) - 1, 4)
    found = counted(tmp_path, options=PASSING_OVER)
    assert (len(found.skipped), found.batches, found.batch_records.greatest) == (1, 1, 1)
    assert [each.records for each in found.producers.listed] == [1]
    assert found.retention.times[0].kept_records == 1
    assert found.codec_trials.sampled_batches == 1
    assert found.stored_bytes == log_bytes(tmp_path, 0)


def counted_bytes(path: Path, data: bytes) -> TopicStats:
    write_bytes(path, data)
    return counted(path, sample=8 << 20, options={"failOnDataLoss": False})


def test_heaps_of_small_batches_are_not_all_packed_again(tmp_path: Path) -> None:
    one = BatchBuilder()
    one.append(T0, b"k", b"v", ())
    data = one.build()
    found = counted_bytes(tmp_path, b"".join(n.to_bytes(8, "big") + data[8:] for n in range(5000)))
    assert (found.records, found.batches) == (5000, 5000)
    assert 1000 < found.codec_trials.sampled_batches < 2100
    assert found.codec_trials.trials[0].estimated_bytes == pytest.approx(found.stored_bytes, rel=0.001)
    assert found.compaction.whole.removed_records == 4999


def test_heaps_of_aborted_transactions(tmp_path: Path) -> None:
    one = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    one.append(T0, b"k", b"v", ())
    pair = one.build(), marker(7, commit=False)
    count = 3000
    data = b"".join(n.to_bytes(8, "big") + bytes(pair[n % 2][8:]) for n in range(2 * count))
    found = counted_bytes(tmp_path, data)
    assert (found.records, found.aborted_records, found.control_batches) == (0, count, count)
    assert found.codec_trials.sampled_batches == 0


def test_keys_alone_and_deletions_alone(tmp_path: Path) -> None:
    for name, key, value in (("keyless", None, b"v"), ("nothing", None, None), ("deleted", b"k", None)):
        path = tmp_path / name
        written = [Put(0, (Row(T0 + n, key, value),) * 3, n % 5) for n in range(10)]
        write_topic(path, written)
        found = counted(path)
        check(found, written, path, 1, 10)
        assert stats_page(found).title == "t"


def test_a_topic_on_several_disks(tmp_path: Path) -> None:
    written = [Put(n % 2, (Row(T0 + n, b"k%d" % (n % 7), b"v"),)) for n in range(50)]
    write_topic(tmp_path / "a", written, partitions=2)
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "t-1").rename(tmp_path / "b" / "t-1")
    found = counted(f"{tmp_path / 'a'},{tmp_path / 'b'}")
    assert (found.records, [each.partition for each in found.partitions]) == (50, [0, 1])


def test_more_hot_keys_than_a_driver_can_hold(tmp_path: Path) -> None:
    write_topic(tmp_path, [])
    with pytest.raises(OptionError, match="top is 1000000000: it must be from 0 to 10000"):
        counted(tmp_path, top=10**9)


def cleaned(path: Path, begin_ms: int) -> TopicStats:
    """One key in many segments, by three producers."""
    config = replace(SEGMENTED, segment_bytes=600)
    written = [Put(0, (Row(begin_ms + n, b"same", b"v" * 50),), producer_id=n % 3) for n in range(40)]
    write_topic(path, written, config=config)
    clean(path, 0, rolls=True, now_ms=int(time.time() * 1000), config=config)
    found = counted(path, options={"failOnDataLoss": False})
    assert (found.records, found.keys.distinct, found.stored_bytes) == (1, 1, log_bytes(path, 0))
    assert "What a change would bring" in render(stats_page(found))
    return found


def test_empty_segments_that_a_cleaner_left(tmp_path: Path) -> None:
    """Several in a row."""
    assert cleaned(tmp_path, T0).batches == 1
    assert sum(not file.stat().st_size for file in (tmp_path / "t-0").glob("*.log")) > 3


def test_empty_batches_that_a_cleaner_left(tmp_path: Path) -> None:
    """They say how far active producers have come."""
    found = cleaned(tmp_path, int(time.time() * 1000) - 60_000)
    assert (found.batches, found.batch_records.least, found.batch_records.total) == (3, 0, 1)
