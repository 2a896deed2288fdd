"""Batches without some of their records: the kernels' work against `record.filter`, record by record."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.compaction.compacted_logs import COMPACTED
from support.logs.builders import place_on
from support.records.kernel_forms import FORMS
from support.records.raw_records import record
from tailrace.model.errors import InvalidRecordError
from tailrace.record.batch import CREATE_TIME, HEADER_BYTES, LOG_APPEND_TIME, BatchHeader
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import COMMIT, end_txn_marker
from tailrace.record.filter import filter_batch
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import ShallowBatch, check_integrity, next_batch
from tailrace.sim import World
from tailrace.storage.compaction.chunks import ReadBuffer, SegmentReader
from tailrace.storage.compaction.kept import Kept
from tailrace.storage.compaction.offset_map import SLOT_BYTES, OffsetMap
from tailrace.storage.compaction.rows import ROWS
from tailrace.storage.compaction.runs import PlainRuns
from tailrace.storage.compaction.sieve import Sieve
from tailrace.storage.compaction.transactions import SeenTransactions
from tailrace.storage.compaction.verdict import CleanRules, Verdict
from tailrace.storage.segment import LogSegment

NOW_MS = 1_000_000
RETENTION_MS = 5000


def rules(retention_ms: int = RETENTION_MS) -> CleanRules:
    return CleanRules(NOW_MS, retention_ms, 1 << 40, 0, {})


def only(data: bytes | bytearray) -> ShallowBatch:
    found = next_batch(data, 0, len(data))
    assert found is not None
    check_integrity(data, found)
    return found


def map_of(newest: dict[bytes, int], latest: int) -> OffsetMap:
    found = OffsetMap(100 * SLOT_BYTES, random.Random(3))
    for key, offset in newest.items():
        found.put(key, offset)
    found.latest_offset = latest
    return found


@dataclass(frozen=True)
class Case:
    data: bytes
    newest: dict[bytes, int]
    latest: int
    keeps_empty: bool

    def keeps(self, batch: ShallowBatch, record: Record) -> bool:
        if record.offset > self.latest:
            return True
        if record.key is None or record.offset < self.newest.get(record.key, -1):
            return False
        horizon_ms = batch.delete_horizon_ms
        return record.value is not None or horizon_ms is None or horizon_ms > NOW_MS

    def expected(self) -> bytes | None:
        batch = only(self.data)
        kept = [record for record in records_of(self.data, batch) if self.keeps(batch, record)]
        has_tombstone = any(record.value is None for record in kept)
        return filter_batch(
            self.data,
            batch,
            lambda record: self.keeps(batch, record),
            keep_empty=self.keeps_empty,
            delete_horizon_ms=NOW_MS + RETENTION_MS if has_tombstone and batch.delete_horizon_ms is None else None,
        )


keys = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"c"]))
timestamps = st.one_of(st.integers(-1, 300), st.sampled_from([NOW_MS, 2**62, 2**63 - 2]))
record_parts = st.tuples(
    st.integers(1, 3),
    timestamps,
    keys,
    st.one_of(st.none(), st.binary(max_size=200)),
    st.lists(st.tuples(st.sampled_from(["", "h"]), st.one_of(st.none(), st.binary(max_size=5))), max_size=2),
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    base = draw(st.integers(0, 20))
    is_stamped = draw(st.booleans())
    horizon = draw(st.sampled_from([None, NOW_MS - 1, NOW_MS, NOW_MS + 1]))
    builder = BatchBuilder(
        base,
        codec=draw(st.integers(0, 4)),
        timestamp_type=LOG_APPEND_TIME if is_stamped else CREATE_TIME,
        log_append_time_ms=draw(st.integers(0, 500)) if is_stamped else -1,
        producer_id=draw(st.sampled_from([-1, 7])),
        producer_epoch=3,
        base_sequence=draw(st.integers(0, 2**31 - 1)),
        leader_epoch=4,
        delete_horizon_ms=horizon,
    )
    for gap, timestamp, key, value, headers in draw(st.lists(record_parts, min_size=1, max_size=8)):
        builder.append_at(builder.next_offset + gap - 1, timestamp, key, value, headers)
    last = builder.next_offset - 1 + draw(st.integers(0, 2))
    newest = draw(st.dictionaries(st.sampled_from([b"", b"a", b"b", b"c"]), st.integers(0, 40)))
    return Case(bytes(builder.build(last)), newest, draw(st.integers(0, 45)), draw(st.booleans()))


def meaning(data: bytes | None) -> object:
    """Everything but the compressed bytes themselves, and the size they have."""
    if data is None:
        return None
    batch = only(data)
    return batch._replace(size=0, crc=0), list(records_of(data, batch))


@settings(max_examples=examples(300))
@given(cases())
@pytest.mark.spec("LM-13", "LM-20", "LM-22", "RF-08", "RF-13")
def test_one_batch_is_as_the_filter_makes_it(case: Case) -> None:
    batch = only(case.data)
    sieve = Sieve(map_of(case.newest, case.latest), rules())
    found = sieve.sift(case.data, batch, Verdict(keeps_empty=case.keeps_empty))
    expected = case.expected()
    if batch.codec:
        assert meaning(None if found is None else bytes(found)) == meaning(expected)
    else:
        assert (None if found is None else bytes(found)) == expected
    assert sieve.records_read == batch.record_count
    assert sieve.records_kept == (only(expected).record_count if expected else 0)


@settings(max_examples=examples(150))
@given(st.lists(cases(), min_size=1, max_size=8), st.integers(0, 2), st.sampled_from([64, 1000, 1 << 17]))
@pytest.mark.spec("LM-13", "LM-20", "LM-22", "RF-08", "RF-13")
def test_a_chunk_of_batches_is_as_if_each_were_alone(made: list[Case], stretch: int, room: int) -> None:
    """Plain ones by the kernel, as many at a time as there is room for, and others between them."""
    newest = {key: offset << stretch for key, offset in made[0].newest.items()}
    data, expected, next_offset = b"", [], 3
    for case in made:
        rebased = next_offset.to_bytes(8, "big") + case.data[8:]
        next_offset = only(rebased).next_offset + 1
        expected.append(Case(rebased, newest, made[0].latest << stretch, False).expected())
        data += rebased
    reader = reader_of(data, next_offset)
    offset_map, transactions = map_of(newest, made[0].latest << stretch), SeenTransactions(())
    sieve, runs, kept = Sieve(offset_map, rules()), PlainRuns(transactions), Kept(1000)
    kept.data = bytearray(room)
    found: list[bytes] = []

    def write() -> None:
        found.extend(bytes(kept.data[slice(*kept.run.span(place))]) for place in range(kept.run.count))
        kept.clear()

    reader.read()
    while True:
        while not runs.sift(reader, offset_map, rules(), kept):
            write()
        batch = reader.next_batch()
        if batch is None:
            break
        sifted = sieve.sift(reader.data, batch, Verdict())
        if sifted is not None:
            write()
            kept.add(sifted)
    write()
    assert [meaning(each) for each in found] == [meaning(each) for each in expected if each is not None]
    assert [each for each in found if not only(each).codec] == [
        each for each in expected if each is not None and not only(each).codec
    ]
    assert runs.records_read + sieve.records_read == sum(only(case.data).record_count for case in made)
    assert runs.records_kept + sieve.records_kept == sum(only(each).record_count for each in found)


def reader_of(data: bytes, end_offset: int) -> SegmentReader:
    segment = LogSegment.create(place_on(World(), COMPACTED), 0)
    segment.records.append((data,), len(data))
    return SegmentReader(segment, ReadBuffer(1 << 20, 1 << 20), end_offset)


@pytest.mark.spec("RF-08", "RF-13")
def test_an_untouched_batch_stays_byte_for_byte() -> None:
    """Even one that our own builder would write otherwise."""
    builder = BatchBuilder(5, codec=1)
    for n in range(50):
        builder.append(n, b"k%d" % n, b"value")
    data = bytes(builder.build())
    sieve = Sieve(map_of({}, 100), rules())
    assert sieve.sift(data, only(data), Verdict()) == data


def test_a_discarded_batch_goes_or_leaves_its_frame() -> None:
    builder = BatchBuilder(5, producer_id=1, producer_epoch=2, base_sequence=9, transactional=True)
    builder.append(3, b"k", b"v")
    data = bytes(builder.build())
    sieve = Sieve(map_of({}, 100), rules())
    assert sieve.sift(data, only(data), Verdict(is_discarded=True)) is None
    empty = sieve.sift(data, only(data), Verdict(is_discarded=True, keeps_empty=True))
    assert empty is not None
    frame = only(bytes(empty))
    assert (frame.record_count, frame.base_offset, frame.last_offset, frame.last_sequence) == (0, 5, 5, 9)
    assert sieve.sift(bytes(empty), frame, Verdict(keeps_empty=True)) == empty
    assert sieve.sift(bytes(empty), frame, Verdict()) is None


@pytest.mark.spec("RF-15")
def test_a_useless_marker_gets_a_delete_horizon() -> None:
    data = bytes(end_txn_marker(COMMIT, producer_id=1, producer_epoch=2, coordinator_epoch=3, timestamp=77))
    sieve = Sieve(map_of({}, 100), rules())
    assert sieve.sift(data, only(data), Verdict()) == data
    stamped = sieve.sift(data, only(data), Verdict(is_stamped=True))
    assert stamped is not None
    batch = only(bytes(stamped))
    assert batch.delete_horizon_ms == NOW_MS + RETENTION_MS
    assert list(records_of(bytes(stamped), batch)) == list(records_of(data, only(data)))
    expected = filter_batch(data, only(data), lambda _: True, keep_empty=False, delete_horizon_ms=NOW_MS + RETENTION_MS)
    assert stamped == expected


def test_the_horizon_does_not_leave_64_bits() -> None:
    builder = BatchBuilder(5)
    builder.append(3, b"k", None)
    data = bytes(builder.build())
    found = Sieve(map_of({}, 100), rules(2**63 - 1)).sift(data, only(data), Verdict())
    assert found is not None
    assert only(bytes(found)).delete_horizon_ms == 2**63 - 1
    assert next(records_of(found, only(bytes(found)))).timestamp == 3


@pytest.mark.parametrize("codec", [0, 4])
def test_more_records_than_there_are_rows(codec: int) -> None:
    builder = BatchBuilder(0, codec=codec)
    for n in range(ROWS + 100):
        builder.append(n, b"%d" % (n % 9), b"")
    data = bytes(builder.build())
    batch = only(data)
    run = PlainRuns(SeenTransactions(()))
    reader = reader_of(data, ROWS + 100)
    reader.read()
    assert run.sift(reader, map_of({}, 0), rules(), Kept(1000))
    assert reader.taken == 0
    newest = {b"%d" % n: ROWS + 50 + n for n in range(9)}
    sieve = Sieve(map_of(newest, ROWS + 90), rules())
    found = sieve.sift(data, batch, Verdict())
    assert found is not None
    left = [record.offset for record in records_of(found, only(bytes(found)))]
    case = Case(data, newest, ROWS + 90, False)
    assert left == [record.offset for record in records_of(data, batch) if case.keeps(batch, record)]


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_batch_that_states_another_count_is_refused(count: int) -> None:
    builder = BatchBuilder(0)
    builder.append(1, b"k", b"v")
    builder.append(1, b"k", b"v")
    data = bytearray(builder.build())
    header = BatchHeader.at(data)._replace(record_count=count)
    data[:HEADER_BYTES] = header.pack()
    batch = next_batch(data, 0, len(data))
    assert batch is not None
    sieve = Sieve(map_of({}, 100), rules())
    if count:
        with pytest.raises(InvalidRecordError):
            sieve.sift(bytes(data), batch, Verdict())
    else:
        assert sieve.sift(bytes(data), batch, Verdict()) is None


@settings(max_examples=examples(200))
@given(
    st.binary(max_size=60),
    st.integers(0, 4),
    st.binary(min_size=4, max_size=4),
    st.sampled_from([0, 5, -(2**63), 2**63 - 1]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 80),
)
def test_both_forms_of_the_kernel_agree(
    data: bytes, count: int, kept: bytes, base: int, same: bool, has_base: bool, room: int
) -> None:
    found = []
    for form in FORMS.values():
        out = bytearray(room)
        said = form.rebuild.rebuild_records(data, 0, len(data), kept, 0, count, base, same, has_base, -5, out)
        found.append((said, bytes(out[: max(said[0], 0)])))
    assert all(each == found[0] for each in found)


@settings(max_examples=examples(100))
@given(cases(), st.randoms(use_true_random=False))
def test_both_forms_agree_on_records(case: Case, dice: random.Random) -> None:
    batch = only(case.data)
    if batch.codec:
        return
    kept = bytes(dice.choice((0, 1)) for _ in range(batch.record_count))
    found = []
    for form in FORMS.values():
        out = bytearray(len(case.data) + 13 * batch.record_count)
        said = form.rebuild.rebuild_records(
            case.data, HEADER_BYTES, batch.end, kept, 0, batch.record_count, 5, False, True, 0, out
        )
        found.append((said, bytes(out)))
    assert said[0] >= 0
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("name", FORMS)
def test_the_kernel_refuses_what_is_outside_its_buffers(name: str) -> None:
    rebuild = FORMS[name].rebuild.rebuild_records
    for start, end, marks, at, count in (
        (-1, 1, b"", 0, 0),
        (0, 4, b"", 0, 0),
        (0, 3, b"11", 1, 2),
        (0, 3, b"", -1, 0),
    ):
        with pytest.raises(IndexError):
            rebuild(b"abc", start, end, marks, at, count, 0, False, False, 0, bytearray(9))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("room", [1, 2, 3, 9])
def test_records_can_be_walked_piece_by_piece(name: str, room: int) -> None:
    whole = FORMS[name].whole
    payload = b"".join(record(n, key=b"k" * n, timestamp_delta=n) for n in range(5))
    rows, position, seen = array("q", bytes(64 * room)), 0, []
    while len(seen) < 5:
        taken, position = whole.walk_some(payload, position, len(payload), 5 - len(seen), 10, 100, False, rows)
        assert taken == min(room, 5 - len(seen))
        seen += [tuple(rows[8 * n : 8 * n + 4 : 3]) for n in range(taken)]
    assert position == len(payload)
    assert seen == [(10 + n, n) for n in range(5)]
    assert whole.walk_some(payload, 0, len(payload) - 1, 5, 10, 100, False, array("q", bytes(64 * 9)))[0] == 4
    assert whole.walk_some(b"", 0, 0, 5, 10, 100, False, rows) == (0, 0)
    with pytest.raises(IndexError):
        whole.walk_some(payload, 0, len(payload) + 1, 5, 10, 100, False, rows)
