"""What a registry's serializers put before values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.tables.values.framing import BadFrameError, framed, message_path, path_bytes, schema_id


@given(st.integers(0, 2**31 - 1), st.binary(max_size=4))
def test_an_id_is_found_again(identity: int, payload: bytes) -> None:
    assert schema_id(framed(identity, payload)) == identity


def test_the_bytes_are_those_of_the_registry() -> None:
    assert framed(258, b"x") == b"\x00\x00\x00\x01\x02x"
    assert path_bytes((0,)) == b"\x00"
    assert path_bytes((1, 0)) == b"\x04\x02\x00"
    assert path_bytes((300,)) == b"\x02\xd8\x04"


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=5).map(tuple), st.binary(max_size=3))
def test_a_path_is_found_again(path: tuple[int, ...], payload: bytes) -> None:
    value = framed(1, path_bytes(path) + payload)
    found, start = message_path(value)
    assert (found, value[start:]) == (path, payload)


def test_the_first_message_is_also_understood_written_out() -> None:
    assert message_path(framed(1, b"\x02\x00rest")) == ((0,), 7)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "too few"),
        (b"\x00\x00\x00\x01", "too few"),
        (b"\x01\x00\x00\x00\x01", "byte 1"),
        (b"\xff\x00\x00\x00\x01", "byte 255"),
        (b"\x00\xff\xff\xff\xff", "negative"),
    ],
)
def test_what_is_no_frame(value: bytes, reason: str) -> None:
    with pytest.raises(BadFrameError, match=reason):
        schema_id(value)


@pytest.mark.parametrize(
    "path", [b"", b"\x80", b"\x80" * 9, b"\x01", b"\xfe\xff\xff\xff\x0f", b"\x04\x02", b"\x02\x01"]
)
def test_what_is_no_path(path: bytes) -> None:
    with pytest.raises(BadFrameError):
        message_path(framed(1, path))


@given(st.binary(max_size=12))
def test_any_bytes_are_a_path_or_none(path: bytes) -> None:
    value = framed(1, path)
    try:
        found, start = message_path(value)
    except BadFrameError:
        return
    assert found
    assert start <= len(value)
