"""Many numbers of one thing at once, as they are read.

With thousands of partitions the thread that owns them would make tens of thousands of samples. A row is one object
for all that is known of a partition or a topic; names and tags are put on by whoever shows it, elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tailrace.metrics.count import Count
from tailrace.metrics.gauge import Gauge


class Columns(NamedTuple):
    """What rows of one kind have in common. Counts that are 0 are not shown: Kafka makes a topic's meters late."""

    group: str
    type: str
    names: tuple[str, ...]
    tags: tuple[str, ...]
    are_counts: bool = False


class Row(NamedTuple):
    """One value a name, one label a tag of its columns."""

    columns: Columns
    labels: tuple[str | int, ...]
    values: tuple[float, ...]

    def samples(self) -> Iterator[Gauge | Count]:
        """The same one by one."""
        columns = self.columns
        tags = tuple(zip(columns.tags, map(str, self.labels), strict=True))
        for name, value in zip(columns.names, self.values, strict=True):
            if not columns.are_counts:
                yield Gauge(columns.group, columns.type, name, value, tags)
            elif value:
                yield Count(columns.group, columns.type, name, int(value), tags)
