"""Finds the topics that the patterns of a group match.

All patterns of a group are resolved together, so that they ask for one new assignment together: when a member brings a
new one, when topics were created, and now and then; never twice within ten seconds. With many topics and patterns that
takes its time: it is done in slices, between which everything else goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from typing import Final

from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.coordinator.consumer.member import ConsumerMember
from tailrace.coordinator.consumer.patterns import Matcher, compiled
from tailrace.coordinator.consumer.subscriptions import ResolvedPattern
from tailrace.coordinator.outcome import Outcome
from tailrace.coordinator.shard import Shard
from tailrace.model.errors import InvalidRegularExpressionError

_log = logging.getLogger(__name__)

LEAST_INTERVAL_MS: Final = 10_000
SLICE: Final = 5_000
"""So many names are held against a pattern at a time: some milliseconds, as long as a long pattern takes to compile."""
_TIMER: Final = "consumer patterns"

Resolved = dict[str, ResolvedPattern]


class PatternResolver:
    def __init__(self, shard: Shard, resolved: Callable[[str, Resolved], Outcome]) -> None:
        """`resolved` is a command: it is given a group's id and what its patterns match."""
        self._shard = shard
        self._resolved = resolved
        self._new_topics_version = -1
        """Of the metadata that last had new topics."""

    def topics_created(self) -> None:
        self._new_topics_version = self._shard.image.offset

    def look_after(self, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, *, is_new: bool) -> None:
        """`old` becomes `new`: resolve the group's patterns if it is time. `is_new`: nobody had this pattern."""
        if not is_new and not group.subscriptions.patterns:
            return
        key = (_TIMER, group.group_id)
        if self._shard.timers.is_scheduled(key):
            return
        now_ms = self._shard.clock.now_ms()
        last_ms = group.subscriptions.last_resolved_ms
        if last_ms is not None and now_ms <= last_ms + LEAST_INTERVAL_MS:
            return
        patterns = dict(group.subscriptions.patterns)
        if old.pattern and patterns.get(old.pattern, 0) <= 1:
            patterns.pop(old.pattern, None)
        if new.pattern:
            patterns[new.pattern] = 1
        if not patterns:
            return
        is_due = (
            is_new
            or len(patterns) != len(group.subscriptions.resolved)
            or group.subscriptions.last_resolved_version < self._new_topics_version
            or last_ms is None
            or now_ms > last_ms + self._shard.config.group_consumer_regex_refresh_interval_ms
        )
        if is_due:
            self._begin(group.group_id, sorted(patterns))

    def _begin(self, group_id: str, patterns: Collection[str]) -> None:
        image = self._shard.image
        names = list(image.topics)
        matches: dict[str, set[str]] = {pattern: set() for pattern in patterns}
        todo = _candidates(names, patterns, matches)
        version, begun_ms = image.offset, self._shard.clock.now_ms()
        key = (_TIMER, group_id)

        def go_on() -> Outcome | None:
            if _some(todo):
                self._shard.timers.schedule(key, 0, go_on)
                return None
            found = {
                pattern: ResolvedPattern(frozenset(topics), version, begun_ms) for pattern, topics in matches.items()
            }
            return self._resolved(group_id, found)

        self._shard.timers.schedule(key, 0, go_on)


def _some(todo: Iterator[int]) -> bool:
    """Do a slice; whether there may be more."""
    done = 0
    for cost in todo:
        done += cost
        if done >= SLICE:
            return True
    return False


def _candidates(names: list[str], patterns: Collection[str], matches: dict[str, set[str]]) -> Iterator[int]:
    """Each step holds one name against one pattern, and costs 1; a pattern itself may take a slice to understand."""
    for pattern in patterns:
        yield SLICE
        try:
            matcher: Matcher = compiled(pattern)
        except InvalidRegularExpressionError as error:
            _log.error("a pattern out of the log matches nothing: %s", error)
            continue
        for name in names:
            if matcher(name):
                matches[pattern].add(name)
            yield 1
