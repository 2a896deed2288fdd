"""How a group's lag moves: measurements one after the other, and the rates between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from tailrace.client.group_admin import PartitionLag
from tailrace.model.ids import TopicPartition

WINDOW_S: Final = 10.0
HISTORY: Final = 200


class PartitionPace(NamedTuple):
    """Rates are 0 until there are two measurements."""

    lag: PartitionLag
    read_per_s: float
    written_per_s: float


class Pace(NamedTuple):
    seconds: float
    """Since the first measurement."""
    lag: int | None
    read_per_s: float
    written_per_s: float
    partitions: tuple[PartitionPace, ...]
    history: tuple[int, ...]
    """Of `lag`, the oldest first."""

    @property
    def caught_up_in_s(self) -> float | None:
        """0 when it has; None where it gets no nearer, or nothing is known."""
        if self.lag is None:
            return None
        if self.lag == 0:
            return 0.0
        gain_per_s = self.read_per_s - self.written_per_s
        return self.lag / gain_per_s if gain_per_s > 0 else None


class _Sample(NamedTuple):
    at_s: float
    offsets: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]


class LagMeter:
    """Rates are those of the last seconds: long enough not to jump with every commit."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()
        self._history: deque[int] = deque(maxlen=HISTORY)
        self._began_s: float | None = None

    def measured(self, at_s: float, lags: Sequence[PartitionLag]) -> Pace:
        if self._began_s is None:
            self._began_s = at_s
        offsets = {each.partition: each.offset for each in lags if each.offset is not None}
        ends = {each.partition: each.end for each in lags if each.end is not None}
        while len(self._samples) > 1 and at_s - self._samples[1].at_s >= WINDOW_S:
            self._samples.popleft()
        before = self._samples[0] if self._samples else _Sample(at_s, offsets, ends)
        self._samples.append(_Sample(at_s, offsets, ends))
        span_s = at_s - before.at_s
        partitions = tuple(
            PartitionPace(
                each,
                _rate(before.offsets, offsets, each.partition, span_s),
                _rate(before.ends, ends, each.partition, span_s),
            )
            for each in lags
        )
        known = [each.lag for each in lags if each.lag is not None]
        lag = sum(known) if known else None
        self._history.append(lag or 0)
        return Pace(
            at_s - self._began_s,
            lag,
            sum(each.read_per_s for each in partitions),
            sum(each.written_per_s for each in partitions),
            partitions,
            tuple(self._history),
        )


def _rate(
    before: dict[TopicPartition, int], now: dict[TopicPartition, int], partition: TopicPartition, span_s: float
) -> float:
    """A partition that is new has none, and one that was set back reads nothing."""
    if partition not in before or partition not in now or span_s <= 0:
        return 0.0
    return max(now[partition] - before[partition], 0) / span_s
