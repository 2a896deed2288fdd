from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.cli.sizes import counted, shown_size, size_in_bytes


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.98 KiB"),
        (1024, "1.00 KiB"),
        (10_230, "9.99 KiB"),
        (10_235, "10.0 KiB"),
        (102_399, "100 KiB"),
        (1_048_575, "1.00 MiB"),
        (5 << 30, "5.00 GiB"),
        (2**63, "8.00 EiB"),
        (2**75, "32768 EiB"),
    ],
)
def test_shown(size: int, shown: str) -> None:
    assert shown_size(size) == shown


@given(st.integers(0, 2**63))
def test_no_size_is_wide(size: int) -> None:
    assert len(shown_size(size)) <= len("99.9 KiB")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1048576", 1 << 20),
        ("512k", 512 << 10),
        ("64 MiB", 64 << 20),
        ("2GB", 2 << 30),
        ("1t", 1 << 40),
        ("7b", 7),
    ],
)
def test_written(text: str, size: int) -> None:
    assert size_in_bytes(text) == size


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5g", "1x", "9" * 25, "9999999999999g", "٣"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        size_in_bytes(text)


def test_counted() -> None:
    assert [counted(number, "batch", "es") for number in (0, 1, 2000)] == ["0 batches", "1 batch", "2,000 batches"]
