"""The JSON in which Spark's Kafka source names partitions, and gives each an offset or a time.

{"orders": {"0": 23, "1": -2}, "users": {"0": -1}}      a number for each
{"orders": [0, 1], "users": [0]}                        just which
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tailrace.metadata.topic_names import is_legal_topic_name
from tailrace.model.ids import TopicPartition
from tailrace.spark.options.given import MAX_INT, MAX_LONG

NUMBERS_EXAMPLE: Final = '{"orders":{"0":23,"1":-2}}'
PARTITIONS_EXAMPLE: Final = '{"orders":[0,1]}'


def parse_numbers(text: str) -> dict[TopicPartition, int]:
    """ValueError says what is wrong."""
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _topics(text).items():
        if not isinstance(numbers, dict):
            raise ValueError(f"topic {topic} has {_shown(numbers)} instead of an object of partitions")  # noqa: TRY004
        for partition, number in numbers.items():
            if not _is_whole(number) or not -MAX_LONG - 1 <= number <= MAX_LONG:
                raise ValueError(f"partition {partition} of topic {topic} has {_shown(number)}, no whole number")
            found[TopicPartition(topic, _partition(topic, partition))] = number
    return found


def parse_partitions(text: str) -> dict[str, tuple[int, ...]]:
    """ValueError says what is wrong. Each partition once, in order."""
    found: dict[str, tuple[int, ...]] = {}
    for topic, partitions in _topics(text).items():
        if not isinstance(partitions, list) or not partitions:
            raise ValueError(f"topic {topic} has {_shown(partitions)} instead of a list of partitions")
        for each in partitions:
            if not _is_whole(each) or not 0 <= each <= MAX_INT:
                raise ValueError(f"topic {topic} has no partition {_shown(each)}")
        found[topic] = tuple(sorted(set(partitions)))
    return found


def print_numbers(numbers: Mapping[TopicPartition, int]) -> str:
    """The same for the same numbers, whatever their order."""
    topics: dict[str, dict[str, int]] = {}
    for partition, number in sorted(numbers.items()):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = number
    return json.dumps(topics, separators=(",", ":"))


def named(partitions: Mapping[TopicPartition, Any] | set[TopicPartition]) -> str:
    """`orders-0, orders-1 and 3 more`."""
    names = [str(each) for each in sorted(partitions)]
    rest = len(names) - 8
    return ", ".join(names) if rest <= 0 else f"{', '.join(names[:8])} and {rest} more"


def _topics(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_each_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON ({error.msg} at character {error.pos})") from None
    if not isinstance(found, dict):
        raise ValueError(f"it is {_shown(found)} instead of an object of topics")  # noqa: TRY004
    if not found:
        raise ValueError("it names no topic")
    for topic in found:
        if not is_legal_topic_name(topic):
            raise ValueError(f"{_shown(topic)} is no name of a topic")
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{_shown(next(name for name in names if names.count(name) > 1))} is there twice")
    return found


def _partition(topic: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_INT and str(int(text)) == text):
        raise ValueError(f"topic {topic} has no partition {_shown(text)}")
    return int(text)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:60] + "…"
