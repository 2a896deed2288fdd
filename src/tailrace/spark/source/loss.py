"""What a query does about records that should be there and are not: it fails, or goes on and tells."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import DataLossError

_log: Final = logging.getLogger("tailrace.spark")


@dataclass
class LossPolicy:
    """One of a task, or of a planning reader."""

    fails: bool = True
    lost_offsets: int = 0
    """How many were passed over so far."""

    def lost(self, partition: TopicPartition, start: int, end: int | None, why: str) -> None:
        """The offsets from `start` to just before `end` cannot be read. Raises, or warns and counts.

        Without an `end` nobody knows how many there were.
        """
        span = f"from {start} on" if end is None else f"{start} to {end - 1}"
        text = f"{partition}: offsets {span} are lost: {why}"
        if self.fails:
            raise DataLossError(text)
        self.lost_offsets += 0 if end is None else end - start
        _log.warning("%s", text)
