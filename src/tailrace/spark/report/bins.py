"""Bins of histograms, as many as a picture can show: of numbers counted by powers of two, or by parts of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tailrace.spark.report.page import Bin

MOST_COLUMNS: Final = 32
_CUTS: Final = 8
"""In how many parts a power of two is cut at most."""


def doubling(counts: Sequence[int]) -> list[Bin]:
    """Bin b of `counts` has what is in [2^(b−1), 2^b), the first one zeros. Empty ones at both ends are left out."""
    used = [at for at, count in enumerate(counts) if count]
    if not used:
        return []
    return [Bin(2 ** (at - 1) if at else 0, 2**at, counts[at]) for at in range(used[0], used[-1] + 1)]


def merged(bins: Iterable[tuple[int, int, int]], most: int = MOST_COLUMNS) -> list[Bin]:
    """(from, to, count) of powers of two cut in eight, as few together as it takes, and with the empty ones between."""
    known = [(_place(low), count) for low, _, count in bins if count and low >= 0]
    if not known:
        return []
    for together in (1, 2, 4, 8):
        first, last = min(known)[0] // together, max(known)[0] // together
        if last - first < most:
            break
    counts = [0] * (last - first + 1)
    for place, count in known:
        counts[place // together - first] += count
    edges = [_number((first + at) * together) for at in range(len(counts) + 1)]
    return [Bin(edges[at], edges[at + 1], count) for at, count in enumerate(counts)]


def _place(number: int) -> int:
    """Numbers below 8 have a place each; then eight places for each power of two."""
    if number < _CUTS:
        return number
    power = number.bit_length() - 4
    return power * _CUTS + (number >> power)


def _number(place: int) -> int:
    """The least of a place."""
    if place < 2 * _CUTS:
        return place
    power = place // _CUTS - 1
    return (place - power * _CUTS) << power
