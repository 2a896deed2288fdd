"""Memory from the operating system: all zeros, writable, of any size."""

from __future__ import annotations

import pytest

from tailrace.env.memory import zeroed_memory


@pytest.mark.parametrize("size", [1, 4095, 1 << 20])
def test_memory_is_all_zeros_and_can_be_written(size: int) -> None:
    memory = zeroed_memory(size)
    assert memory == bytes(size)
    memory[size - 1] = 7
    assert memory[size - 1] == 7
    assert zeroed_memory(size) == bytes(size)
