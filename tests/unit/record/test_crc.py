"""CRC-32C as kernels compute it: by tables, by the processor's instruction, interpreted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import ModuleType

import pytest
from crc32c import crc32c

from tailrace.record import kernels
from tailrace.record.kernels import crc as usual


@pytest.fixture(params=["tables", "instruction", "interpreted"])
def crc(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    if request.param == "interpreted":
        yield kernels.interpreted("crc")
        return
    if not kernels.COMPILED:
        pytest.skip("kernels are not compiled here")
    usual.install(0, 0)
    if request.param == "instruction" and not kernels.use_crc_instruction():
        pytest.skip("this processor has no CRC instruction that we know")
    yield usual
    kernels.use_crc_instruction()


def test_the_known_sum(crc: ModuleType) -> None:
    assert crc.crc_of_bytes(b"123456789") == 0xE3069283
    assert crc.crc_of_bytes(b"") == 0


def test_any_length_at_any_place(crc: ModuleType) -> None:
    data = random.Random(1).randbytes(40_000)
    for start in range(9):
        for size in (*range(1, 70), 767, 768, 769, 1000, 4097, 12_287, 12_288, 12_289, 13_056, 25_344, 39_991):
            stretch = memoryview(data)[start : start + size]
            assert crc.crc_of_bytes(stretch) == crc32c(stretch)


def test_three_at_a_time(crc: ModuleType) -> None:
    dice = random.Random(2)
    for _ in range(200):
        parts = [dice.randbytes(dice.choice((1, 7, 8, 9, 100, 1000))) for _ in range(3)]
        sums = crc.crcs_of_three(b"".join(parts), len(parts[0]), len(parts[0]) + len(parts[1]))
        assert sums == tuple(map(crc32c, parts))


@pytest.mark.parametrize(("first", "second"), [(0, 3), (3, 3), (-1, 3), (3, 10), (3, 11), (5, 2)])
def test_stretches_that_are_none(crc: ModuleType, first: int, second: int) -> None:
    with pytest.raises(IndexError):
        crc.crcs_of_three(bytes(10), first, second)
