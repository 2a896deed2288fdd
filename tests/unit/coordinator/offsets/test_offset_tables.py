"""Where offsets are kept: what counts, what is not committed yet, what transactions hold back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordinator.offsets.entry import CommittedOffset
from tailrace.coordinator.offsets.pending import PendingOffsets
from tailrace.coordinator.offsets.table import OffsetTable
from tailrace.coordinator.offsets.unsettled import UnsettledChanges

ID = bytes(range(16))


def entry(offset: int, record_offset: int = 0, topic_id: bytes = ID) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0, -1, topic_id, record_offset)


def test_a_table_has_no_empty_places() -> None:
    table = OffsetTable()
    assert table.put("g", "t", 0, entry(1)) is None
    assert table.put("g", "t", 0, entry(2)) == entry(1)
    assert table.put("g", "t", 1, entry(3)) is None
    assert (table.count, table.get("g", "t", 0), list(table.of_topic("t"))) == (
        2,
        entry(2),
        [("g", 0, entry(2)), ("g", 1, entry(3))],
    )
    assert table.remove("g", "t", 9) is None
    assert table.remove("nobody", "t", 0) is None
    assert [table.remove("g", "t", 0), table.remove("g", "t", 1)] == [entry(2), entry(3)]
    assert (table.count, table.group_ids(), table.of_group("g")) == (0, [], {})


def test_an_entry_without_an_id_may_be_of_any_topic() -> None:
    other = bytes(15) + b"x"
    assert entry(1).is_of(ID)
    assert not entry(1).is_of(other)
    assert entry(1).is_of(bytes(16))
    assert entry(1, topic_id=bytes(16)).is_of(other)


changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 2)),
        st.tuples(st.just("remove"), st.integers(0, 2)),
        st.tuples(st.just("advance"), st.integers(1, 3)),
    ),
    max_size=40,
)


@pytest.mark.spec("CO-02")
@given(changes)
def test_what_is_shown_is_what_the_log_says_up_to_the_high_watermark(steps: list[tuple[str, int]]) -> None:
    log: list[tuple[int, CommittedOffset | None]] = []
    high_watermark = 0
    table, unsettled = OffsetTable(), UnsettledChanges(lambda offset: offset < high_watermark)
    for what, number in steps:
        if what == "advance":
            high_watermark = min(high_watermark + number, len(log))
        else:
            new = entry(len(log), len(log)) if what == "put" else None
            before = table.put("g", "t", number, new) if new else table.remove("g", "t", number)
            unsettled.note(len(log), "g", ("t", number), before)
            log.append((number, new))
        unsettled.settle()
        expected = dict(log[:high_watermark])
        held_back = dict(unsettled.places("g"))
        for partition in range(3):
            place = ("t", partition)
            shown = held_back[place] if place in held_back else table.get("g", *place)
            assert shown == expected.get(partition)
        assert len(unsettled) == len(log) - high_watermark


def test_offsets_of_a_transaction_are_taken_once() -> None:
    pending = PendingOffsets()
    pending.add(1, "g", ("t", 0), entry(5))
    pending.add(2, "g", ("t", 0), entry(6))
    pending.add(1, "h", ("t", 1), entry(7))
    assert pending.has("g", ("t", 0))
    assert not pending.has("g", ("t", 1))
    assert pending.take(1) == [("g", "t", 0, entry(5)), ("h", "t", 1, entry(7))]
    assert pending.take(1) == []
    assert pending.has("g", ("t", 0))
    assert not pending.has_group("h")
    assert pending.take(2) == [("g", "t", 0, entry(6))]
    assert not pending.has_group("g")


def test_a_deleted_offset_is_gone_from_all_transactions() -> None:
    pending = PendingOffsets()
    for producer in (1, 2):
        pending.add(producer, "g", ("t", 0), entry(producer))
    pending.add(2, "g", ("t", 1), entry(9))
    pending.drop("g", ("t", 0))
    pending.drop("nobody", ("t", 0))
    assert pending.places("g") == [("t", 1)]
    assert (pending.take(1), pending.take(2)) == ([], [("g", "t", 1, entry(9))])
