"""What a broker shows of the groups that it coordinates: how far each has come, and how far behind it is.

    CommittedOffset, Lag    of each group and partition; the lag only where the partition is led here, for only its
                            leader knows where it ends

How many groups and offsets there are is shown under Kafka's names; no lag is shown by a broker of Kafka's. Rows are
made when somebody reads, one at a time, and no more than MOST_ROWS: whoever has more is told how many are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from tailrace.coordinator.groups.group import GroupKind
from tailrace.coordinator.offsets.counts import OffsetCounts
from tailrace.coordinator.offsets.table import OffsetTable
from tailrace.metrics.gauge import Gauge
from tailrace.metrics.row import Columns, Row
from tailrace.model.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.broker.node import Node

MOST_ROWS: Final = 20_000
GROUPS_AT_A_TIME: Final = 1_000
GROUP: Final = "coordinator.group"
_MANAGER: Final = "GroupMetadataManager"
_COORDINATOR: Final = "group-coordinator-metrics"
_STATES: Final = {
    GroupKind.CLASSIC: ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    GroupKind.CONSUMER: ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    GroupKind.SHARE: ("Empty", "Stable", "Dead"),
    GroupKind.STREAMS: ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead"),
}
_TAGS: Final = ("group", "topic", "partition")
_WITH_LAG: Final = Columns(GROUP, "Consumer", ("CommittedOffset", "Lag"), _TAGS)
_WITHOUT_LAG: Final = Columns(GROUP, "Consumer", ("CommittedOffset",), _TAGS)
# Attribute of OffsetCounts → attribute of Kafka's group-coordinator-metrics.
_COUNTS: Final = {
    "commits": "offset-commit-count",
    "expirations": "offset-expiration-count",
    "deletions": "offset-deletion-count",
}


class GroupMetrics:
    def __init__(self, node: Node) -> None:
        self._node = node
        self.offset_counts = OffsetCounts()
        node.metrics.add(self.read)

    def read(self) -> Iterator[Gauge | Row | None]:
        offsets = rows = 0
        groups: Counter[tuple[GroupKind, str]] = Counter()
        for machine in list(self._node.groups.machines()):
            offsets += machine.offsets.table.count
            for place, group in enumerate(list(machine.groups.values()), 1):
                groups[group.kind, group.state_name] += 1
                if not place % GROUPS_AT_A_TIME:
                    yield None
            for row in islice(self._rows(machine.offsets.table), MOST_ROWS - rows):
                rows += 1
                yield row
            yield None
        yield Gauge(GROUP, _MANAGER, "NumOffsets", offsets)
        yield Gauge(GROUP, "Consumer", "NotShown", max(offsets - rows, 0))
        for attribute, name in _COUNTS.items():
            yield Gauge("server", _COORDINATOR, name, getattr(self.offset_counts, attribute))
        yield from _counted(groups)

    def _rows(self, table: OffsetTable) -> Iterator[Row]:
        for group_id in table.group_ids():
            for topic, partitions in list(table.of_group(group_id).items()):
                for index, entry in list(partitions.items()):
                    labels, offset = (group_id, topic, index), entry.offset
                    end = self._end(topic, index)
                    if end is None:
                        yield Row(_WITHOUT_LAG, labels, (offset,))
                    else:
                        yield Row(_WITH_LAG, labels, (offset, max(end - offset, 0)))

    def _end(self, topic: str, index: int) -> int | None:
        """The offset up to which consumers of the partition can read."""
        try:
            partition = self._node.replicas.partition(topic, index)
        except TailraceError:
            return None
        return partition.log.high_watermark if partition.is_leader and partition.log is not None else None


def _counted(groups: Counter[tuple[GroupKind, str]]) -> Iterator[Gauge]:
    """By kind and state, under the two sets of names that Kafka has."""
    by_kind: Counter[GroupKind] = Counter()
    for (kind, _), count in groups.items():
        by_kind[kind] += count
    for kind in GroupKind:
        protocol = kind.value.lower()
        yield Gauge("server", _COORDINATOR, "group-count", by_kind[kind], (("protocol", protocol),))
        for state in _STATES[kind]:
            count = groups[kind, state]
            if kind is GroupKind.CLASSIC:
                yield Gauge(GROUP, _MANAGER, f"NumGroups{state}", count)
            else:
                yield Gauge("server", _COORDINATOR, f"{protocol}-group-count", count, (("state", state.lower()),))
    yield Gauge(GROUP, _MANAGER, "NumGroups", by_kind[GroupKind.CLASSIC])
