"""Sets as a foreign client makes them, and the records that it reads in ours: kafka-python is producer and judge."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import NamedTuple

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own use of importlib
    from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from tailrace.env.files import Buffer
from tailrace.storage.validation import ValidationRules

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000

RULES = ValidationRules(
    timestamp_type=0,
    before_max_ms=2**63 - 1,
    after_max_ms=HOUR_MS,
    require_key=False,
    target_codec=None,
    max_message_bytes=1_048_588,
)
LOG_APPEND_RULES = RULES._replace(timestamp_type=1)

Message = tuple[int, bytes | None, bytes | None]
MESSAGES: list[Message] = [
    (NOW_MS - 5, b"k0", b"value 0 " * 40),
    (NOW_MS - 1, None, b"value 1 " * 40),
    (NOW_MS - 3, b"k2", None),
]


class Seen(NamedTuple):
    """A record as kafka-python reads it."""

    offset: int
    timestamp: int | None
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None


def produced(
    messages: Iterable[Message] = MESSAGES, *, magic: int = 2, codec: int = 0, headers: bool = False, **producer: int
) -> bytearray:
    builder = MemoryRecordsBuilder(magic, codec, 1 << 24, **producer)
    for timestamp, key, value in messages:
        builder.append(timestamp, key, value, [("trace", b"id")] if headers else [])
    builder.close()
    return bytearray(builder.buffer())


def entries(buffer: Buffer) -> list[object]:
    """The batches of a set, each with a CRC that holds."""
    found = list(MemoryRecords(bytes(buffer)))
    assert all(entry.validate_crc() for entry in found)
    return found


def seen(buffer: Buffer) -> list[Seen]:
    return [
        Seen(record.offset, record.timestamp, record.timestamp_type, record.key, record.value)
        for entry in entries(buffer)
        for record in entry
    ]
