"""One piece of a segment, audited: what is right is silent, and one fault is one finding, at its place."""

from __future__ import annotations

import errno
import os
import pickle
import random
from itertools import accumulate
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.audit.pieces import START_MS, audited, batch, batches, faults, faults_of, patched
from tailrace.env import Mode
from tailrace.env.real.files import RealFile, RealFiles
from tailrace.model.ids import TopicPartition
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.legacy import compressed_wrapper, plain_message
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import (
    BAD_CONTROL,
    BAD_FRAME,
    BAD_HEADER,
    CRC,
    EPOCH_ORDER,
    OFFSET_GAP,
    OFFSET_ORDER,
    OFFSET_RANGE,
    TRAILING_BYTES,
    TRUNCATED,
    UNKNOWN_FORMAT,
)
from tailrace.spark.auditing.task import huge_batch, piece_audit, window
from tailrace.spark.auditing.task.piece_audit import audit_piece

COUNTS = (3, 1, 4, 1, 5, 2)
OFFSETS = [0, *accumulate(COUNTS)]
PARTS = batches(COUNTS)
STARTS = [0, *accumulate(map(len, PARTS))]
WHOLE = b"".join(PARTS)
END = OFFSETS[-1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "t-0"


class KeptFiles(RealFiles):
    """Keeps what was opened, so that only `close` closes it."""

    def __init__(self) -> None:
        self.opened: list[RealFile] = []

    def open(self, path: str, mode: Mode) -> RealFile:
        self.opened.append(super().open(path, mode))
        return self.opened[-1]


@pytest.mark.parametrize("is_readable", [True, False])
def test_an_audit_closes_its_files(folder: Path, monkeypatch: pytest.MonkeyPatch, is_readable: bool) -> None:
    """One task audits thousands of pieces: it would run out of descriptors."""
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(WHOLE)
    (folder / "00000000000000000000.index").write_bytes(pack(">ii", OFFSETS[2] - 1, STARTS[1]))
    files, piece = KeptFiles(), AuditPiece(TopicPartition("t", 0), str(folder), 0, None)
    if is_readable:
        assert not faults(audit_piece(piece, files))
    else:
        monkeypatch.setattr(RealFile, "read_into", fail_to_read)
        monkeypatch.setattr(RealFile, "read_at", fail_to_read)
        with pytest.raises(OSError, match="Input/output error"):
            audit_piece(piece, files)
    assert files.opened
    for file in files.opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.fileno()


def fail_to_read(file: RealFile, *_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO), file.path)


@pytest.mark.parametrize("next_base", [None, END])
@pytest.mark.parametrize("codec", range(5))
def test_what_is_right_is_silent(folder: Path, codec: int, next_base: int | None) -> None:
    parts = batches(COUNTS, codec=codec, size=300)
    result = audited(folder, b"".join(parts), next_base=next_base)
    assert not faults(result)
    seam = result.seam
    assert (seam.start_position, seam.end_position) == (0, sum(map(len, parts)))
    assert (seam.first_offset, seam.next_offset, seam.largest_timestamp) == (0, END, START_MS + END - 1)
    assert seam.is_whole
    assert not seam.starts_damaged
    assert not seam.ends_damaged
    assert not seam.ends_unjudged


def test_a_file_without_a_byte_is_no_fault(folder: Path) -> None:
    result = audited(folder, b"")
    assert not faults(result)
    assert result.seam.is_whole
    assert result.seam.first_offset is None


def test_a_result_says_which_file_was_read(folder: Path) -> None:
    result = audited(folder, WHOLE)
    found = os.stat(folder / "00000000000000000000.log")
    assert result.identity == (found.st_dev, found.st_ino)
    assert result.size == result.read_bytes == len(WHOLE)


def test_pieces_and_results_go_to_executors_and_back(folder: Path) -> None:
    result = audited(folder, WHOLE)
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_file_that_is_gone_is_told_by_the_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        audit_piece(AuditPiece(TopicPartition("t", 0), str(tmp_path), 0, None))


# Pieces of a segment


@pytest.mark.parametrize("cut", range(1, len(WHOLE), 7))
def test_a_piece_ends_at_the_first_batch_behind_its_end(folder: Path, cut: int) -> None:
    result = audited(folder, WHOLE, end=cut)
    place = next(place for place, start in enumerate(STARTS) if start >= cut)
    assert not faults(result)
    assert (result.seam.end_position, result.seam.next_offset) == (STARTS[place], OFFSETS[place])


@pytest.mark.parametrize("place", range(len(PARTS)))
def test_a_piece_begins_at_any_batch(folder: Path, place: int) -> None:
    result = audited(folder, WHOLE, start=STARTS[place])
    assert not faults(result)
    assert result.seam.first_offset == OFFSETS[place]


# Bits that flip

RULES_OF_BYTE = [
    {OFFSET_RANGE, BAD_HEADER},  # the first bit is the sign
    *[{OFFSET_ORDER, OFFSET_RANGE, OFFSET_GAP}] * 7,
    *[{BAD_FRAME}] * 4,
    {EPOCH_ORDER, BAD_HEADER},
    *[{EPOCH_ORDER}] * 3,
    {BAD_HEADER},
    *[{CRC}] * 63,
]


@pytest.mark.parametrize("next_base", [None, END])
@pytest.mark.parametrize("place", [0, 2, len(PARTS) - 2])
def test_every_bit_that_flips_is_one_finding(folder: Path, place: int, next_base: int | None) -> None:
    for byte, rules in enumerate(RULES_OF_BYTE):
        for bit in range(8) if place == 2 else {byte % 8, 7}:
            data = bytearray(WHOLE)
            data[STARTS[place] + byte] ^= 1 << bit
            ((rule, position, offset),) = faults_of(audited(folder, data, next_base=next_base))
            assert rule in rules, (byte, bit)
            assert (position, offset) == (STARTS[place], OFFSETS[place]), (byte, bit)


@pytest.mark.parametrize("next_base", [None, END])
def test_bits_of_the_last_batch_that_flip(folder: Path, next_base: int | None) -> None:
    """Nothing behind it tells which of its offsets or epochs would be right."""
    start = STARTS[-2]
    for byte, rules in enumerate(RULES_OF_BYTE):
        for bit in {byte % 8, 0, 7} if not 12 <= byte < 16 else ():
            data = bytearray(WHOLE)
            data[start + byte] ^= 1 << bit
            ((rule, position, _),) = faults_of(audited(folder, data, next_base=next_base))
            assert rule in rules, (byte, bit)
            assert position == start


# Files that are cut or grown


@pytest.mark.parametrize("next_base", [None, END])
def test_a_file_cut_within_a_batch_is_truncated(folder: Path, next_base: int | None) -> None:
    for size in (*range(STARTS[1], STARTS[2]), *range(1, len(WHOLE), 11)):
        if size in STARTS:
            continue
        start = max(start for start in STARTS if start <= size)
        found = faults_of(audited(folder, WHOLE[:size], next_base=next_base))
        if next_base is None and not any(WHOLE[start:size]):
            assert not found  # zeros, as in a file that was made longer before it is filled
        else:
            assert found == [(TRUNCATED, start, OFFSETS[STARTS.index(start)])], size


def test_zeros_behind_the_last_batch_of_the_log_are_room_for_more(folder: Path) -> None:
    result = audited(folder, WHOLE + bytes(5000))
    assert not faults(result)
    assert result.seam.is_whole
    assert result.seam.end_position == len(WHOLE)


@pytest.mark.parametrize("behind", [bytes(1), bytes(500), b"\x01" * 10, b"\xff" * 500, random.Random(7).randbytes(100)])
def test_bytes_behind_the_last_batch_of_a_closed_segment(folder: Path, behind: bytes) -> None:
    result = audited(folder, WHOLE + behind, next_base=END)
    assert faults_of(result) == [(TRAILING_BYTES, len(WHOLE), END)]
    assert not result.seam.is_whole
    assert result.seam.end_position == len(WHOLE)


def test_bytes_behind_the_last_batch_of_the_log(folder: Path) -> None:
    assert faults_of(audited(folder, WHOLE + b"\x07" * 200)) == [(TRAILING_BYTES, len(WHOLE), END)]


@pytest.mark.parametrize("between", [bytes(150), b"\x02" * 150, b"\x00\x01" * 75])
def test_bytes_between_batches_are_one_finding(folder: Path, between: bytes) -> None:
    data = b"".join(PARTS[:3]) + between + b"".join(PARTS[3:])
    result = audited(folder, data, next_base=END)
    assert faults_of(result) == [(BAD_FRAME, STARTS[3], OFFSETS[3])]
    assert result.seam.next_offset == END
    assert result.seam.is_whole


def test_two_damaged_batches_one_behind_the_other_are_two_findings(folder: Path) -> None:
    data = bytearray(WHOLE)
    data[STARTS[2] + 70] ^= 1
    data[STARTS[3] + 70] ^= 1
    assert faults_of(audited(folder, data)) == [(CRC, STARTS[2], OFFSETS[2]), (CRC, STARTS[3], OFFSETS[3])]


def test_a_format_of_the_future_is_passed_over(folder: Path) -> None:
    data = bytearray(WHOLE)
    data[STARTS[2] + 16] = 3
    data[STARTS[2] + 70] ^= 1
    result = audited(folder, data)
    assert faults_of(result) == [(UNKNOWN_FORMAT, STARTS[2], OFFSETS[2])]
    assert result.seam.next_offset == END


def test_of_a_rule_with_very_many_findings_some_are_told_and_the_rest_counted(folder: Path) -> None:
    data = bytearray().join(patched for patched in batches([1] * 250))
    size = len(batch(0, 1))
    for place in range(250):
        data[place * size + 70 if place < 10 else data.index(b"key %d" % place)] ^= 1
    found = faults(audited(folder, data))
    assert len(found) == 101
    assert found[-1].words == "and 150 more from here on"


# The high watermark


@pytest.mark.parametrize("place", range(len(PARTS) + 1))
def test_nothing_is_judged_at_or_above_the_high_watermark(folder: Path, place: int) -> None:
    data = bytearray(WHOLE)
    for start in STARTS[place:-1]:
        data[start + 70] ^= 1
    result = audited(folder, data, judged_to=OFFSETS[place])
    assert not faults(result)
    assert result.seam.end_position == STARTS[place]
    assert result.seam.ends_unjudged == (place < len(PARTS))
    assert result.seam.next_offset == (OFFSETS[place] if place else None)


def test_a_half_batch_above_the_high_watermark_is_no_fault(folder: Path) -> None:
    result = audited(folder, WHOLE[: STARTS[4] + 30], judged_to=OFFSETS[4])
    assert not faults(result)
    assert result.seam.ends_unjudged


def test_a_batch_that_says_it_is_above_the_high_watermark_and_stands_below_is_judged(folder: Path) -> None:
    data = bytearray(WHOLE)
    data[STARTS[2] + 5] ^= 1
    assert faults_of(audited(folder, data, judged_to=END)) == [(OFFSET_ORDER, STARTS[2], OFFSETS[2])]


def test_what_is_missing_below_the_high_watermark_is_missing(folder: Path) -> None:
    data = b"".join(PARTS[:3] + PARTS[4:])
    assert faults_of(audited(folder, data, judged_to=OFFSETS[4])) == [(OFFSET_GAP, STARTS[3], OFFSETS[3])]


# Large ones, old ones, control batches


@pytest.mark.parametrize("codec", range(5))
def test_batches_larger_than_a_window(folder: Path, codec: int) -> None:
    large = batch(3, 40, size=100_000, codec=codec)
    data = batch(0, 3) + large + batch(43, 1)
    assert not faults(audited(folder, data))
    at = len(batch(0, 3))
    data[at + len(large) - 30] ^= 1
    assert faults_of(audited(folder, data)) == [(CRC, at, 3)]


def test_batches_too_large_to_be_held_are_read_in_blocks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "WINDOW_BYTES", 4096)
    monkeypatch.setattr(window, "MOST_HELD_BYTES", 8192)
    monkeypatch.setattr(piece_audit, "MOST_HELD_BYTES", 8192)
    monkeypatch.setattr(huge_batch, "_BLOCK_BYTES", 1000)
    large = batch(3, 40, size=1000)
    data = batch(0, 3) + large + batch(43, 1)
    result = audited(folder, data)
    assert not faults(result)
    assert result.figures.records == 44
    at = len(batch(0, 3))
    wrong = bytearray(data)
    wrong[at + 30_000] ^= 1
    assert faults_of(audited(folder, wrong)) == [(CRC, at, 3)]
    packed = batch(0, 3) + batch(3, 4000, size=1000, codec=3) + batch(4003, 1)
    assert faults_of(audited(folder, packed)) == [(UNKNOWN_FORMAT, at, 3)]


def _old_log(codec: int) -> tuple[list[bytes], int]:
    messages = [(number, START_MS + number, b"key", b"value") for number in range(9)]
    parts = [plain_message(0, START_MS, b"k", b"v", magic=0), plain_message(1, START_MS, None, None, magic=0)]
    parts.append(compressed_wrapper(messages[2:5], magic=0, codec=min(codec, 2)))
    parts.append(plain_message(5, START_MS, b"k", b"v", magic=1))
    parts.append(compressed_wrapper(messages[6:9], magic=1, codec=codec))
    return parts, 9


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_old_messages_are_silent_too(folder: Path, codec: int) -> None:
    parts, end = _old_log(codec)
    data = b"".join(parts) + bytes(batch(end, 3))
    result = audited(folder, data)
    assert not faults(result)
    assert result.figures.records == 12
    assert result.seam.next_offset == 12


def test_an_old_message_with_a_wrong_crc(folder: Path) -> None:
    parts, end = _old_log(1)
    starts = [0, *accumulate(map(len, parts))]
    for place in range(1, 5):
        data = bytearray(b"".join(parts) + bytes(batch(end, 3)))
        data[starts[place + 1] - 1] ^= 1
        ((rule, position, _),) = faults_of(audited(folder, data))
        assert (rule, position) == (CRC, starts[place])


def test_old_messages_that_are_doubled_or_dropped(folder: Path) -> None:
    parts = [plain_message(number, START_MS, b"k", b"v" * 60, magic=1) for number in range(6)]
    size = len(parts[0])
    assert faults_of(audited(folder, b"".join([*parts[:3], parts[2], *parts[3:]]))) == [(OFFSET_ORDER, 3 * size, 2)]
    assert faults_of(audited(folder, b"".join([*parts[:3], *parts[4:]]))) == [(OFFSET_GAP, 3 * size, 3)]


def _marker(offset: int, kind: int) -> bytearray:
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 3, "timestamp": START_MS}
    return end_txn_marker(kind, **fields, base_offset=offset, leader_epoch=0)


def test_transactions_are_silent(folder: Path) -> None:
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    parts = [
        batch(0, 2, base_sequence=0, **fields),
        _marker(2, COMMIT),
        batch(3, 2, base_sequence=2, **fields),
        _marker(5, COMMIT),
        batch(6, 1),
    ]
    result = audited(folder, b"".join(parts))
    assert not faults(result)
    assert result.figures.control_batches == 2


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_marker_is_transactional(folder: Path, kind: int) -> None:
    data = batch(0, 2, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    marker = patched(_marker(2, kind), 21, b"\0\x20")
    assert faults_of(audited(folder, data + marker + batch(3))) == [(BAD_HEADER, len(data), 2)]


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_marker_has_no_sequence(folder: Path, kind: int) -> None:
    data = batch(0, 2, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    marker = patched(_marker(2, kind), 53, (2).to_bytes(4, "big"))
    assert faults_of(audited(folder, data + marker + batch(3))) == [(BAD_HEADER, len(data), 2)]


@pytest.mark.parametrize("shift", [-1, 400])
@pytest.mark.parametrize("field", [27, 35])
def test_the_timestamps_of_a_marker_are_those_of_its_header(folder: Path, field: int, shift: int) -> None:
    """The greatest one, whichever of the two it is that is wrong."""
    data = batch(0, 2, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    marker = patched(_marker(2, COMMIT), field, (START_MS + shift).to_bytes(8, "big"))
    result = audited(folder, data + marker + batch(3))
    assert faults_of(result) == [(BAD_HEADER, len(data), 2)]
    assert "states the greatest timestamp" in faults(result)[0].words


def test_a_marker_that_has_the_time_of_its_append(folder: Path) -> None:
    """Whatever its record says: the header counts."""
    data = batch(0, 2, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    marker = patched(_marker(2, COMMIT), 35, (START_MS + 400).to_bytes(8, "big"))
    marker = patched(marker, 21, b"\0\x38")
    assert faults_of(audited(folder, data + marker + batch(3))) == []


def test_control_batches_of_a_quorum_are_silent(folder: Path) -> None:
    leader_change = BatchBuilder(0, control=True, leader_epoch=1)
    leader_change.append(START_MS, b"\x00\x00\x00\x02", b"\x00\x00" + b"anything")
    several = BatchBuilder(1, control=True, leader_epoch=1)
    for kind in (3, 5, 6):
        several.append(START_MS, b"\x00\x00\x00" + bytes([kind]), b"\x00\x00\x01")
    data = leader_change.build() + several.build() + batch(4, 2, leader_epoch=1)
    assert not faults(audited(folder, data))


def test_a_control_batch_that_cannot_be_read(folder: Path) -> None:
    wrong = BatchBuilder(3, control=True, leader_epoch=0)
    wrong.append(START_MS, b"\x00", b"")
    data = batch(0, 3) + wrong.build() + batch(4, 2)
    assert faults_of(audited(folder, data)) == [(BAD_CONTROL, len(batch(0, 3)), 3)]


# Whatever the bytes are


@settings(max_examples=examples(120))
@given(st.data())
def test_whatever_the_bytes_are_there_are_findings_and_no_error(tmp_path_factory: Any, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    parts = [bytes(part) for part in batches((2, 1, 3), codec=data.draw(st.integers(0, 4)))]
    parts += _old_log(2)[0][:3]
    chosen = data.draw(st.lists(st.sampled_from([*parts, bytes(40), b"\x02" * 70, b"\xff" * 20]), max_size=8))
    log = bytearray(b"".join(chosen))
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(0, max(len(log) - 1, 0)), st.integers(0, 255)), max_size=6)
    ):
        if log:
            log[at] = value
    next_base = data.draw(st.sampled_from([None, 3, 6, 1000]))
    judged_to = data.draw(st.sampled_from([None, 0, 2, 6]))
    end = data.draw(st.one_of(st.none(), st.integers(0, len(log) + 10)))
    result = audited(folder, bytes(log), next_base=next_base, judged_to=judged_to, end=end)
    assert 0 <= result.seam.end_position <= len(log)


@settings(max_examples=examples(60))
@given(st.binary(max_size=400))
def test_bytes_of_nobody(tmp_path_factory: Any, data: bytes) -> None:
    result = audited(tmp_path_factory.mktemp("hostile"), data)
    assert result.seam.is_whole == (not data.strip(b"\0")) or faults(result) or result.figures.batches


def test_of_a_file_full_of_damage_not_all_is_looked_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_audit, "MOST_DAMAGES", 3)
    data = bytearray(WHOLE)
    for start in STARTS[:-1]:
        data[start + 70] ^= 1
    result = audited(folder, data)
    assert [rule for rule, _, _ in faults_of(result)] == [CRC] * 3 + [BAD_FRAME]
    assert not result.seam.is_whole
