"""Names of things: topics, partitions, producers."""

from __future__ import annotations

import base64
from typing import NamedTuple
from uuid import UUID

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1
NO_TIMESTAMP = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicId(NamedTuple):
    """Kafka's Uuid: 16 bytes, written as 22 characters of URL-safe base64 without padding."""

    raw: bytes

    @classmethod
    def parse(cls, text: str) -> TopicId:
        """Raises ValueError unless `text` is such a string."""
        if len(text) > 24:
            raise ValueError(f"topic id {text[:24]!r}… is longer than 24 characters")
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        if len(raw) != 16:
            raise ValueError(f"topic id {text!r} holds {len(raw)} bytes, not 16")
        return cls(raw)

    @classmethod
    def of(cls, uuid: UUID) -> TopicId:
        return cls(uuid.bytes)

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self.raw).rstrip(b"=").decode()


ZERO_TOPIC_ID = TopicId(bytes(16))
