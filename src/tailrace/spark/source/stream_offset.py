"""How far a stream is: an offset for each partition, and which topic of that name it belongs to.

Spark keeps it as JSON, and compares the text, so the same offsets are always the same text:

    {"orders": {"id": "0YVrJkQXSaqwZ0bLmWt3Pw", "offsets": {"0": 5, "1": 0}}}

An offset is that of the next record, as a consumer's position is. The id tells a topic that was deleted and made again
from the one that was read; it is left out where it is not known. What Spark's own Kafka source writes, without ids, is
understood as well, so that its checkpoint can be carried on:

    {"orders": {"0": 5, "1": 0}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import PipelineError

_MAX_OFFSET: Final = (1 << 63) - 1
_MAX_PARTITION_DIGITS: Final = 10


class Loss(NamedTuple):
    """Offsets from `start` to just before `end`, as LossPolicy takes them."""

    partition: TopicPartition
    start: int
    end: int | None
    """None: nobody knows how many there were."""
    why: str


@dataclass(frozen=True)
class StreamOffset:
    offsets: Mapping[TopicPartition, int]
    ids: Mapping[TopicPartition, str | None]
    """Of the topics of exactly these partitions."""

    @classmethod
    def of(cls, offsets: Mapping[TopicPartition, int], ids: Mapping[TopicPartition, str | None]) -> StreamOffset:
        """`ids` may have more partitions, or lack some whose topic's id is not known."""
        return cls(dict(offsets), {each: ids.get(each) for each in offsets})

    @classmethod
    def from_dict(cls, stored: object) -> StreamOffset:
        """PipelineError for what is neither ours nor that of Spark's Kafka source."""
        offsets: dict[TopicPartition, int] = {}
        ids: dict[TopicPartition, str | None] = {}
        for topic, value in _object(stored, "the offset").items():
            entry = _object(value, f"topic {topic}")
            numbers, topic_id = entry, None
            if "offsets" in entry:
                numbers, topic_id = _object(entry["offsets"], f"topic {topic}"), entry.get("id")
                if topic_id is not None and not isinstance(topic_id, str):
                    raise _unreadable(f"the id of topic {topic} is {_shown(topic_id)}")
            for number, offset in numbers.items():
                partition = TopicPartition(topic, _partition(topic, number))
                offsets[partition] = _offset(partition, offset)
                ids[partition] = topic_id
        return cls(offsets, ids)

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for partition in sorted(self.offsets):
            topic_id = self.ids.get(partition)
            entry = found.setdefault(partition.topic, {} if topic_id is None else {"id": topic_id})
            entry.setdefault("offsets", {})[str(partition.partition)] = self.offsets[partition]
        return found

    def is_same_topic(self, other: StreamOffset, partition: TopicPartition) -> bool:
        """Whether both have the partition, and as far as is known of the same topic."""
        if partition not in self.offsets or partition not in other.offsets:
            return False
        mine, others = self.ids.get(partition), other.ids.get(partition)
        return mine is None or others is None or mine == others

    def new_in(self, latest: StreamOffset) -> list[TopicPartition]:
        """Partitions of `latest` that begin at their log's start: those unknown here, and those of topics made anew."""
        return sorted(each for each in latest.offsets if not self.is_same_topic(latest, each))

    def lost_in(self, latest: StreamOffset) -> list[Loss]:
        """What was read up to here and is not there any more, where partitions end at `latest` now."""
        losses = []
        for partition, offset in sorted(self.offsets.items()):
            if partition not in latest.offsets:
                losses.append(Loss(partition, offset, None, "the partition is gone"))
            elif not self.is_same_topic(latest, partition):
                was, now = self.ids[partition], latest.ids[partition]
                why = f"the topic was deleted and made again (its id was {was} and is {now})"
                losses.append(Loss(partition, offset, None, why))
            elif latest.offsets[partition] < offset:
                end = latest.offsets[partition]
                why = f"the log ends at {end}: it was cut, or made again, or never was so long"
                losses.append(Loss(partition, end, offset, why))
        return losses

    def missed(self, begins: Mapping[TopicPartition, int], new: Iterable[TopicPartition]) -> list[Loss]:
        """Of partitions that came while the stream ran: what was deleted before it saw them.

        `begins` are their logs' starts. A topic that was made anew has lost more than that, and is told by `lost_in`.
        """
        why = "they were deleted before the query saw this partition"
        return [
            Loss(each, 0, begins[each], why) for each in sorted(new) if begins[each] > 0 and each not in self.offsets
        ]


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _unreadable(f"{what} is {_shown(value)} instead of an object")
    return dict(value)


def _partition(topic: str, text: object) -> int:
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= _MAX_PARTITION_DIGITS):
        raise _unreadable(f"topic {topic} has no partition {_shown(text)}")
    return int(text)


def _offset(partition: TopicPartition, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_OFFSET:
        raise _unreadable(f"the offset of {partition} is {_shown(value)}")
    return value


def _unreadable(fault: str) -> PipelineError:
    return PipelineError(f"the checkpoint holds no offset of this source: {fault}")


def _shown(value: object) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= 60 else text[:60] + "…"
