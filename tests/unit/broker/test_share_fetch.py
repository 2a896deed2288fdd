"""What a share fetch makes of the bytes that it has read."""

from __future__ import annotations

import pytest

from tailrace.broker.share_fetch import batch_bounds
from tailrace.record.shallow import UNKNOWN, ShallowBatch


def entry(first: int, last: int) -> ShallowBatch:
    return ShallowBatch(0, 0, 1, first, last, 0, -1, 0, -1, -1, -1, -1, 0, 0)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, [(0, 9), (10, 12), (13, 13)]), (4, [(4, 9), (10, 12), (13, 13)]), (9, [(9, 9), (10, 12), (13, 13)])],
)
def test_a_wrapper_of_old_messages_begins_where_the_read_did(offset: int, expected: list[tuple[int, int]]) -> None:
    found = [entry(UNKNOWN, 9), entry(UNKNOWN, 12), entry(13, 13)]
    assert batch_bounds(found, offset) == expected
