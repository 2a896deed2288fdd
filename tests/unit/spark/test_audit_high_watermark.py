"""Directories that were not closed: what lies above the high watermark is not judged, and nothing hides there.

A base offset is not covered by a CRC, so that a wrong bit of it may claim a place above the high watermark.
"""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import pytest

from support.audit.pieces import audited, batch, batches, faults_of
from tailrace.record.batch import set_base_offset
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.rules import BAD_FRAME, CRC, OFFSET_GAP, OFFSET_ORDER, OFFSET_RANGE, TRAILING_BYTES

FAR = 1 << 24
OFFSETS = (0, 3, 10, 14, 20, 25, 31)
"""Of batches of two: compaction took what is between them."""
HIGH_WATERMARK = 27
COUNTS = (3, 1, 4, 1, 5, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "t-0"


def moved(part: bytes, by: int = FAR) -> bytes:
    """With another base offset and the same CRC."""
    made = bytearray(part)
    set_base_offset(made, 0, int.from_bytes(part[:8], "big") + by)
    return bytes(made)


def broken(part: bytes) -> bytes:
    return part[:-1] + bytes([part[-1] ^ 1])


def compacted() -> list[bytes]:
    return [bytes(batch(offset, 2)) for offset in OFFSETS]


def found(folder: Path, parts: list[bytes], *, next_base: int | None = None, judged_to: int = HIGH_WATERMARK) -> object:
    """Rule, number of the batch, offset."""
    starts = [0, *accumulate(map(len, parts))]
    result = audited(folder, b"".join(parts), next_base=next_base, judged_to=judged_to, is_compacted=True)
    return [(rule, starts.index(position or 0), offset) for rule, position, offset in faults_of(result)]


@pytest.mark.parametrize("next_base", [None, 40])
@pytest.mark.parametrize("place", range(4))
def test_a_base_offset_above_the_high_watermark_before_batches_below_it(
    folder: Path, place: int, next_base: int | None
) -> None:
    parts = compacted()
    parts[place], parts[5] = moved(parts[place]), broken(parts[5])
    came_to = OFFSETS[place - 1] + 2 if place else 0
    rule = OFFSET_RANGE if next_base else OFFSET_ORDER
    assert found(folder, parts, next_base=next_base) == [(rule, place, came_to), (CRC, 5, OFFSETS[4] + 2)]


def test_a_segment_below_the_high_watermark_holds_nothing_above_it(folder: Path) -> None:
    parts = compacted()[:6]
    parts[0], parts[3] = moved(parts[0], 64), broken(parts[3])
    assert found(folder, parts, next_base=27) == [(OFFSET_RANGE, 0, 0), (CRC, 3, 12)]
    assert found(folder, [*compacted()[:6], b"no batch" * 20], next_base=27) == [(TRAILING_BYTES, 6, 27)]


def test_several_neighbours_of_a_log_that_lacks_nothing(folder: Path) -> None:
    parts = [bytes(part) for part in batches(COUNTS)]
    starts = [0, *accumulate(map(len, parts))]
    parts[1], parts[2], parts[4] = moved(parts[1]), moved(parts[2], 2 * FAR), broken(parts[4])
    told_of = faults_of(audited(folder, b"".join(parts), judged_to=16))
    assert told_of == [(OFFSET_ORDER, starts[1], 3), (OFFSET_ORDER, starts[2], 4), (CRC, starts[4], 9)]


def test_behind_damage(folder: Path) -> None:
    parts = compacted()
    parts[1], parts[2] = moved(parts[1]), b"\xff" * len(parts[2])
    assert found(folder, parts) == [(OFFSET_ORDER, 1, 2), (BAD_FRAME, 2, 4)]
    parts[1], parts[2] = compacted()[1], moved(compacted()[2])
    parts[0] = b"\xff" * len(parts[0])
    assert found(folder, parts) == [(BAD_FRAME, 0, 0), (OFFSET_ORDER, 2, 5)]


@pytest.mark.parametrize("judged_to", [0, 2, 5, 12, 14, 16, 26, 27, 31, 33])
@pytest.mark.parametrize("behind", ["nothing", "zeros", "few zeros", "cut batch", "far batch"])
def test_a_log_that_is_being_written_is_clean(folder: Path, judged_to: int, behind: str) -> None:
    """Above the high watermark anything may stand; below it there are gaps."""
    whole = compacted()
    more = {"zeros": bytes(4096), "few zeros": bytes(2), "cut batch": bytes(batch(40, 3))[:-10]}
    end = moved(bytes(batch(50, 1))) if behind == "far batch" else more.get(behind, b"")
    assert found(folder, [*whole, end], judged_to=judged_to) == []
    below = [part for offset, part in zip(OFFSETS, whole, strict=True) if offset < judged_to]
    if judged_to in {0, *(offset + 2 for offset in OFFSETS)}:  # and no gap before it
        torn = [*below, *map(broken, whole[len(below) :]), end]
        assert found(folder, torn, judged_to=judged_to) == []


def test_records_that_hold_batches_are_no_batches_of_the_log(folder: Path) -> None:
    """A batch is being written whose records look like batches of the log."""
    inner = b"".join(compacted()[4:6])
    outer = bytes(batch(FAR, 2, size=20)) + inner
    outer = outer[:8] + (len(outer) + 100).to_bytes(4, "big") + outer[12:]
    assert found(folder, [*compacted()[:4], moved(compacted()[6]), outer]) == []


def test_what_is_missing_below_the_high_watermark_is_told(folder: Path) -> None:
    parts = [bytes(part) for part in batches(COUNTS)]
    del parts[3]
    at = sum(map(len, parts[:3]))
    assert faults_of(audited(folder, b"".join(parts), judged_to=9)) == [(OFFSET_GAP, at, 8)]


def test_findings_are_the_same_however_the_segment_is_cut(folder: Path) -> None:
    parts = compacted()
    parts[1] = moved(parts[1])
    starts = [0, *accumulate(map(len, parts))]
    data = b"".join(parts)
    of = {"judged_to": HIGH_WATERMARK, "is_compacted": True}

    def all_of(cut: int) -> list[Finding]:
        first = audited(folder, data, end=starts[cut], **of)
        return [*first.findings, *audited(folder, data, start=starts[cut], **of).findings]

    for cut in (2, 3, 5):
        assert [each.rule for each in all_of(cut) if each.severity == "error"] == [OFFSET_ORDER]
