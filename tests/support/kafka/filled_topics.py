"""Compacted topics that a real broker fills, for our cleaner and Kafka's to clean.

`TOPICS` are their settings and what is written to each. Segments hold 1,500 bytes. What a topic's active segment holds
at the end is cleaned in later rounds: `round_batch` is one batch that fills a segment, so that whatever was written
before becomes cleanable all at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from golden.broker import Broker, Message, Writer
from golden.cases import CODECS, HOUR_MS, T0, end_transaction, keyed
from support.kafka.tools import run_tool
from tailrace.record.builder import batch_of

SEGMENT_BYTES = 1500
SETTINGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "segment.index.bytes": "960",
    "index.interval.bytes": "200",
    "segment.ms": str(2**63 - 1),
}
LARGE_SEGMENTS = {"internal.segment.bytes": "40000", "segment.ms": str(2**63 - 1)}
KEYS_PER_PASS = 70


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def transactional(broker: Broker, topic: str, name: str, codec: str | None = None) -> Writer:
    return broker.writer(
        topic, codec, transactional_id=f"{topic}-{name}", enable_idempotence=True, transaction_timeout_ms=HOUR_MS
    )


def spread(turn: int, count: int = 8, of: int = 24) -> list[int]:
    return [(turn * 7 + n * 3) % of for n in range(count)]


def write_mixed(broker: Broker, topic: str) -> None:
    """Every codec, tombstones, transactions of both ends, producers that leave nothing but their last sequence."""
    start_ms = now_ms() - HOUR_MS
    plain = {codec: broker.writer(topic, codec) for codec in CODECS}
    fleeting = broker.writer(topic, "lz4", enable_idempotence=True)
    forgotten = broker.writer(topic, enable_idempotence=True)
    a, b = transactional(broker, topic, "a"), transactional(broker, topic, "b", "gzip")

    def turns(first: int, last: int, tombstones: Sequence[int] = ()) -> None:
        for turn in range(first, last):
            records = keyed(f"turn-{turn}", spread(turn), start_ms + turn * 100, tombstones)
            plain[CODECS[turn % len(CODECS)]].batch(records)

    for n, codec in enumerate(CODECS):
        records = [50 + n * 3, 1, 2, 51 + n * 3, 3, 4, 52 + n * 3, 5]
        plain[codec].batch(keyed("lasting", records, start_ms, tombstones=[52 + n * 3]))
    turns(0, 5)
    fleeting.batch(keyed("fleeting", [30, 31], start_ms))
    forgotten.batch(keyed("forgotten", [32, 33], T0))
    a.begin()
    a.batch(keyed("committed", [1, 2, 34], start_ms + 550))
    b.begin()
    b.batch(keyed("aborted", [3, 34, 35], start_ms + 560))
    turns(5, 10)
    end_transaction(broker, topic, a, commit=True)
    b.batch(keyed("aborted", [36, 4], start_ms + 1050, tombstones=[4]))
    end_transaction(broker, topic, b, commit=False)
    for commit in (True, False, True):
        a.begin()
        a.batch(keyed(f"commit-{commit}", [37, 38], start_ms + 1060))
        end_transaction(broker, topic, a, commit)
    turns(10, 14, tombstones=[5, 8, 11])
    plain["zstd"].batch(keyed("tombstones", [40, 41, 34], start_ms + 1500, tombstones=[40, 41, 34]))
    plain[None].batch(keyed("tombstones", [42, 43], start_ms + 1510, tombstones=[42]))
    plain["snappy"].batch(keyed("supersedes", [30, 31, 32, 33, 37, 38, 41], start_ms + 1520))
    b.begin()
    b.batch(keyed("aborted", [43, 44], start_ms + 1530))
    end_transaction(broker, topic, b, commit=False)
    turns(15, 19)
    for writer in (a, b, fleeting, forgotten, *plain.values()):
        writer.close()


def write_many_keys(broker: Broker, topic: str) -> None:
    """More keys than the cleaners' maps hold: several passes, each of which ends in the middle of a batch."""
    writers = [broker.writer(topic, codec) for codec in (None, "lz4")]
    for turn in range(40):
        keys = [turn * 5 + n if n % 2 else n for n in range(10)]
        writers[turn % 2].batch(keyed(f"turn-{turn}", keys, T0 + turn * 100, tombstones=[turn * 5 + 3]))
    for writer in writers:
        writer.close()


def write_open(broker: Broker, topic: str) -> None:
    """A transaction that stays open: nothing from its segment on can be cleaned."""
    plain, held = broker.writer(topic), transactional(broker, topic, "held")
    ended = transactional(broker, topic, "ended")
    for turn in range(24):
        plain.batch(keyed(f"turn-{turn}", spread(turn), now_ms()))
        if turn == 12:
            held.begin()
            held.batch(keyed("open", [1, 2], now_ms()))
        if turn in (5, 15):
            ended.begin()
            ended.batch(keyed("aborted", [3, 40 + turn], now_ms()))
            end_transaction(broker, topic, ended, commit=False)
    plain.close()
    ended.close()
    held.abandon()


def write_young(broker: Broker, topic: str) -> None:
    """Old segments, and some that are too young to be cleaned."""
    plain = broker.writer(topic, "gzip")
    for turn in range(40):
        plain.batch(keyed(f"turn-{turn}", spread(turn), T0 + turn * 100 if turn < 25 else now_ms()))
    plain.close()


def write_copied(broker: Broker, topic: str) -> None:
    """By Kafka's own client, whose every transaction has a producer epoch of its own."""
    run_tool(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", broker.address, "--transactional-id", topic, "--consumer-group", topic),
        *("--input-topic", "mixed", "--input-partition", "0", "--output-topic", topic),
        *("--transaction-size", "8", "--max-messages", "120", "--enable-random-aborts"),
    )


def write_large(broker: Broker, topic: str) -> None:
    writers = [broker.writer(topic, codec, enable_idempotence=True) for codec in (None, "lz4", "gzip")]
    for turn in range(90):
        keys = [turn * 10 + n if n % 3 else (turn * 7 + n * 3) % 500 for n in range(60)]
        writers[turn % 3].batch(keyed(f"turn-{turn}", keys, T0 + turn * 100))
    for writer in writers:
        writer.close()


class Topic(NamedTuple):
    settings: Mapping[str, str]
    write: Callable[[Broker, str], None]


DAY_MS = 24 * HOUR_MS
TOPICS = {
    "mixed": Topic(SETTINGS, write_mixed),
    "expiring": Topic({**SETTINGS, "delete.retention.ms": "0"}, write_mixed),
    "many-keys": Topic({**SETTINGS, "delete.retention.ms": "0"}, write_many_keys),
    "open": Topic(SETTINGS, write_open),
    "young": Topic({**SETTINGS, "min.compaction.lag.ms": str(DAY_MS)}, write_young),
    "copied": Topic({**SETTINGS, "delete.retention.ms": "0"}, write_copied),
}
LARGE = "large"
CONTROL = "control"
OTHERS = {
    # Large enough for Kafka's default of an index entry for 4,096 bytes to mean something; its own cleaner leaves it.
    LARGE: Topic({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"} | LARGE_SEGMENTS, write_large),
    # Its files are to be damaged: a judge must be able to find fault.
    CONTROL: Topic({**SETTINGS, "min.cleanable.dirty.ratio": "1"}, write_mixed),
}
COMPACTED = (*TOPICS, LARGE)
HELD_BACK = ("open", "young")  # of which no more can be cleaned in later rounds


def fill(broker: Broker) -> None:
    for name, topic in {**TOPICS, **OTHERS}.items():
        broker.create_topic(name, topic.settings)
        topic.write(broker, name)


def round_batch(number: int) -> bytes:
    """One batch, the same whoever appends it; it does not fit behind anything in a segment."""
    keys = range(20) if number == 0 else range(number, 46)
    records = [
        Message(T0 + number, f"key-{key}".encode(), None if key % 5 == number else b"round %d" % number) for key in keys
    ]
    filler = Message(T0 + number, b"filler", b"")
    size = len(batch_of([*records, filler]))
    records.append(filler._replace(value=b"x" * (SEGMENT_BYTES - size - 20)))
    return bytes(batch_of(records))
