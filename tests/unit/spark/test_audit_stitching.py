"""Seams between the pieces of a folder: offsets, epochs, time indexes, and the end of the log."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace.model.ids import TopicPartition
from tailrace.spark.auditing.figures import TopicFigures
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.job.stitching import stitch
from tailrace.spark.auditing.job.stitching_edges import is_smooth
from tailrace.spark.auditing.pieces import AuditPiece, PieceResult, Seam
from tailrace.spark.auditing.rules import EPOCH_ORDER, OFFSET_GAP, OFFSET_ORDER, TIME_INDEX, TRUNCATED
from tailrace.spark.source.files.folders import Noted

PARTITION = TopicPartition("t", 0)
FOLDER = "/data/t-0"


def piece(
    base: int, next_base: int | None, first: int | None, behind: int | None, *, start: int = 0, **given: Any
) -> PieceResult:
    of_piece = {
        name: given.pop(name)
        for name in ("end", "judged_to", "cleaned_to", "is_being_cleaned", "is_compacted")
        if name in given
    }
    return PieceResult(
        AuditPiece(PARTITION, FOLDER, base, next_base, start=start, **of_piece),
        Seam(start, start + 1000, **{"is_whole": True, "first_offset": first, "next_offset": behind, **given}),
        [],
        TopicFigures(),
    )


def found(*results: PieceResult, high_watermark: int | None = None, snapshots: tuple[int, ...] = ()) -> list[Finding]:
    folder = Folder(PARTITION, FOLDER, "/data", snapshots=snapshots, noted=Noted(high_watermark=high_watermark))
    return stitch(folder, results)


def told(*results: PieceResult, **facts: Any) -> list[tuple[str, int, int | None, int | None]]:
    """(rule, number in the name of the file, offset, position)"""
    return [
        (finding.rule, int(finding.file.rpartition("/")[2].partition(".")[0]), finding.offset, finding.position)
        for finding in found(*results, **facts)
    ]


def test_pieces_that_meet_are_silent() -> None:
    assert told() == []
    assert told(piece(0, 20, 0, 10), piece(0, 20, 10, 20, start=1000), piece(20, None, 20, 30), high_watermark=30) == []
    assert told(piece(5, 20, 7, 20), piece(20, 25, 20, 25), piece(25, None, None, None), high_watermark=25) == []


def test_offsets_that_are_missing_between_two_pieces_of_a_segment() -> None:
    pieces = piece(0, None, 0, 10), piece(0, None, 15, 20, start=1000)
    assert told(*pieces) == [(OFFSET_GAP, 0, 10, 1000)]
    assert found(*pieces)[0].words == "offsets 10 to 14 are missing before this batch"


def test_offsets_that_fall_between_two_pieces_of_a_segment() -> None:
    assert told(piece(0, None, 0, 10), piece(0, None, 8, 20, start=1000)) == [(OFFSET_ORDER, 0, 8, 1000)]


@pytest.mark.parametrize(
    "given",
    [
        {"cleaned_to": 15},
        {"is_being_cleaned": True},
        {"judged_to": 10},
        {"starts_damaged": True},
    ],
)
def test_gaps_that_are_no_fault(given: dict[str, Any]) -> None:
    assert told(piece(0, 99, 0, 10), piece(0, 99, 15, 99, start=1000, **given)) == []


@pytest.mark.parametrize(
    ("last", "first", "expected"),
    [
        ({}, {}, True),
        ({"next_offset": 9}, {}, False),
        ({"next_offset": 11}, {}, False),
        ({"next_offset": 9}, {"cleaned_to": 10}, True),
        ({"ends_damaged": True}, {}, False),
        ({"is_whole": False}, {}, False),
        ({}, {"starts_damaged": True}, False),
        ({"ends_unjudged": True}, {}, False),
        ({"ends_unjudged": True}, {"first_offset": None, "ends_unjudged": True}, True),
        ({}, {"first_offset": None, "ends_unjudged": True}, True),
        ({}, {"first_offset": None}, False),
        ({"last_epoch": 3}, {"first_epoch": 2}, False),
        ({"last_epoch": 3}, {"first_epoch": -1}, True),
        ({"largest_timestamp": 7}, {"first_time_entry": (6, 12, 24)}, False),
        ({"largest_timestamp": 7}, {"first_time_entry": (7, 12, 24)}, True),
    ],
)
def test_where_pieces_meet_without_anything_to_say(last: dict[str, Any], first: dict[str, Any], expected: bool) -> None:
    before, behind = piece(0, None, 0, 10, **last), piece(0, None, 10, 20, start=1000, **first)
    assert is_smooth(before, behind) is expected


@pytest.mark.parametrize("given", [{"ends_damaged": True}, {"is_whole": False}, {"ends_unjudged": True}])
def test_nothing_is_judged_behind_damage(given: dict[str, Any]) -> None:
    assert told(piece(0, None, 0, 10, **given), piece(0, None, 15, 20, start=1000)) == []
    assert told(piece(0, 20, 0, 10, **given), piece(20, None, 20, 30)) == []
    assert told(piece(0, None, 0, 10, **given), high_watermark=50) == []


def test_a_closed_segment_whose_end_is_cut_off() -> None:
    assert told(piece(0, 20, 0, 18), piece(20, None, 20, 30)) == [(TRUNCATED, 0, 18, 1000)]
    emptied = piece(0, 20, None, None), piece(20, None, 20, 30)
    assert told(*emptied) == told(*emptied, snapshots=(0,)) == [(TRUNCATED, 0, 0, 1000)]


def test_a_segment_that_is_gone() -> None:
    assert told(piece(0, 20, 0, 10), piece(20, None, 20, 30)) == [(OFFSET_GAP, 0, 10, 1000)]
    assert told(piece(0, 20, 0, 18), piece(20, None, 20, 30), snapshots=(18,)) == [(OFFSET_GAP, 0, 18, 1000)]


def test_compaction_leaves_gaps_between_segments() -> None:
    assert told(piece(0, 20, 0, 11, cleaned_to=20), piece(20, None, 20, 30, cleaned_to=20)) == []
    cleaned = piece(0, 20, 0, 20, cleaned_to=20), piece(20, 40, 20, 31, cleaned_to=20)
    assert told(*cleaned, piece(40, None, 40, 50, cleaned_to=20)) == [(OFFSET_GAP, 20, 31, 1000)]


def test_a_segment_that_could_not_be_read_is_not_missing() -> None:
    assert told(piece(0, 20, 0, 20), piece(40, None, 40, 50)) == []


def test_a_segment_that_goes_beyond_the_next_one_was_told_by_its_task() -> None:
    assert told(piece(0, 20, 0, 25), piece(20, None, 20, 30)) == []


def test_a_log_that_ends_below_its_high_watermark() -> None:
    pieces = piece(0, 20, 0, 20), piece(20, None, 20, 30)
    assert told(*pieces, high_watermark=30) == []
    assert told(*pieces, high_watermark=33) == [(TRUNCATED, 20, 30, 1000)]
    assert told(piece(0, 20, 0, 20), high_watermark=33) == []  # the last segment could not be read


def test_leader_epochs_that_fall_between_two_pieces() -> None:
    pieces = (
        piece(0, 20, 0, 20, first_epoch=1, last_epoch=4),
        piece(20, 30, 20, 30),
        piece(30, 40, 30, 40, first_epoch=3, last_epoch=3),
        piece(40, None, 40, 50, first_epoch=3, last_epoch=5),
    )
    assert told(*pieces) == [(EPOCH_ORDER, 30, 30, 0)]


def test_the_time_index_of_a_closed_segment_has_its_largest_timestamp() -> None:
    last = piece(20, None, 20, 30, largest_timestamp=9, last_time_entry=-1)

    def closed(entry: int | None, **given: Any) -> PieceResult:
        return piece(0, 20, 0, 20, **{"largest_timestamp": 7, "last_time_entry": entry, **given})

    assert told(closed(7), last) == []
    assert told(closed(5), last) == [(TIME_INDEX, 0, None, None)]
    assert told(closed(-1), last) == [(TIME_INDEX, 0, None, None)]
    assert told(closed(None), last) == []  # damaged, or missing
    assert told(closed(-1, largest_timestamp=-1), last) == []
    assert told(closed(5, ends_unjudged=True), last) == []
    assert told(closed(5, next_offset=15), last) == [(TRUNCATED, 0, 15, 1000)]
    first = piece(0, 20, 0, 10, end=1000, largest_timestamp=7, last_time_entry=7)
    second = {"start": 1000, "largest_timestamp": 6}
    assert told(first, piece(0, 20, 10, 20, last_time_entry=-1, **second), last) == []
    assert told(first, piece(0, 20, 10, 20, last_time_entry=None, **second), last) == []
    lower = piece(0, 20, 0, 10, end=1000, largest_timestamp=7, last_time_entry=5)
    assert told(lower, piece(0, 20, 10, 20, last_time_entry=-1, **second), last) == [(TIME_INDEX, 0, None, None)]


def test_a_time_index_that_is_below_what_stands_before() -> None:
    pieces = (
        piece(0, 20, 0, 10, largest_timestamp=500),
        piece(0, 20, 10, 20, start=1000, largest_timestamp=600, first_time_entry=(400, 12, 24)),
        piece(20, None, 20, 30, largest_timestamp=100, first_time_entry=(100, 25, 0)),
    )
    assert told(*pieces) == [(TIME_INDEX, 0, 12, 24)]
    assert found(*pieces)[0].file.endswith("/00000000000000000000.timeindex")


def test_a_piece_that_begins_without_epochs() -> None:
    before = piece(0, None, 0, 10, first_epoch=1, last_epoch=1)
    behind = piece(0, None, 10, 20, start=1000, without_epoch=(10, 1000))
    assert told(before, behind) == [(EPOCH_ORDER, 0, 10, 1000)]
    assert not is_smooth(before, behind)
    first = piece(0, None, 0, 10, without_epoch=(0, 0))
    assert is_smooth(first, behind)
    assert told(first, behind) == []
