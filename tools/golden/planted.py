"""Logs in formats that Kafka no longer writes, put into a killed broker's directory for it to recover and serve."""

from __future__ import annotations

from golden.broker import Broker, Message
from golden.cases import SMALL_INDEX, T0, Case, texts, write_nothing
from golden.legacy import CODECS, LOG_APPEND_TIME, batch, envelope, message_set, wrapper

SETTINGS = SMALL_INDEX
NULLS = [Message(T0 + 5, None, b"null key"), Message(T0 + 6, b"null value", None), Message(T0 + 7, None, None)]


def v0_log() -> dict[int, bytes]:
    """Plain messages, a wrapper of each codec that magic 0 knows, plain messages again."""
    return {
        0: message_set(0, range(3), NULLS)
        + message_set(0, range(3, 9), texts("v0-plain", 6))
        + wrapper(0, "gzip", range(9, 19), texts("v0-gzip", 10))
        + wrapper(0, "snappy", range(19, 29), texts("v0-snappy", 10))
        + wrapper(0, "gzip", [30, 33, 34], texts("v0-after-compaction", 3))
        + message_set(0, range(35, 39), texts("v0-last", 4))
    }


def v1_log() -> dict[int, bytes]:
    """As above with timestamps, out of order too, and with both timestamp types."""
    out = message_set(1, range(3), NULLS) + message_set(1, range(3, 9), texts("v1-plain", 6, T0 + 1000, step_ms=-20))
    offset = 9
    for n, codec in enumerate(CODECS):
        offsets = range(offset, offset + 10)
        out += wrapper(1, codec, offsets, texts(f"v1-{codec}", 10, T0 + 2000 + n * 500, step_ms=-20))
        offset += 10
    out += wrapper(1, "lz4", [offset, offset + 2, offset + 5], texts("v1-after-compaction", 3, T0 + 4000))
    offset += 6
    out += wrapper(1, "gzip", range(offset, offset + 5), texts("v1-stamped", 5, T0 + 100), append_time_ms=T0 + 5000)
    offset += 5
    out += envelope(1, offset, LOG_APPEND_TIME, T0 + 5500, b"stamped, and not compressed")
    return {0: out}


def mixed_log() -> dict[int, bytes]:
    """A log as it is after two upgrades of its cluster, in two segments."""
    first = message_set(0, range(4), texts("v0", 4)) + wrapper(0, "snappy", range(4, 10), texts("v0-snappy", 6))
    first += message_set(1, range(10, 14), texts("v1", 4, T0 + 1000))
    first += wrapper(1, "gzip", range(14, 20), texts("v1-gzip", 6, T0 + 1500))
    second = wrapper(1, "lz4", range(20, 26), texts("v1-lz4", 6, T0 + 2000))
    second += batch(0, 26, texts("v2", 5, T0 + 3000)) + batch(1, 31, texts("v2-gzip", 20, T0 + 3500))
    return {0: first, 20: second}


LEGACY = [
    (Case("legacy-v0", "message sets of magic 0, as recovered by Kafka", SETTINGS, write_nothing), v0_log),
    (Case("legacy-v1", "message sets of magic 1, as recovered by Kafka", SETTINGS, write_nothing), v1_log),
    (Case("legacy-mixed", "magic 0, 1 and 2 in one log, as recovered by Kafka", SETTINGS, write_nothing), mixed_log),
]


def plant(broker: Broker, topic: str, segments: dict[int, bytes]) -> None:
    """Replace a killed broker's log of the topic. It has no clean marker, so it will recover what it finds."""
    folder = broker.partition_dir(topic)
    for file in folder.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for base_offset, data in segments.items():
        (folder / f"{base_offset:020d}.log").write_bytes(data)
