"""Which share partition: a partition as one share group sees it."""

from __future__ import annotations

from typing import NamedTuple

from tailrace.model.ids import TopicId


class SharePartitionKey(NamedTuple):
    group_id: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        """By this text its coordinator is found, as clients of any implementation write it."""
        return f"{self.group_id}:{TopicId(self.topic_id)}:{self.partition}"
