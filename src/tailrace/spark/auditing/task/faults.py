"""Batches of a block that are not what they should be."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """The batch of `row` cannot be trusted."""

    row: int
    rule: str
    words: str
    next_offset: int | None = None
    """Where offsets go on behind the batch, if that can still be said."""
