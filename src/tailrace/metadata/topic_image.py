"""A topic and its partitions."""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.model.ids import TopicId


@dataclass(slots=True)
class TopicImage:
    """Changed only by a delta's replay and by `replace_image`."""

    name: str
    id: TopicId
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)
