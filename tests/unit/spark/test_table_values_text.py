"""Values that are one column: bytes, and UTF-8 text."""

from __future__ import annotations

import pickle

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.tables.values.bytes import BytesPlan
from tailrace.spark.tables.values.string import StringPlan

BINARIES = st.lists(st.one_of(st.none(), st.binary(max_size=12), st.text(max_size=6).map(str.encode)), max_size=20)


@given(BINARIES)
def test_bytes_are_as_they_are(values: list[bytes | None]) -> None:
    decoded = pickle.loads(pickle.dumps(BytesPlan())).decoder().decode(pa.array(values, pa.binary()))
    assert decoded.columns[0].to_pylist() == values
    assert not decoded.bad


@given(BINARIES, st.integers(0, 3))
def test_text_is_what_a_plain_decoder_says(values: list[bytes | None], skipped: int) -> None:
    decoded = pickle.loads(pickle.dumps(StringPlan())).decoder().decode(pa.array(values, pa.binary()).slice(skipped))
    expected: list[str | None] = []
    bad = set()
    for row, value in enumerate(values[skipped:]):
        try:
            expected.append(None if value is None else value.decode("utf-8"))
        except UnicodeDecodeError:
            expected.append(None)
            bad.add(row)
    assert decoded.columns[0].to_pylist() == expected
    assert decoded.bad.keys() == bad
    assert decoded.columns[0].type == pa.string()


def test_bad_text_says_where() -> None:
    decoded = StringPlan("text").decoder().decode(pa.array([b"ok", b"ab\xff"]))
    assert decoded.bad == {1: "not UTF-8: invalid start byte at byte 2"}
    assert StringPlan("text").fields == [pa.field("text", pa.string())]


def test_there_is_nothing_to_discover() -> None:
    assert BytesPlan("raw").grown([]) == BytesPlan("raw")
    assert StringPlan().grown([]) == StringPlan()
