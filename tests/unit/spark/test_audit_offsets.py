"""Offsets of a piece: what goes on, what compaction may have taken, and what is at the wrong place."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.audit.pieces import START_MS, audited, batch, batches, faults, faults_of
from tailrace.model.ids import TopicPartition
from tailrace.record.batch import set_crc
from tailrace.record.builder import BatchBuilder
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import OFFSET_GAP, OFFSET_ORDER, OFFSET_RANGE
from tailrace.spark.auditing.task.piece_audit import audit_piece
from tailrace.storage import names

COUNTS = (3, 1, 4, 1, 5, 2)
OFFSETS = [0, *accumulate(COUNTS)]
END = OFFSETS[-1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "t-0"


def _parts(*, has_producer: bool) -> list[bytes]:
    """With a producer, whose sequences would tell of the same faults again."""
    if not has_producer:
        return [bytes(part) for part in batches(COUNTS)]
    fields = {"producer_id": 5, "producer_epoch": 0}
    return [
        bytes(batch(offset, count, base_sequence=offset, **fields))
        for offset, count in zip(OFFSETS, COUNTS, strict=False)
    ]


@pytest.mark.parametrize("has_producer", [False, True])
@pytest.mark.parametrize("next_base", [None, END])
@pytest.mark.parametrize(
    ("order", "found"),
    [
        ((0, 2, 1, 3, 4, 5), [(OFFSET_ORDER, 2, 1)]),  # swapped
        ((1, 0, 2, 3, 4, 5), [(OFFSET_ORDER, 1, 0)]),
        ((0, 1, 2, 3, 5, 4), [(OFFSET_ORDER, 5, 4)]),
        ((0, 2, 3, 4, 1, 5), [(OFFSET_ORDER, 4, 1)]),  # moved
        ((0, 1, 2, 2, 3, 4, 5), [(OFFSET_ORDER, 3, 2)]),  # doubled
        ((0, 1, 2, 3, 2, 3, 4, 5), [(OFFSET_ORDER, 4, 2)]),
        ((0, 1, 2, 3, 4, 1, 5), [(OFFSET_ORDER, 5, 1)]),
        ((0, 1, 2, 3, 4, 5, 5), [(OFFSET_ORDER, 6, 5)]),
        ((0, 1, 3, 4, 5), [(OFFSET_GAP, 2, 2)]),  # dropped
        ((1, 2, 3, 4, 5), [(OFFSET_GAP, 0, 0)]),
        ((0, 2, 4, 5), [(OFFSET_GAP, 1, 1), (OFFSET_GAP, 2, 3)]),
        ((0, 1, 4, 5), [(OFFSET_GAP, 2, 2)]),
    ],
)
def test_batches_at_wrong_places(
    folder: Path,
    order: tuple[int, ...],
    found: list[tuple[str, int, int]],
    next_base: int | None,
    has_producer: bool,
) -> None:
    """Each finding is at a place of the order, about the offset of a batch."""
    parts = _parts(has_producer=has_producer)
    chosen = [parts[number] for number in order]
    starts = [0, *accumulate(map(len, chosen))]
    expected = [(rule, starts[place], OFFSETS[number]) for rule, place, number in found]
    assert faults_of(audited(folder, b"".join(chosen), next_base=next_base)) == expected


def test_batches_that_their_segment_cannot_have(folder: Path) -> None:
    parts = _parts(has_producer=False)
    at = len(b"".join(parts[:4]))
    whole = b"".join(parts)
    assert faults_of(audited(folder, whole, next_base=OFFSETS[4])) == [(OFFSET_RANGE, at, OFFSETS[4])]
    assert faults_of(audited(folder, whole, base_offset=2)) == [(OFFSET_RANGE, 0, 2)]
    far = bytes(batch(2**31, 1))
    assert faults_of(audited(folder, whole + far)) == [(OFFSET_RANGE, len(whole), END)]


def _cleaned(base_offset: int, kept: list[int], behind: int) -> bytes:
    """A batch of which a cleaner kept these offsets."""
    builder = BatchBuilder(base_offset, leader_epoch=0)
    for offset in kept:
        builder.append_at(offset, START_MS + offset, b"key %d" % offset, b"value")
    made = builder.build() if kept else bytearray(batch(base_offset, 1)[:61])
    made[23:27] = (behind - base_offset - 1).to_bytes(4, "big")
    if not kept:
        made[8:12] = (49).to_bytes(4, "big")
        made[57:61] = bytes(4)
    set_crc(made)
    return bytes(made)


CLEANED = [_cleaned(0, [1, 4], 7), _cleaned(7, [], 9), _cleaned(20, [21], 23), bytes(batch(30, 3))]


def test_what_compaction_takes_is_no_fault_where_it_was(folder: Path) -> None:
    data = b"".join(CLEANED)
    assert not faults(audited(folder, data, cleaned_to=30))
    assert not faults(audited(folder, data, next_base=40, is_being_cleaned=True))


def test_what_is_missing_above_the_cleaners_point_is_missing(folder: Path) -> None:
    data = b"".join(CLEANED)
    at = len(data) - len(CLEANED[-1])
    assert faults_of(audited(folder, data, cleaned_to=23)) == [(OFFSET_GAP, at, 23)]
    found = [offset for _, _, offset in faults_of(audited(folder, data))]
    assert found == [0, 7, 9, 23]


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_topics_that_are_always_compacted_may_lack_offsets_anywhere(tmp_path: Path, topic: str) -> None:
    (tmp_path / names.log_name(0)).write_bytes(b"".join(CLEANED))
    assert not faults(audit_piece(AuditPiece(TopicPartition(topic, 0), str(tmp_path), 0, None)))


def test_a_log_that_begins_behind_its_segments_base_lacks_nothing_where_it_was_cleaned(folder: Path) -> None:
    data = bytes(batch(10, 3))
    assert faults_of(audited(folder, data, base_offset=5)) == [(OFFSET_GAP, 0, 5)]
    assert not faults(audited(folder, data, base_offset=5, cleaned_to=10))


def test_a_piece_that_begins_within_a_segment_does_not_judge_what_is_before(folder: Path) -> None:
    parts = _parts(has_producer=False)
    data = b"".join([parts[0], parts[3], *parts[4:]])
    assert not faults(audited(folder, data, start=len(parts[0])))


@settings(max_examples=examples(60))
@given(
    counts=st.lists(st.integers(1, 4), min_size=3, max_size=12),
    dropped=st.sets(st.integers(0, 11)),
    data=st.data(),
)
def test_gaps_are_found_as_they_are_however_the_segment_is_cut(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], dropped: set[int], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("gaps")
    offsets = [0, *accumulate(counts)]
    kept = [number for number in range(len(counts)) if number not in dropped or number == len(counts) - 1]
    parts = [bytes(batch(offsets[number], counts[number])) for number in kept]
    starts = [0, *accumulate(map(len, parts))]
    cut = data.draw(st.integers(1, len(parts)))
    found = faults_of(audited(folder, b"".join(parts), end=starts[cut]))
    found += faults_of(audited(folder, b"".join(parts), start=starts[cut])) if cut < len(parts) else []
    came_to, expected = 0, []
    for place, number in enumerate(kept):
        if offsets[number] > came_to and place != cut:
            expected.append((OFFSET_GAP, starts[place], came_to))
        came_to = offsets[number + 1]
    assert found == expected
