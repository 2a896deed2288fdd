"""What a heartbeat is told beside its tasks."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from tailrace.protocol.messages import streams_group_heartbeat as message


class StatusCode(IntEnum):
    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    code: StatusCode
    detail: str

    def as_message(self) -> message.Status:
        return message.Status(status_code=self.code.value, status_detail=self.detail)
