"""What is counted on the way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.audit.pieces import START_MS, audited, batch, batches
from tailrace.record.builder import BatchBuilder
from tailrace.record.compression import CODEC_NAMES
from tailrace.record.shallow import batches as shallow_batches
from tailrace.spark.auditing import figures as figures_module
from tailrace.spark.auditing.figures import BINS, MINUTE_MS, CodecFigures, TopicFigures
from tailrace.spark.auditing.task import counting


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "t-0"


@pytest.mark.parametrize(("codec", "name"), [*enumerate(CODEC_NAMES)])
def test_batches_are_counted(folder: Path, codec: int, name: str) -> None:
    parts = batches((3, 1, 4), codec=codec, size=500)
    plain = sum(len(part) - 61 for part in batches((3, 1, 4), size=500))
    found = audited(folder, b"".join(parts)).figures
    stored = sum(map(len, parts))
    assert (found.files, found.batches, found.records, found.bytes, found.control_batches) == (1, 3, 8, stored, 0)
    assert found.codecs == {name: CodecFigures(3, 8, stored - 3 * 61, plain)}
    assert found.minutes == {START_MS // MINUTE_MS: (stored, 8)}
    assert sum(found.batch_bytes) == sum(found.batch_records) == 3
    assert found.batch_records[1] == found.batch_records[2] == found.batch_records[3] == 1


def test_codecs_and_minutes_are_told_apart(folder: Path) -> None:
    parts = [batch(0, 2), batch(2, 2, codec=3), batch(4, 2, codec=4), batch(60_000, 2, codec=3)]
    found = audited(folder, b"".join(parts), cleaned_to=60_000).figures
    assert {name: codec.batches for name, codec in found.codecs.items()} == {"none": 1, "lz4": 2, "zstd": 1}
    first = START_MS // MINUTE_MS
    assert {minute: records for minute, (_, records) in found.minutes.items()} == {first: 6, first + 1: 2}


def test_every_key_of_a_small_piece_is_in_the_sample(folder: Path) -> None:
    for codec in range(5):
        builder = BatchBuilder(0, codec, leader_epoch=0)
        for number in range(100):
            builder.append(START_MS, None if number % 10 == 9 else b"key %d" % (number % 3), b"value")
        found = audited(folder, builder.build()).figures
        assert sorted(found.key_sample.values()) == [30, 30, 30]
        assert (found.sampled_records, found.sampled_keyless) == (100, 10)


@pytest.mark.parametrize("codec", [0, 3])
def test_of_a_large_piece_a_sample_stands_for_all(folder: Path, codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "SMALL_PIECE_BYTES", 1000)
    parts = []
    for base in range(0, 64_000, 40):
        builder = BatchBuilder(base, codec, leader_epoch=0)
        for number in range(base, base + 40):
            builder.append(START_MS, b"even" if number % 2 else b"%d" % number, b"value")
        parts.append(builder.build())
    found = audited(folder, b"".join(parts)).figures
    assert 0.7 * 64_000 < found.sampled_records < 1.3 * 64_000
    assert 0.4 < found.key_sample.most_common(1)[0][1] / found.sampled_records < 0.6


def test_what_is_damaged_is_not_counted(folder: Path) -> None:
    data = bytearray(b"".join(batches((3, 1, 4))))
    data[70] ^= 1
    found = audited(folder, data).figures
    assert (found.batches, found.records) == (2, 5)


def test_only_the_first_piece_of_a_segment_counts_its_file(folder: Path) -> None:
    data = b"".join(batches((3, 1, 4)))
    start = next(shallow_batches(data)).size
    halves = [audited(folder, data, end=1).figures, audited(folder, data, start=start).figures]
    halves[0].add(halves[1])
    whole = audited(folder, data).figures
    assert halves[0] == whole


def test_figures_add_up() -> None:
    one, other = TopicFigures(files=1, bytes=10, batches=2, records=5), TopicFigures(bytes=1, dropped_minutes=3)
    one.codecs["lz4"] = CodecFigures(1, 2, 3, 4)
    other.codecs = {"lz4": CodecFigures(1, 1, 1, 1), "none": CodecFigures(5, 5, 5, 5)}
    one.minutes, other.minutes = {7: (1, 1)}, {7: (2, 3), 8: (4, 5)}
    one.key_sample, other.key_sample = Counter({b"a": 1}), Counter({b"a": 2, b"b": 3})
    one.batch_bytes[3], other.batch_bytes[3] = 1, 2
    one.add(other)
    assert (one.files, one.bytes, one.batches, one.records, one.dropped_minutes) == (1, 11, 2, 5, 3)
    assert one.codecs == {"lz4": CodecFigures(2, 3, 4, 5), "none": CodecFigures(5, 5, 5, 5)}
    assert one.minutes == {7: (3, 4), 8: (4, 5)}
    assert one.key_sample == {b"a": 3, b"b": 3}
    assert one.batch_bytes[3] == 3
    assert len(one.batch_bytes) == BINS
    other.codecs["none"].batches += 1
    assert one.codecs["none"].batches == 5


def test_hostile_times_and_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures_module, "MOST_MINUTES", 3)
    monkeypatch.setattr(figures_module, "MOST_KEYS", 3)
    one = TopicFigures()
    for minute in range(5):
        one.add_minute(minute, 10, 1, 2)
    assert (len(one.minutes), one.dropped_minutes) == (3, 4)
    many = TopicFigures(key_sample=Counter({bytes([number]): number for number in range(10)}))
    one.add(many)
    assert one.key_sample == {b"\x09": 9, b"\x08": 8, b"\x07": 7}


@given(st.lists(st.integers(0, 2**40), min_size=1))
def test_bins_are_powers_of_two(numbers: list[int]) -> None:
    found = counting._histogram(np.array(numbers, np.int64))
    expected = [0] * BINS
    for number in numbers:
        expected[min(number.bit_length(), BINS - 1)] += 1
    assert found.tolist() == expected
