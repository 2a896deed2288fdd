"""A histogram as it is read: a copy, so that whoever works on it does not hold up who records."""

from __future__ import annotations

from typing import NamedTuple


class Distribution(NamedTuple):
    """`counts` has one number a bucket of `metrics.histogram`, since the start; `total` is the sum of all values.

    Values are in microseconds where the name ends in `Ms`, so that short times are not all zero.
    """

    group: str
    type: str
    name: str
    counts: tuple[int, ...]
    total: int
    tags: tuple[tuple[str, str], ...] = ()
