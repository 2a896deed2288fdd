"""Batches with right CRCs whose records or headers are not what they should be."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from support.audit.pieces import START_MS, audited, batch, faults, faults_of, patched
from tailrace.record.batch import HEADER_BYTES, set_crc
from tailrace.record.builder import BatchBuilder
from tailrace.record.compression import compress
from tailrace.spark.auditing.rules import BAD_COMPRESSION, BAD_HEADER, BAD_RECORD, UNKNOWN_FORMAT
from tailrace.spark.auditing.task import decompression, record_rows, records
from tailrace.spark.auditing.task.decompression import decompressed

CODECS = range(5)
BEFORE = bytes(batch(0, 3))
AT = len(BEFORE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "t-0"


def _told(folder: Path, wrong: bytes, *, count: int = 4, **of: object) -> list[tuple[str, int | None, int | None]]:
    """Of a log in which a batch of offsets 3 to 6 is as given."""
    result = audited(folder, BEFORE + bytes(wrong) + bytes(batch(3 + count, 2)), **of)
    assert result.seam.next_offset == 5 + count
    return faults_of(result)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [-1, 0, 3, 5, 2**31 - 1])
def test_a_record_count_that_is_wrong(folder: Path, codec: int, count: int) -> None:
    wrong = patched(batch(3, 4, codec=codec), 57, pack(">i", count))
    assert _told(folder, wrong) == [(BAD_RECORD, AT, 3)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("by", [-5000, -1, 1, 60_000])
def test_a_greatest_timestamp_that_is_wrong(folder: Path, codec: int, by: int) -> None:
    wrong = patched(batch(3, 4, codec=codec), 35, pack(">q", START_MS + 6 + by))
    assert _told(folder, wrong) == [(BAD_HEADER, AT, 3)]


def test_under_log_append_time_the_greatest_timestamp_is_that_of_all(folder: Path) -> None:
    stamped = batch(3, 4, timestamp_type=1, log_append_time_ms=START_MS + 99)
    assert not _told(folder, stamped)


def test_records_without_timestamps(folder: Path) -> None:
    builder = BatchBuilder(3, leader_epoch=0)
    for _ in range(4):
        builder.append(-1, None, b"value")
    assert not _told(folder, builder.build())


@pytest.mark.parametrize("codec", CODECS)
def test_a_last_offset_below_that_of_a_record(folder: Path, codec: int) -> None:
    wrong = patched(batch(3, 4, codec=codec), 23, pack(">i", 2))
    assert _told(folder, wrong) == [(BAD_RECORD, AT, 3)]


def test_a_finding_names_the_last_record_where_its_offset_is_above_that_of_the_batch(folder: Path) -> None:
    wrong = patched(bytes(batch(3, 4)), 23, pack(">i", 2))
    (found,) = faults(audited(folder, BEFORE + bytes(wrong)))
    assert found.words == "a record has offset 6 in a batch of offsets 3 to 5"


@pytest.mark.parametrize("codec", CODECS)
def test_a_last_offset_above_that_of_all_records(folder: Path, codec: int) -> None:
    wrong = patched(batch(3, 4, codec=codec), 23, pack(">i", 4))
    assert _told(folder, wrong) == [(BAD_HEADER, AT, 3)]


def _with_records(data: bytes, codec: int, *, of: bytes) -> bytearray:
    """A batch with the header of another and these records."""
    payload = compress(codec, data) if codec else data
    made = bytearray(of[:HEADER_BYTES] + payload)
    made[8:12] = pack(">i", len(made) - 12)
    made[21:23] = pack(">h", codec)
    set_crc(made)
    return made


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("at", [0, 1, 3, 4, 10])
def test_a_record_that_is_not_well_formed_or_out_of_order(folder: Path, codec: int, at: int) -> None:
    whole = bytes(batch(3, 4))
    data = bytearray(whole[HEADER_BYTES:])
    second = data[0] // 2 + 1  # zigzag of a small length, and the byte that it takes
    data[second + at if at != 10 else second + 3] ^= 0x06 if at != 1 else 0  # attributes may be anything
    found = _told(folder, _with_records(bytes(data), codec, of=whole))
    assert found == ([] if at == 1 else [(BAD_RECORD, AT, 3)])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("behind", [b"\0", b"\x0e" + b"\0" * 7])
def test_bytes_behind_the_last_record(folder: Path, codec: int, behind: bytes) -> None:
    whole = bytes(batch(3, 4))
    assert _told(folder, _with_records(whole[HEADER_BYTES:] + behind, codec, of=whole)) == [(BAD_RECORD, AT, 3)]


@pytest.mark.parametrize("codec", range(1, 5))
def test_what_cannot_be_decompressed(folder: Path, codec: int) -> None:
    whole = batch(3, 4, codec=codec, size=300)
    assert _told(folder, patched(whole, HEADER_BYTES, b"\x01" * 20)) == [(BAD_COMPRESSION, AT, 3)]
    cut = bytearray(whole[:-30])
    cut[8:12] = pack(">i", len(cut) - 12)
    set_crc(cut)
    assert _told(folder, cut) == [(BAD_COMPRESSION, AT, 3)]


@pytest.mark.parametrize("stated", range(8))
@pytest.mark.parametrize("codec", CODECS)
def test_another_codec_than_the_one_that_was_used(folder: Path, codec: int, stated: int) -> None:
    wrong = patched(batch(3, 4, codec=codec, size=300), 21, pack(">h", stated))
    found = _told(folder, wrong)
    if stated == codec:
        assert not found
    else:
        ((rule, position, offset),) = found
        assert rule == (BAD_COMPRESSION if stated else BAD_RECORD)
        assert (position, offset) == (AT, 3)


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (43, pack(">q", -2)),  # producer id
        (51, pack(">h", -2)),  # producer epoch
        (53, pack(">i", -2)),  # sequence
        (43, pack(">q", 5)),  # a producer without an epoch
        (21, pack(">h", 0x10)),  # transactional, of no producer
    ],
)
def test_producers_that_cannot_be(folder: Path, at: int, new: bytes) -> None:
    assert _told(folder, patched(batch(3, 4), at, new)) == [(BAD_HEADER, AT, 3)]


@pytest.mark.parametrize("delta", [-1, -(2**31)])
def test_offsets_that_cannot_be(folder: Path, delta: int) -> None:
    assert _told(folder, patched(batch(3, 4), 23, pack(">i", delta))) == [(BAD_HEADER, AT, 3)]


def test_data_that_is_marked_as_control(folder: Path) -> None:
    assert _told(folder, patched(batch(3, 4), 21, pack(">h", 0x20))) == [(UNKNOWN_FORMAT, AT, 3)]


# Batches of very many records, or of very large ones


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_more_records_than_there_are_rows(folder: Path, codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_rows, "MOST_ROWS", 16)
    monkeypatch.setattr(records, "MOST_ROWS", 16)
    many = batch(3, 100, codec=codec)
    assert not _told(folder, many, count=100)
    assert _told(folder, patched(many, 57, pack(">i", 99)), count=100) == [(BAD_RECORD, AT, 3)]
    assert _told(folder, patched(many, 35, pack(">q", START_MS)), count=100) == [(BAD_HEADER, AT, 3)]
    for place in range(3):  # those that fit are checked too, whatever is full
        parts = [batch(3 + 7 * number, 7, codec=codec) for number in range(6)]
        parts[place] = patched(parts[place], 35, pack(">q", START_MS))
        at = AT + sum(map(len, parts[:place]))
        assert _told(folder, b"".join(parts), count=42) == [(BAD_HEADER, at, 3 + 7 * place)]


def test_of_a_compacted_batch_of_very_many_records_offsets_may_lack(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_rows, "MOST_ROWS", 16)
    monkeypatch.setattr(records, "MOST_ROWS", 16)
    builder = BatchBuilder(3, leader_epoch=0)
    for number in range(3, 103, 2):
        builder.append_at(number, START_MS + number, b"key", b"value")
    cleaned = builder.build()
    assert not _told(folder, cleaned, count=99, cleaned_to=200)
    wrong = patched(cleaned, 57, pack(">i", 49))
    assert _told(folder, wrong, count=99, cleaned_to=200) == [(BAD_RECORD, AT, 3)]


@pytest.mark.parametrize("codec", range(1, 5))
def test_batches_too_large_to_be_held_decompressed(folder: Path, codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "MOST_HELD_BYTES", 1 << 20)
    large = batch(3, 40, size=100_000, codec=codec)
    assert not _told(folder, large, count=40)
    assert _told(folder, patched(large, 57, pack(">i", 39)), count=40) == [(BAD_RECORD, AT, 3)]


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_batch_that_is_more_than_anybody_takes_when_it_is_decompressed(
    folder: Path, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompression, "MOST_HELD_BYTES", 1 << 20)
    monkeypatch.setattr(records, "MAX_DECOMPRESSED_BYTES", 3 << 20)
    large = batch(3, 40, size=100_000, codec=codec)
    assert _told(folder, large, count=40) == [(BAD_COMPRESSION, AT, 3)]


@pytest.mark.parametrize("size", [0, 1, 100, 65_536, 65_537, 200_000])
def test_lz4_is_taken_block_by_block(size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    packed = compress(3, data)
    assert decompressed(3, memoryview(packed)) == (data, None)
    assert decompression._simple_frame(memoryview(packed)) == data
    for cut in range(0, len(packed), max(len(packed) // 50, 1)):
        assert decompression._simple_frame(memoryview(packed)[:cut]) is None
    wrong_header = bytearray(packed)
    wrong_header[6] ^= 1
    assert decompression._simple_frame(memoryview(wrong_header)) is None


def test_no_more_than_a_hundred_of_a_kind(folder: Path) -> None:
    wrong = b"".join(bytes(patched(batch(3 + n, 1), 35, pack(">q", 5))) for n in range(120))
    found = faults(audited(folder, BEFORE + wrong))
    assert [finding.rule for finding in found] == [BAD_HEADER] * 101
    assert "20 more" in found[-1].words
