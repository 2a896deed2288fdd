"""What a group has committed for one partition."""

from __future__ import annotations

from typing import Final, NamedTuple

from tailrace.model.ids import NO_TIMESTAMP, ZERO_TOPIC_ID

UNKNOWN_TOPIC_ID: Final = ZERO_TOPIC_ID


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int
    """A time that the commit itself has set, as clients of long ago do; −1 where the retention decides."""
    topic_id: bytes
    """Zeros where the commit did not know it."""
    record_offset: int
    """Of the commit's record in the coordinator's log: the later of two commits counts, not the later marker."""

    @property
    def has_own_expiry(self) -> bool:
        return self.expires_ms != NO_TIMESTAMP

    def is_of(self, topic_id: bytes) -> bool:
        """Whether it may speak of the topic with this id: a topic of the same name may have come and gone."""
        return self.topic_id == topic_id or UNKNOWN_TOPIC_ID in (self.topic_id, topic_id)
