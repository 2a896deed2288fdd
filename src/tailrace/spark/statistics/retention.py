"""What would be left of a topic under limits of time and size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from tailrace.spark.statistics.tally import PartitionTally
from tailrace.spark.statistics.topic_stats import PartitionStats, Retention, SizeLimit, TimeLimit

_HOUR_MS: Final = 3_600_000
TIMES: Final = {
    "1h": _HOUR_MS,
    "6h": 6 * _HOUR_MS,
    "1d": 24 * _HOUR_MS,
    "3d": 72 * _HOUR_MS,
    "7d": 168 * _HOUR_MS,
    "30d": 720 * _HOUR_MS,
}
SIZES: Final = tuple(10**power for power in range(6, 13))
_ALWAYS_FROM: Final = 10**9


def retention_of(tallies: Mapping[int, PartitionTally], partitions: Sequence[PartitionStats]) -> Retention:
    stored = sum(each.stored_bytes for each in partitions)
    newest = max((each.last_ms for each in partitions if each.last_ms is not None), default=None)
    return Retention(
        newest_ms=newest,
        times=tuple(_time_limit(name, limit, tallies, newest, stored) for name, limit in TIMES.items()),
        sizes=tuple(_size_limit(limit, tallies, stored) for limit in SIZES if limit >= _ALWAYS_FROM or limit < stored),
    )


def _time_limit(
    name: str, limit_ms: int, tallies: Mapping[int, PartitionTally], newest: int | None, stored: int
) -> TimeLimit:
    kept = np.zeros(2, np.int64)
    for each in tallies.values():
        ages = each.ages
        is_young = ages.lasts >= (newest or 0) - limit_ms
        kept += ages.sums[is_young].sum(axis=0) + ages.undated
    kept_bytes, kept_records = kept.tolist()
    return TimeLimit(name, limit_ms, kept_records, kept_bytes, kept_bytes / stored if stored else 0.0)


def _size_limit(limit: int, tallies: Mapping[int, PartitionTally], stored: int) -> SizeLimit:
    kept = sum(min(each.stored_bytes, limit) for each in tallies.values())
    return SizeLimit(limit, kept, kept / stored if stored else 0.0, _oldest_ms(tallies.values(), limit))


def _oldest_ms(tallies: Iterable[PartitionTally], limit: int) -> int | None:
    """From when on no partition loses anything."""
    tallies = list(tallies)
    losing = [_kept_from_ms(each, limit) for each in tallies if each.stored_bytes > limit]
    if not losing:
        return min((each.first_ms for each in tallies if each.first_ms is not None), default=None)
    dated = [each for each in losing if each is not None]
    return max(dated) if len(dated) == len(losing) else None


def _kept_from_ms(tally: PartitionTally, limit: int) -> int | None:
    """Where the newest bytes begin that are within the limit; None where not even the newest time is."""
    from_newest = np.cumsum(tally.ages.sums[::-1, 0])
    whole = int(np.searchsorted(from_newest, limit, side="right"))
    return int(tally.ages.starts[::-1][whole - 1]) if whole else None
