"""Which topics the members of a group are subscribed to, by name and by pattern, and by how many of them.

`Subscriptions` is kept by the group and changed by its replay; a command that has to know what the group will look like
after its records makes a copy and changes that.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from tailrace.coordinator.consumer.member import ConsumerMember


class ResolvedPattern(NamedTuple):
    """The topics that a regular expression matched when it was last looked at."""

    topics: frozenset[str]
    version: int
    """The offset of the metadata that was looked at."""
    timestamp_ms: int


class Subscriptions:
    def __init__(self) -> None:
        self._by_name: Counter[str] = Counter()
        """Members, by the topics that they name."""
        self._by_pattern: Counter[str] = Counter()
        """Resolved patterns, by the topics that they match."""
        self.patterns: Counter[str] = Counter()
        """Members, by their patterns."""
        self.resolved: dict[str, ResolvedPattern] = {}

    def copy(self) -> Subscriptions:
        copy = Subscriptions()
        copy._by_name = Counter(self._by_name)
        copy._by_pattern = Counter(self._by_pattern)
        copy.patterns = Counter(self.patterns)
        copy.resolved = dict(self.resolved)
        return copy

    def replace_member(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        old_topics = old.topics if old is not None else frozenset()
        new_topics = new.topics if new is not None else frozenset()
        if old_topics != new_topics:
            for topic in old_topics:
                _take(self._by_name, topic)
            self._by_name.update(new_topics)
        old_pattern = old.pattern if old is not None else None
        new_pattern = new.pattern if new is not None else None
        if old_pattern != new_pattern:
            if old_pattern:
                _take(self.patterns, old_pattern)
            if new_pattern:
                self.patterns[new_pattern] += 1

    def resolve(self, pattern: str, found: ResolvedPattern | None) -> None:
        """None: nobody is subscribed to the pattern any more."""
        before = self.resolved.pop(pattern, None)
        if before is not None:
            for topic in before.topics:
                _take(self._by_pattern, topic)
        if found is not None:
            self.resolved[pattern] = found
            self._by_pattern.update(found.topics)

    def drop_unused_patterns(self) -> list[str]:
        """Forget what nobody is subscribed to; those patterns."""
        unused = [pattern for pattern in self.resolved if pattern not in self.patterns]
        for pattern in unused:
            self.resolve(pattern, None)
        return unused

    @property
    def topics(self) -> set[str]:
        return {*self._by_name, *self._by_pattern}

    def has_topic(self, topic: str) -> bool:
        return topic in self._by_name or topic in self._by_pattern

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """A pattern that was not resolved yet matches nothing."""
        resolved = self.resolved.get(member.pattern) if member.pattern else None
        if resolved is None:
            return member.topics
        return member.topics | resolved.topics if member.topics else resolved.topics

    def is_the_same_for_all(self, member_count: int) -> bool:
        """Whether each of so many members is subscribed to the same topics."""
        if not self.patterns:
            return not self._by_pattern and all(count == member_count for count in self._by_name.values())
        if self._by_name or next(iter(self.patterns.values())) != member_count:
            return False
        return all(count == 1 for count in self._by_pattern.values())

    @property
    def last_resolved_ms(self) -> int | None:
        """They are resolved together: the time of any."""
        return next((each.timestamp_ms for each in self.resolved.values()), None)

    @property
    def last_resolved_version(self) -> int:
        return next((each.version for each in self.resolved.values()), 0)


def _take(counts: Counter[str], key: str) -> None:
    if counts[key] <= 1:
        del counts[key]
    else:
        counts[key] -= 1
