"""How unevenly something is shared: by how much the most frequent have more than the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_POINTS: Final = 80


def concentration(counts: Iterable[int], points: int = _POINTS) -> list[tuple[float, float]]:
    """(share of keys, the most frequent first; share of records that they have), from (0, 0) to (1, 1)."""
    ordered = sorted((count for count in counts if count > 0), reverse=True)
    total = sum(ordered)
    if not total:
        return []
    wanted = _ranks(len(ordered), points)
    found = [(0.0, 0.0)]
    held = 0
    for rank, count in enumerate(ordered, start=1):
        held += count
        if rank in wanted:
            found.append((rank / len(ordered), held / total))
    return found


def gini(counts: Iterable[int]) -> float:
    """0: all have the same; towards 1: one has everything."""
    ordered = sorted(count for count in counts if count > 0)
    total = sum(ordered)
    if not total:
        return 0.0
    weighted = sum(rank * count for rank, count in enumerate(ordered, start=1))
    return max(0.0, (2 * weighted) / (len(ordered) * total) - (len(ordered) + 1) / len(ordered))


def held_by_top(counts: Sequence[int], keys: int, total: int = 0) -> float:
    """The share of all that the `keys` most frequent have. `total` where not all are in `counts`."""
    total = max(total, sum(counts))
    return sum(sorted(counts, reverse=True)[:keys]) / total if total else 0.0


def _ranks(keys: int, points: int) -> set[int]:
    """Which ranks are shown: close together at the most frequent, where the curve bends."""
    even = {max(1, round(keys * at / points)) for at in range(1, points + 1)}
    bend = {round(keys ** (at / 20)) for at in range(21)}
    return even | bend | {keys}
