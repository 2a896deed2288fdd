"""Pieces of partitions: what a plan is made of, and what a task reads."""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.model.ids import TopicPartition

EVER: Final = (-(1 << 63), (1 << 63) - 1)


class Bounds(NamedTuple):
    """What a reader may see of a partition: from the log's start to its end for the isolation at hand."""

    start: int
    end: int


class OffsetRange(NamedTuple):
    """The offsets from `start` to just before `end`."""

    partition: TopicPartition
    start: int
    end: int
    topic_id: str | None = None
    """As Kafka prints it; None where it is not known."""

    @property
    def size(self) -> int:
        return max(self.end - self.start, 0)


class TimeRange(NamedTuple):
    """Timestamps in ms, both inclusive. A filter that was pushed down: what is outside need not be read."""

    first_ms: int = EVER[0]
    last_ms: int = EVER[1]


ALL_TIMES: Final = TimeRange()
