"""Which topics, or partitions of topics, a query reads: `subscribe`, `subscribePattern` or `assign`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped,unused-ignore]

from tailrace.metadata.topic_names import is_legal_topic_name
from tailrace.model.ids import TopicPartition
from tailrace.model.internal_topics import CLUSTER_METADATA, INTERNAL_TOPICS
from tailrace.spark.errors import OptionError
from tailrace.spark.options.given import Given
from tailrace.spark.options.partition_numbers import PARTITIONS_EXAMPLE, parse_partitions

OPTIONS: Final = ("subscribe", "subscribePattern", "assign")
_NOT_BY_PATTERN: Final = INTERNAL_TOPICS | {CLUSTER_METADATA}
_PATTERN_BYTES: Final = 8 << 20
"""Of memory, that a pattern may take: RE2's own default."""


@dataclass(frozen=True)
class Topics:
    """All partitions of these."""

    names: tuple[str, ...]

    def chosen(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that are meant, in order."""
        return sorted(set(names) & set(self.names))

    def includes(self, partition: TopicPartition) -> bool:
        return partition.topic in self.names

    def without(self, names: Iterable[str]) -> Topics:
        return Topics(tuple(each for each in self.names if each not in set(names)))

    def __str__(self) -> str:
        return f"subscribe={','.join(self.names)}"


@dataclass(frozen=True)
class Pattern:
    """All partitions of the topics in whose name it is found, in RE2's syntax.

    As in Spark's Kafka source, it need not match the whole name: `^` and `$` say where that is wanted. Internal topics
    are found by their names only.
    """

    text: str

    def chosen(self, names: Iterable[str]) -> list[str]:
        finds = _finder(self.text)
        return sorted(name for name in set(names) if name not in _NOT_BY_PATTERN and finds(name))

    def includes(self, partition: TopicPartition) -> bool:
        return bool(self.chosen([partition.topic]))

    def __str__(self) -> str:
        return f"subscribePattern={self.text}"


@dataclass(frozen=True)
class Assigned:
    """Just these partitions: topic → numbers, in order."""

    partitions: Mapping[str, tuple[int, ...]]

    def chosen(self, names: Iterable[str]) -> list[str]:
        return sorted(set(names) & set(self.partitions))

    def includes(self, partition: TopicPartition) -> bool:
        return partition.partition in self.partitions.get(partition.topic, ())

    def all(self) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in sorted(self.partitions) for number in self.partitions[topic]]

    def without(self, names: Iterable[str]) -> Assigned:
        """`names` are topics or, as they are printed, partitions."""
        gone = set(names)
        return Assigned(
            {
                topic: tuple(each for each in numbers if str(TopicPartition(topic, each)) not in gone)
                for topic, numbers in self.partitions.items()
                if topic not in gone
            }
        )

    def __str__(self) -> str:
        return f"assign={','.join(str(each) for each in self.all())}"


Subscription = Topics | Pattern | Assigned


def subscription(given: Given) -> Subscription:
    """Exactly one of the three options."""
    named = [name for name in OPTIONS if name in given]
    if not named:
        raise OptionError(f"none of the options {', '.join(OPTIONS)} is given: one must say what to read")
    if len(named) > 1:
        raise OptionError(f"the options {' and '.join(named)} are given: only one of {', '.join(OPTIONS)} may be")
    text = given.text(named[0])
    assert text is not None
    if named[0] == "assign":
        return _assigned(given, text)
    if named[0] == "subscribe":
        return _topics(given, text)
    try:
        _finder(text)
    except ValueError as error:
        raise given.refusal("subscribePattern", f"must be a regular expression in RE2's syntax: {error}") from None
    return Pattern(text)


def _topics(given: Given, text: str) -> Topics:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise given.refusal("subscribe", "must name topics, with commas between them")
    for name in names:
        if not is_legal_topic_name(name):
            raise given.refusal("subscribe", f"must name topics, with commas between them: {name[:60]!r} is none")
    return Topics(tuple(sorted(set(names))))


def _assigned(given: Given, text: str) -> Assigned:
    try:
        return Assigned(parse_partitions(text))
    except ValueError as error:
        raise given.refusal("assign", f"must be JSON such as {PARTITIONS_EXAMPLE}: {error}") from None


@lru_cache(maxsize=16)
def _finder(pattern: str) -> Callable[[str], Any]:
    """Gives something true for a name in which `pattern` is found. ValueError says what is wrong with it."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES
    try:
        finder: Callable[[str], Any] = re2.compile(pattern, options).search
    except re2.error as error:
        cause = error.args[0] if error.args else ""
        raise ValueError(cause.decode(errors="replace") if isinstance(cause, bytes) else str(cause)) from None
    return finder
