"""The transactional ids of a sink, of which no two sinks have one in common.

SINK is the `sinkId` of streams. Batch writes have names that no `sinkId` can be (`batch_sink`).

SINK-driver                  who decides
SINK-PARTITION-NONCE         transactions of tasks; sixteen hexadecimal digits, made up by the task
SINK-PARTITION-NONCE-claim   who may inherit that id; never has a transaction
"""

from __future__ import annotations

import re
from typing import Final

NONCE_BYTES: Final = 8
NONCE_DIGITS: Final = 2 * NONCE_BYTES


def batch_sink(sink_id: str | None, write_id: str) -> str:
    """What batch writes under a `sinkId` have in common; a write without one is a sink of its own."""
    return f"write:{write_id}" if sink_id is None else f"batch:{sink_id}"


def driver_id(sink_id: str) -> str:
    return f"{sink_id}-driver"


def task_id(sink_id: str, partition: int, nonce: bytes) -> str:
    return f"{sink_id}-{partition}-{nonce.hex()}"


def claim_id(transactional_id: str) -> str:
    return f"{transactional_id}-claim"


def partition_of(transactional_id: str) -> int:
    """Of a task's id."""
    return int(transactional_id.rsplit("-", 2)[1])


def pattern_of_tasks(sink_id: str) -> str:
    """A regular expression for whole ids, in the words that RE2 and Python have in common."""
    return f"{re.escape(sink_id)}-[0-9]+-[0-9a-f]{{{NONCE_DIGITS}}}"
