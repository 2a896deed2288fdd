"""The map of keys to offsets: against a dictionary, to its limits, in both forms of its kernel."""

from __future__ import annotations

import random
from array import array
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.records.kernel_forms import FORMS
from tailrace.model.invariant import InvariantError
from tailrace.record import kernels
from tailrace.storage.compaction.offset_map import (
    GREATEST_MEMORY_BYTES,
    NOT_FOUND,
    SLOT_BYTES,
    OffsetMap,
    memory_per_thread,
)

SECRET = (0x0706050403020100, 0x0F0E0D0C0B0A0908)

# Of the reference implementation: key 00 … 0f, input 00, 01, 02 … of the length given.
VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
    16: "6ee2a4ca67b054bbfd3315bf85230577",
    17: "473d06e8738db89854c066c47ae47740",
    63: "5150d1772f50834a503e069a973fbd7c",
}


def new_map(slots: int, load_factor: float = 1.0) -> OffsetMap:
    return OffsetMap(slots * SLOT_BYTES, random.Random(1), load_factor)


def rows_of(keys: list[bytes | None], offsets: list[int]) -> tuple[bytes, array[int]]:
    buffer, rows = b"", array("q")
    for key, offset in zip(keys, offsets, strict=True):
        rows.extend([offset, 0, len(buffer), -1 if key is None else len(key), 0, 0, 0, 0])
        buffer += key or b""
    return buffer, rows


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("size", VECTORS)
@pytest.mark.spec("LM-14")
def test_the_digest_is_siphash(name: str, size: int) -> None:
    words = FORMS[name].offset_map.digest(bytes(range(size)), *SECRET)
    assert b"".join(word.to_bytes(8, "little") for word in words).hex() == VECTORS[size]


@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 2**62)), max_size=60), st.sampled_from([60, 61, 300]))
@pytest.mark.spec("LM-14", "LM-13")
def test_it_knows_the_greatest_offset_of_each_key(puts: list[tuple[bytes, int]], slots: int) -> None:
    found = new_map(slots)
    model: dict[bytes, int] = {}
    for key, offset in puts:
        found.put(key, offset)
        model[key] = max(offset, model.get(key, -1))
        assert found.entries == len(model)
        assert found.latest_offset == max(model.values())
    for key, offset in model.items():
        assert found.get(key) == offset
    assert found.get(b"x" * 30) == NOT_FOUND


@pytest.mark.spec("LM-14")
def test_a_slot_takes_24_bytes_and_an_empty_map_is_zeros() -> None:
    found = OffsetMap(1000, random.Random(1), 0.9)
    assert (found.slots, found.limit) == (41, 36)
    assert bytes(found._table) == bytes(41 * 24)
    found.put(b"k", 0)  # at offset 0 too, an entry does not look empty
    assert found.get(b"k") == 0
    cells = [cell for cell in found._table if cell]
    assert len(cells) == 2
    found.put(b"k", 0)
    assert found.entries == 1


@pytest.mark.spec("LM-14")
def test_every_slot_can_be_used_and_a_full_map_refuses() -> None:
    found = new_map(50)
    for n in range(50):
        found.put(b"%d" % n, n)
    assert found.utilization == 1.0
    assert [found.get(b"%d" % n) for n in range(50)] == list(range(50))
    assert found.get(b"other") == NOT_FOUND
    with pytest.raises(InvariantError):
        found.put(b"other", 51)
    with pytest.raises(InvariantError):
        found.put(b"0", 51)


@pytest.mark.spec("LM-14")
def test_a_cleared_map_is_empty_and_has_another_secret() -> None:
    found = new_map(50)
    found.put(b"k", 5)
    secret = found._secret
    found.clear()
    assert (found.entries, found.latest_offset, found.get(b"k")) == (0, -1, NOT_FOUND)
    assert found._secret != secret


@pytest.mark.spec("LM-14", "LM-43")
def test_records_go_in_up_to_the_load_factor() -> None:
    found = new_map(10, 0.5)
    keys: list[bytes | None] = [b"a", None, b"b", b"a", b"c", b"d", b"e", b"a", b"f"]
    buffer, rows = rows_of(keys, list(range(100, 109)))
    assert not found.put_rows(buffer, rows, 9, 0)
    assert found.is_full
    assert found.latest_offset == 106  # the last one entered; what follows comes with the next clean
    assert (found.get(b"a"), found.get(b"e"), found.get(b"f")) == (103, 106, NOT_FOUND)
    found.clear()
    assert found.put_rows(buffer, rows, 5, 102)
    assert (found.entries, found.get(b"a"), found.get(b"b"), found.latest_offset) == (3, 103, 102, 104)


@pytest.mark.spec("LM-14")
def test_memory_is_shared_by_threads_up_to_two_gibibytes() -> None:
    assert memory_per_thread(128 << 20, 1) == 128 << 20
    assert memory_per_thread(128 << 20, 4) == 32 << 20
    assert memory_per_thread(9 << 30, 2) == GREATEST_MEMORY_BYTES
    with pytest.raises(InvariantError):
        OffsetMap(SLOT_BYTES, random.Random(1), 0.9)  # not even one key


@pytest.mark.spec("LM-13", "LM-22", "LM-43")
def test_which_records_stay() -> None:
    found = new_map(10)
    for key, offset in ((b"a", 5), (b"b", 3), (b"t", 4)):
        found.put(key, offset)
    found.mapped_to(6)
    keys: list[bytes | None] = [b"a", None, b"a", b"b", b"t", b"x", None, b"a"]
    buffer, rows = rows_of(keys, [1, 2, 5, 3, 4, 6, 7, 8])
    for place in (4, 7):
        rows[8 * place + kernels.VALUE_LENGTH] = -1
    kept = bytearray(8)
    assert found.keep_rows(buffer, rows, 8, kept, 0, keeps_tombstones=True) == 1
    assert list(kept) == [0, 0, 1, 1, 2, 1, 1, 2]
    assert found.keep_rows(buffer, rows, 8, kept, 0, keeps_tombstones=False) == 1
    assert list(kept) == [0, 0, 1, 1, 0, 1, 1, 2]


records = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"c", b"d" * 17])), st.integers(-3, 40), st.booleans()
    ),
    max_size=20,
)


@given(records, records, st.integers(1, 8), st.integers(0, 10), st.integers(-1, 40), st.booleans())
def test_both_forms_agree(
    put: list, asked: list, slots: int, from_offset: int, latest: int, keeps_tombstones: bool
) -> None:
    def run(form: SimpleNamespace) -> list:
        kernel = form.offset_map
        table = memoryview(bytearray(SLOT_BYTES * slots)).cast("Q")
        marks = (bytearray(2), 7)
        buffer, rows = rows_of([key for key, _, _ in put], [offset for _, offset, _ in put])
        said: list = [
            kernel.put_rows(table, 0, slots, *SECRET, buffer, rows, len(put), from_offset, *marks),
            bytes(table),
        ]
        buffer, rows = rows_of([key for key, _, _ in asked], [offset for _, offset, _ in asked])
        for place, (_, _, has_value) in enumerate(asked):
            rows[8 * place + kernels.VALUE_LENGTH] = 1 if has_value else -1
        kept = bytearray(len(asked) + 1)
        said.append(
            kernel.keep_rows(table, *SECRET, latest, keeps_tombstones, buffer, rows, len(asked), kept, 1, *marks)
        )
        return [
            *said,
            bytes(kept),
            bytes(marks[0]),
            [kernel.find(table, *SECRET, key) for key, _, _ in put if key is not None],
        ]

    results = [run(form) for form in FORMS.values()]
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("name", FORMS)
def test_rows_are_not_believed(name: str) -> None:
    kernel = FORMS[name].offset_map
    table = memoryview(bytearray(SLOT_BYTES * 4)).cast("Q")
    for start, length in ((-1, 1), (0, 4), (3, 1), (2**62, 2**62)):
        rows = array("q", (5, 0, start, length, 0, 0, 0, 0))
        with pytest.raises(IndexError):
            kernel.put_rows(table, 0, 4, *SECRET, b"abc", rows, 1, 0, bytearray(), 0)
        with pytest.raises(IndexError):
            kernel.keep_rows(table, *SECRET, 9, True, b"abc", rows, 1, bytearray(1), 0, b"", 0)
    rows = array("q", (5, 0, 0, 1, 0, 0, 0, 0))
    with pytest.raises(IndexError):
        kernel.put_rows(table, 0, 4, *SECRET, b"abc", rows, 2, 0, bytearray(), 0)
    with pytest.raises(IndexError):
        kernel.keep_rows(table, *SECRET, 9, True, b"abc", rows, 1, bytearray(1), 1, b"", 0)
    with pytest.raises(IndexError):
        kernel.find(table[:0], *SECRET, b"k")


@pytest.mark.parametrize("name", FORMS)
def test_many_rows_at_once_are_the_same_as_few(name: str) -> None:
    """A large call gives the GIL away."""
    kernel = FORMS[name].offset_map
    keys: list[bytes | None] = [b"%d" % (n % 700) for n in range(1500)]
    buffer, rows = rows_of(keys, list(range(1500)))
    table = memoryview(bytearray(SLOT_BYTES * 1000)).cast("Q")
    assert kernel.put_rows(table, 0, 1000, *SECRET, buffer, rows, 1500, 0, bytearray(), 0) == (1500, 700, 1499)
    kept = bytearray(1500)
    assert kernel.keep_rows(table, *SECRET, 1499, True, buffer, rows, 1500, kept, 0, b"", 0) == 0
    assert [n for n in range(1500) if kept[n]] == list(range(800, 1500))


@given(
    st.lists(st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"c", b"d" * 17])), max_size=150),
    st.integers(0, 20),
    st.integers(0, 8),
)
@pytest.mark.spec("LM-13")
def test_marks_say_what_the_table_says(keys: list, start: int, marked: int) -> None:
    """Of records that were put, and beside others that were not, below them and above."""
    buffer, rows = rows_of(keys, [10 + offset for offset in range(len(keys))])
    said = []
    for expected in (0, 8 * marked, 1000):
        found = OffsetMap(50 * SLOT_BYTES, random.Random(1))
        found.expect(start, start + expected)
        put = [place for place in range(len(keys)) if 10 + place >= start]
        assert found.put_rows(buffer, rows, len(keys), start)
        found.mapped_to(10 + len(keys))
        kept = bytearray(len(keys))
        keyless = found.keep_rows(buffer, rows, len(keys), kept, 0, keeps_tombstones=True)
        said.append((keyless, bytes(kept), found.entries))
        newest = {keys[place]: place for place in put}
        for place in put:
            assert bool(kept[place]) == (keys[place] is not None and newest[keys[place]] == place)
    assert said[0] == said[1] == said[2]
