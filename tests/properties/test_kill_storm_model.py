"""The judge of the kill storm must be able to say no: a small history, and everything that could be wrong after it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from support.logs.builders import placed
from support.stress.log_kills.journal import ABORTED, COMMITTED, NO_PRODUCER, PLAIN, TRANSACTIONAL, Attempt, Sent
from support.stress.log_kills.model import Model
from support.stress.log_kills.opened_logs import Seen, Sighting
from support.stress.log_kills.workload import Partition
from tailrace.config.log import LogConfig
from tailrace.record.builder import BatchBuilder, empty_batch
from tailrace.record.shallow import batches

T0 = 1_700_000_000_000
WINDOW_MS = 100
COMPACTED = Partition("c", "a", 9, LogConfig(cleanup_policy=("compact",), delete_retention_ms=WINDOW_MS))
RETAINED = Partition("d", "a", 0, LogConfig(cleanup_policy=("delete",), retention_ms=1000))

# What was sent, in this order, each batch of one record: offsets are numbers.
HISTORY = [
    (NO_PRODUCER, PLAIN, "x", "old"),  # 0
    (NO_PRODUCER, PLAIN, "y", "1"),  # 1
    (7, TRANSACTIONAL, "x", "aborted"),  # 2
    (7, ABORTED, "", ""),  # 3
    (8, TRANSACTIONAL, "x", "new"),  # 4
    (8, COMMITTED, "", ""),  # 5
    (NO_PRODUCER, PLAIN, "z", "1"),  # 6
    (NO_PRODUCER, PLAIN, "z", None),  # 7
    (NO_PRODUCER, PLAIN, "y", "2"),  # 8, in the active segment
    (9, PLAIN, "v", "1"),  # 9
]
ACTIVE_BASE = 8
LATE_MS = T0 + 10_000


def attempts(partition: Partition) -> list[Attempt]:
    sequences = {7: 0, 8: 0, 9: 0}
    return [
        Attempt(
            number,
            partition.name,
            producer,
            0 if producer >= 0 else -1,
            sequences.get(producer, -1),
            kind,
            0,
            [Sent(T0, key, value)],
        )
        for number, (producer, kind, key, value) in enumerate(HISTORY)
    ]


def told(partition: Partition, acknowledged: int = len(HISTORY)) -> Model:
    """A model that has read the journal of the history; the last attempts may not have been answered."""
    model = Model({partition.name: partition})
    for number, attempt in enumerate(attempts(partition)):
        lines = [attempt.line()]
        if number < acknowledged:
            lines.append(["ack", number, number, number, False, ACTIVE_BASE if number >= ACTIVE_BASE else 0, T0])
        assert model.read_journal(iter(lines), run=0) == []
    return model


def seen(partition: Partition, *kept: int, end: int = len(HISTORY), **changes: object) -> Seen:
    """The log with the batches of these offsets."""
    sent = attempts(partition)
    data = b"".join(bytes(placed(sent[offset].batch(), offset)) for offset in kept)
    found = Seen(0, end, end, ACTIVE_BASE, 0, True, [(7, 2, 3)], [], data, data)
    return replace(found, **changes)  # type: ignore[arg-type]


def differences(model: Model, partition: Partition, found: Seen, at_ms: int = LATE_MS) -> list[str]:
    return model.compare(Sighting(at_ms, {partition.name: found}))


ALL = range(len(HISTORY))
LEAST = (1, 4, 5, 8, 9)  # the marker of the abort and the tombstone have had their time


@pytest.mark.parametrize("kept", [tuple(ALL), LEAST, (0, *LEAST[0:]), (1, 4, 5, 7, 8, 9)], ids=str)
def test_what_compaction_may_leave(kept: tuple[int, ...]) -> None:
    assert differences(told(COMPACTED), COMPACTED, seen(COMPACTED, *kept)) == []


@pytest.mark.parametrize(
    ("kept", "wrong"),
    [
        ((4, 5, 8, 9), "the record at 1 .*newest of its key below 8, is lost"),
        ((0, 1, 8, 9), "the record at 4 .*newest of its key below 8, is lost"),
        ((1, 4, 5, 9), "the record at 8 .* is lost; nothing from 8 on"),
        ((1, 4, 5, 6, 8, 9), "reader sees the record at 6 .*: 7 is newer"),
        ((1, 4, 8, 9), "the marker at 5 is lost"),
        ((4, 1, 5, 8, 9), "stands behind"),
    ],
    ids=str,
)
def test_what_compaction_must_not_lose(kept: tuple[int, ...], wrong: str) -> None:
    found = differences(told(COMPACTED), COMPACTED, seen(COMPACTED, *kept))
    assert any(re.search(wrong, each) for each in found), found


def test_tombstones_and_markers_have_their_window() -> None:
    found = differences(told(COMPACTED), COMPACTED, seen(COMPACTED, *LEAST), at_ms=T0 + WINDOW_MS - 1)
    assert any("a tombstone, went before its time" in each for each in found)
    assert any("the marker at 3 went before its time" in each for each in found)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda found: replace(found, log_end=9), "the log ends at 9, not at 10"),
        (lambda found: replace(found, cleaner_point=9), "counts as clean up to 9"),
        (lambda found: replace(found, last_stable=4), "the last stable offset is 4, not 10"),
        (lambda found: replace(found, is_start_kept=False), "can be read"),
        (lambda found: replace(found, log_start=2), "retention took 2 records"),
        (lambda found: replace(found, errors=["an index is wrong"]), "an index is wrong"),
        (lambda found: replace(found, aborted=[]), "is abort and shown"),
        (lambda found: replace(found, aborted=[(8, 4, 5)]), "is committed and hidden"),
        (lambda found: replace(found, data=found.data.replace(b"old", b"odd")), "CRC"),
    ],
)
def test_other_things_that_may_be_wrong(change: Callable[[Seen], Seen], wrong: str) -> None:
    try:
        found = differences(told(COMPACTED), COMPACTED, change(seen(COMPACTED, *ALL)))
    except Exception as error:
        found = [str(error)]
    assert any(re.search(wrong, each) for each in found), found


def test_other_bytes_under_a_right_crc() -> None:
    builder = BatchBuilder(0, leader_epoch=0)
    builder.append(T0, b"x", b"bad")
    data = bytes(builder.build()) + seen(COMPACTED, *ALL[1:]).data
    found = differences(told(COMPACTED), COMPACTED, seen(COMPACTED, data=data, committed=data))
    assert any("other bytes than were sent" in each for each in found)
    assert any("b'bad'" in each for each in found)


def test_an_emptied_batch_keeps_its_place_and_its_sequence() -> None:
    rest = seen(COMPACTED, *LEAST).data
    for sequence, is_right in ((0, True), (5, False)):
        empty = empty_batch(
            4, 4, producer_id=8, producer_epoch=0, base_sequence=sequence, leader_epoch=0, transactional=True
        )
        first = next(iter(batches(rest)))
        data = rest[: first.end] + bytes(empty) + rest[first.end :]
        found = differences(told(COMPACTED), COMPACTED, seen(COMPACTED, data=data, committed=data))
        assert any("has sequence 5, not 0" in each for each in found) != is_right


def test_what_was_seen_to_be_gone_does_not_come_back() -> None:
    model = told(COMPACTED)
    assert differences(model, COMPACTED, seen(COMPACTED, *LEAST)) == []
    found = differences(model, COMPACTED, seen(COMPACTED, *ALL))
    assert any("unknown batch is at 0" in each for each in found)


def test_retention() -> None:
    model = told(RETAINED)
    rest = seen(RETAINED, *ALL[4:], log_start=4, aborted=[])
    found = differences(model, RETAINED, rest, at_ms=T0 + 500)
    assert any("too early" in each for each in found)
    assert differences(told(RETAINED), RETAINED, rest) == []
    assert any("is lost" in each for each in differences(told(RETAINED), RETAINED, replace(rest, log_start=1)))


def test_a_log_start_does_not_go_back() -> None:
    model = told(RETAINED)
    model.read_journal(iter([["start", RETAINED.name, 4]]), run=0)
    found = differences(model, RETAINED, seen(RETAINED, *ALL))
    assert any("the log start went back from 4 to 0" in each for each in found)


def test_records_deleted_on_demand_need_no_reason() -> None:
    model = told(RETAINED)
    model.read_journal(iter([["forget", RETAINED.name, 4]]), run=0)
    assert differences(model, RETAINED, seen(RETAINED, *ALL[4:], log_start=4, aborted=[]), at_ms=T0) == []


class TestNotAnswered:
    """Of the last two batches there was no answer: they are there in their order, or not at all."""

    @pytest.mark.parametrize("end", [8, 9, 10])
    def test_any_beginning_of_them_may_be_there(self, end: int) -> None:
        model = told(COMPACTED, acknowledged=8)
        assert differences(model, COMPACTED, seen(COMPACTED, *range(end), end=end)) == []

    def test_but_not_the_second_alone(self) -> None:
        model = told(COMPACTED, acknowledged=8)
        second = bytes(placed(attempts(COMPACTED)[9].batch(), 8))
        data = seen(COMPACTED, *range(8)).data + second
        assert differences(model, COMPACTED, seen(COMPACTED, end=9, data=data, committed=data))

    @pytest.mark.parametrize(
        ("end", "is_duplicate", "wrong"), [(10, False, "accepted a second time"), (9, True, "it was not")]
    )
    def test_sent_again(self, end: int, is_duplicate: bool, wrong: str) -> None:
        model = told(COMPACTED, acknowledged=9)
        assert differences(model, COMPACTED, seen(COMPACTED, *range(end), end=end)) == []
        lines = [["again", 9], ["ack", 9, end, end, is_duplicate, ACTIVE_BASE, T0]]
        assert any(wrong in each for each in model.read_journal(iter(lines), run=1))

    def test_sent_again_and_answered_as_it_should(self) -> None:
        model = told(COMPACTED, acknowledged=9)
        assert differences(model, COMPACTED, seen(COMPACTED, *ALL)) == []
        lines = [["again", 9], ["ack", 9, 9, 9, True, ACTIVE_BASE, T0]]
        assert model.read_journal(iter(lines), run=1) == []


@pytest.mark.parametrize(
    ("line", "is_right"),
    [
        (["probe", 9, True, "duplicate", 9], True),
        (["probe", 9, True, "duplicate", 4], False),
        (["probe", 9, True, "OutOfOrderSequenceError", -1], False),
        (["probe", 9, False, "OutOfOrderSequenceError", -1], True),
        (["probe", 9, False, "accepted", 10], False),
        (["fenced", "c-0", 9, "InvalidProducerEpochError"], True),
        (["fenced", "c-0", 9, "accepted"], False),
        (["refused", 9, "OutOfOrderSequenceError"], False),
        (["uncleanable", "c-0", "a reason"], False),
    ],
    ids=str,
)
def test_what_the_victim_tells(line: list[object], is_right: bool) -> None:
    assert (told(COMPACTED).read_journal(iter([line]), run=0) == []) is is_right
