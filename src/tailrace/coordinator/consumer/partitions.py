"""Sets of partitions, by topic id.

`Partitions` is what a member should own; `OwnedPartitions` what it owns, each since an epoch of the group. Neither has
topics without partitions, and both are never changed once they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

Partitions = Mapping[bytes, frozenset[int]]
OwnedPartitions = Mapping[bytes, Mapping[int, int]]
K = TypeVar("K")

NO_PARTITIONS: Final[Partitions] = {}
NO_OWNED: Final[OwnedPartitions] = {}


def owned_since(partitions: Partitions, epoch: int) -> OwnedPartitions:
    return {topic_id: dict.fromkeys(sorted(indexes), epoch) for topic_id, indexes in partitions.items()}


def partitions_of(pairs: Iterable[tuple[K, Iterable[int]]]) -> Mapping[K, frozenset[int]]:
    """Of topics and their partitions, as messages list them: a topic may come twice, or with no partitions."""
    found: dict[K, set[int]] = {}
    for topic, indexes in pairs:
        found.setdefault(topic, set()).update(indexes)
    return {topic: frozenset(indexes) for topic, indexes in found.items() if indexes}
