"""Zigzag numbers: known bytes, every length, and refusal of what is cut off or too big."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import util

from tailrace.model.errors import InvalidRecordError
from tailrace.record import varint

KNOWN = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (8192, "808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
KNOWN_LONG = [*KNOWN, (2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01")]


@pytest.mark.spec("RF-05")
@pytest.mark.parametrize(("value", "encoded"), KNOWN)
def test_varint_has_the_known_bytes(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert varint.encode_varint(value) == data
    assert varint.decode_varint(b"\xff" + data + b"\xff", 1, len(data) + 2) == (value, 1 + len(data))
    assert varint.varint_size(value) == len(data)


@pytest.mark.spec("RF-05")
@pytest.mark.parametrize(("value", "encoded"), KNOWN_LONG)
def test_varlong_has_the_known_bytes(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert varint.encode_varlong(value) == data
    assert varint.decode_varlong(data, 0, len(data)) == (value, len(data))
    assert varint.varlong_size(value) == len(data)


@pytest.mark.parametrize(("value", "encoded"), [(0, "00"), (127, "7f"), (128, "8001"), (2**32 - 1, "ffffffff0f")])
def test_uvarint_has_the_known_bytes(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert varint.encode_uvarint(value) == data
    assert varint.decode_uvarint(data, 0, len(data)) == (value, len(data))
    assert varint.uvarint_size(value) == len(data)


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlong_is_what_kafka_python_writes_and_reads(value: int) -> None:
    theirs = bytearray()
    util.encode_varint(value, theirs.append)
    assert varint.encode_varlong(value) == theirs
    assert util.decode_varint(bytearray(varint.encode_varlong(value))) == (value, len(theirs))


@given(st.integers(-(2**31), 2**31 - 1))
def test_varint_and_varlong_agree_where_both_can(value: int) -> None:
    assert varint.encode_varint(value) == varint.encode_varlong(value)
    assert varint.decode_varint(varint.encode_varint(value), 0, 5)[0] == value


@pytest.mark.parametrize(
    ("encode", "value"),
    [
        (varint.encode_varint, 2**31),
        (varint.encode_varint, -(2**31) - 1),
        (varint.encode_varlong, 2**63),
        (varint.encode_varlong, -(2**63) - 1),
        (varint.encode_uvarint, -1),
        (varint.encode_uvarint, 2**32),
    ],
)
def test_a_value_that_does_not_fit_is_refused(encode: Callable[[int], bytes], value: int) -> None:
    with pytest.raises(InvalidRecordError, match=str(value)):
        encode(value)


@pytest.mark.spec("RF-11")
@pytest.mark.parametrize(
    ("decode", "encoded"),
    [
        (varint.decode_varint, ""),
        (varint.decode_varint, "80"),
        (varint.decode_varint, "ffffffff"),
        (varint.decode_varint, "ffffffff10"),
        (varint.decode_varint, "ffffffff8f00"),
        (varint.decode_varlong, "ffffffffffffffffff"),
        (varint.decode_varlong, "ffffffffffffffffff02"),
        (varint.decode_varlong, "ffffffffffffffffff8100"),
        (varint.decode_uvarint, "ffffffff10"),
    ],
)
def test_cut_off_and_too_big_numbers_are_refused(
    decode: Callable[[bytes, int, int], tuple[int, int]], encoded: str
) -> None:
    data = bytes.fromhex(encoded)
    with pytest.raises(InvalidRecordError):
        decode(data, 0, len(data))


def test_more_bytes_than_needed_are_taken() -> None:
    assert varint.decode_varint(b"\x80\x80\x80\x80\x00", 0, 5) == (0, 5)
    assert varint.decode_varlong(b"\x82\x80\x00", 0, 3) == (1, 3)


@given(st.binary(max_size=12), st.integers(-2, 14), st.integers(-2, 14))
def test_nothing_beyond_the_limit_is_read(data: bytes, position: int, limit: int) -> None:
    for decode in (varint.decode_varint, varint.decode_varlong, varint.decode_uvarint):
        try:
            _, behind = decode(data, position, limit)
        except InvalidRecordError:
            continue
        assert 0 <= position < behind <= min(limit, len(data))
