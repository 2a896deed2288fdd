"""One number that only grows, as it is read."""

from __future__ import annotations

from typing import NamedTuple


class Count(NamedTuple):
    """In Kafka it is the attribute `Count` of a meter; such a meter's name ends in `PerSec`."""

    group: str
    type: str
    name: str
    value: int
    tags: tuple[tuple[str, str], ...] = ()
