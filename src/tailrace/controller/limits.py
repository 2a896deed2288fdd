"""How much one request may ask for, as Kafka limits it: a batch of the metadata log is written whole or not at all."""

from __future__ import annotations

from collections.abc import Sized
from typing import Final

from tailrace.model.errors import PolicyViolationError

MAX_RECORDS: Final = 10_000
MAX_PARTITIONS: Final = 10_000


def check_records(records: Sized) -> None:
    if len(records) > MAX_RECORDS:
        raise PolicyViolationError("Unable to perform excessively large batch operation.")


def check_partitions(count: int) -> None:
    if count > MAX_PARTITIONS:
        raise PolicyViolationError("Excessively large number of partitions per request.")
