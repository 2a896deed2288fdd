"""How many partitions an application's own topics have.

    repartition   as many as the topology says; otherwise as the widest source of a subtopology that writes to it,
                  unless it is joined with others: then as those have
    changelog     as the widest source of its subtopology has: one a task

A topic that is there keeps its partitions, and the rest follows from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from tailrace.coordinator.streams.status import Status, StatusCode
from tailrace.coordinator.streams.topology import UNDECIDED, Topology, copartitioned_topics, sources_of
from tailrace.model.errors import StreamsInvalidTopologyError
from tailrace.protocol.records.streams_groups import Subtopology

CountOf = Callable[[str], int | None]
"""The partitions of a topic; None when there is no such topic."""


class WronglyPartitionedError(Exception):
    """Topics that are there do not go together."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)


def decided_counts(topology: Topology, existing: CountOf) -> dict[str, int]:
    """Of the application's own topics, when the source topics of others are all there.

    Raises WronglyPartitionedError, and StreamsInvalidTopologyError where no numbers would do.
    """
    return _Decision(topology, existing).counts


class _Decision:
    def __init__(self, topology: Topology, existing: CountOf) -> None:
        self._subtopologies = list(topology.subtopologies.values())
        self._existing = existing
        self.counts: dict[str, int] = {
            topic.name: topic.partitions
            for each in self._subtopologies
            for topic in each.repartition_source_topics
            if topic.partitions != UNDECIDED
        }
        self._fixed = frozenset(self.counts)
        self._repartitions = {topic.name for each in self._subtopologies for topic in each.repartition_source_topics}
        self._follow_writers()
        for each in self._subtopologies:
            for group in copartitioned_topics(each):
                self._join(group)
        for each in self._subtopologies:
            width = self._width(each)
            self.counts.update((topic.name, width) for topic in each.state_changelog_topics)

    def _count(self, topic: str) -> int:
        found = self._existing(topic)
        if found is None:
            found = self.counts.get(topic)
        if found is None:
            raise StreamsInvalidTopologyError(f"nothing says how many partitions {topic} is to have")
        return found

    def _width(self, subtopology: Subtopology) -> int:
        sources = sources_of(subtopology)
        if not sources:
            raise StreamsInvalidTopologyError(f"subtopology {subtopology.subtopology_id} has no source topics")
        return max(self._count(topic) for topic in sources)

    def _follow_writers(self) -> None:
        """Along the chains of subtopologies; around a loop, from what is known of its other sources."""
        writers = _Writers(self._subtopologies, self._existing)
        for topic, count in self.counts.items():
            writers.learn(topic, count)
        while (settled := writers.pop()) is not None:
            subtopology, width = settled
            for topic in subtopology.repartition_sink_topics:
                if topic not in self.counts:
                    self.counts[topic] = width
                    writers.learn(topic, width)
        sinks = {topic for each in self._subtopologies for topic in each.repartition_sink_topics}
        if not sinks <= self.counts.keys():
            raise StreamsInvalidTopologyError(
                "the partitions of repartition topics depend on each other: there is a loop in the topology"
            )
        unwritten = self._repartitions - self.counts.keys()
        if unwritten:
            raise StreamsInvalidTopologyError(f"repartition topic {min(unwritten)} is read, but nobody writes to it")

    def _join(self, topics: list[str]) -> None:
        """All topics of a join have the same number of partitions."""
        if not topics:
            return
        own = {topic: self._count(topic) for topic in topics if topic in self._repartitions}
        others = {topic: self._count(topic) for topic in topics if topic not in own}
        fixed = {topic: count for topic, count in own.items() if topic in self._fixed}
        count = _one_of(others or fixed) if others or fixed else max(own.values())
        for topic, present in fixed.items():
            if present != count:
                raise WronglyPartitionedError(
                    f"repartition topic {topic} has {present} partitions, but is joined with topics that have {count}"
                )
        self.counts.update(dict.fromkeys(own, count))


class _Writers:
    """Subtopologies that write to repartition topics, in the order in which they know how wide those have to be."""

    def __init__(self, subtopologies: Iterable[Subtopology], existing: CountOf) -> None:
        self._by_id = {each.subtopology_id: each for each in subtopologies if each.repartition_sink_topics}
        self._unknown: dict[str, set[str]] = {}
        """Repartition topics whose width a writer would have to know."""
        self._widths: dict[str, int] = {}
        """The widest source that is known."""
        self._readers: dict[str, list[str]] = {}
        self._complete: deque[str] = deque()
        self._partial: dict[str, None] = {}
        for key, each in self._by_id.items():
            self._unknown[key] = {topic.name for topic in each.repartition_source_topics}
            for topic in self._unknown[key]:
                self._readers.setdefault(topic, []).append(key)
            self._widen(key, max((existing(topic) or 0 for topic in each.source_topics), default=0))

    def learn(self, topic: str, width: int) -> None:
        for key in self._readers.pop(topic, ()):
            self._unknown[key].discard(topic)
            self._widen(key, width)

    def _widen(self, key: str, width: int) -> None:
        self._widths[key] = max(self._widths.get(key, 0), width)
        if not self._widths[key]:
            return
        if self._unknown[key]:
            self._partial[key] = None
        else:
            self._partial.pop(key, None)
            self._complete.append(key)

    def pop(self) -> tuple[Subtopology, int] | None:
        """The next whose sources are all known; if there is none, one of which some are."""
        if self._complete:
            key = self._complete.popleft()
        elif self._partial:
            key = next(iter(self._partial))
            del self._partial[key]
        else:
            return None
        return self._by_id[key], self._widths[key]


def _one_of(counts: Mapping[str, int]) -> int:
    different = set(counts.values())
    if len(different) > 1:
        shown = ", ".join(f"{topic} {counts[topic]}" for topic in sorted(counts))
        raise WronglyPartitionedError(f"topics that are joined have different numbers of partitions: {shown}")
    return different.pop()


def shown_topics(topics: Iterable[str], most: int = 3) -> str:
    """Some of them, for people."""
    names = sorted(topics)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
