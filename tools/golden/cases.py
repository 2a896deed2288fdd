"""What each golden directory holds: the topic's settings and what is written to it.

Timestamps are fixed wherever the producer gives them, so that rolls by time and lookups by time do not depend on the
day on which the files are made. Texts are printable ASCII; a record that is not is noted (`Notes`) as it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition

from golden import legacy, wire
from golden.broker import Broker, Message, Writer, wait_until
from support.kafka.tools import run_tool

T0 = 1_700_000_000_000
HOUR_MS = 3_600_000
CODECS = (None, "gzip", "snappy", "lz4", "zstd")
Notes = list[dict[str, Any]]


class Case(NamedTuple):
    """One topic with one partition. `write` returns notes on the records that the dump cannot show."""

    name: str
    about: str
    settings: Mapping[str, str]
    write: Callable[[Broker, str], Notes]


def texts(prefix: str, count: int, start_ms: int = T0, step_ms: int = 10, size: int = 24) -> list[Message]:
    """Records with key `<prefix>-<n>` and a repetitive value of `size` characters, so that compression pays."""
    return [
        Message(start_ms + n * step_ms, f"{prefix}-{n}".encode(), (f"{prefix}={n} " * size)[:size].encode())
        for n in range(count)
    ]


def note(offset: int, messages: Sequence[Message]) -> Notes:
    """The records as sent, from `offset` on, bytes in hexadecimal."""

    def as_hex(data: bytes | None) -> str | None:
        return None if data is None else data.hex()

    return [
        {
            "offset": offset + n,
            "key": as_hex(message.key),
            "value": as_hex(message.value),
            "headers": [[name, as_hex(value)] for name, value in message.headers],
        }
        for n, message in enumerate(messages)
    ]


def log_end(broker: Broker, topic: str) -> int:
    admin = broker.admin()
    partition = TopicPartition(topic, 0)
    offset = admin.list_partition_offsets({partition: -1})[partition].offset
    admin.close()
    return int(offset)


def end_transaction(broker: Broker, topic: str, writer: Writer, commit: bool) -> None:
    """Returns when the marker is in the log: the coordinator answers the client before it writes it."""
    before = log_end(broker, topic)
    (writer.commit if commit else writer.abort)()
    wait_until(lambda: log_end(broker, topic) > before, f"the transaction marker in {topic}")


# -- the cases -------------------------------------------------------------------------------------------------------


def write_nothing(broker: Broker, topic: str) -> Notes:
    return []


ODD = [
    Message(T0 + 1, None, b"null key"),
    Message(T0 + 2, b"null value", None),
    Message(T0 + 4, b"", b""),
    Message(T0 + 5, b"one header", b"v" * 60, (("h", b"1"),)),
    Message(T0 + 6, b"three headers", b"w" * 60, (("a", b"1"), ("a", b"2"), ("empty", b""))),
    Message(T0 + 7, b"plain", b"x" * 120),
]
ODDER = [  # what kafka-python's producer refuses to send
    *ODD,
    Message(T0 + 3, None, None),
    Message(T0 + 8, b"null header", b"y" * 60, (("null", None), ("", b"no name"))),
    # All byte values but the line feed, which the dump could not show.
    Message(T0 + 9, bytes(range(11, 256)), bytes(range(10)) * 20, (("binary", bytes(range(16))),)),
]


def later(messages: Sequence[Message], by_ms: int) -> list[Message]:
    return [message._replace(timestamp_ms=message.timestamp_ms + by_ms) for message in messages]


def write_codecs(broker: Broker, topic: str) -> Notes:
    notes: Notes = []
    for n, codec in enumerate(CODECS):  # compressed by kafka-python
        writer = broker.writer(topic, codec)
        odd = later(ODD, n * HOUR_MS // 2)
        notes += note(writer.batch(odd), odd)
        writer.batch(texts(f"{codec}", 30, T0 + n * HOUR_MS // 2 + 20, size=60))
        writer.close()
    for n, codec in enumerate(("gzip", "snappy", "lz4", "zstd", "uncompressed")):  # by the broker, in Java
        broker.alter_topic(topic, compression_type=codec)
        at_ms = 3 * HOUR_MS + n * HOUR_MS // 2
        odder = later(ODDER, at_ms)
        notes += note(wire.produce(broker.port, topic, legacy.batch(0, 0, odder)), odder)
        # More than one block of Snappy (32 KiB) and of LZ4 (64 KiB).
        blocks = texts(f"broker-{codec}", 3, T0 + at_ms + 20, size=30_000 if codec != "uncompressed" else 300)
        wire.produce(broker.port, topic, legacy.batch(0, 0, blocks))
    broker.alter_topic(topic, compression_type="producer")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):  # by Kafka's own Java client, stamped with today's time
        lines = [f"h:{n},null:NULL\tconsole-{codec}-{n}\t" + f"value {n} of {codec} " * 4 for n in range(8)]
        lines += ["NULL\tNULL\tneither headers nor key", "NULL\ttombstone\tNULL"]
        properties = ("parse.key=true", "parse.headers=true", "null.marker=NULL")
        run_tool(
            "org.apache.kafka.tools.ConsoleProducer",
            *("--bootstrap-server", broker.address, "--topic", topic, "--compression-codec", codec),
            *(part for each in properties for part in ("--reader-property", each)),
            stdin="\n".join(lines) + "\n",
        )
    return notes


def write_segments(broker: Broker, topic: str) -> Notes:
    """Rolls for each reason: a full index, the size, the time. Timestamps go up and down within and between batches."""
    writer = broker.writer(topic)
    for n in range(24):
        writer.batch(texts(f"small-{n}", 1 + n % 3, T0 + (n * 7919) % 10_000, step_ms=-3))
    for n in range(8):
        writer.batch(texts(f"large-{n}", 10, T0 + 10_000 + n * 100, step_ms=7, size=100))
    for n in range(6):
        writer.batch(texts(f"hourly-{n}", 2, T0 + n * (HOUR_MS // 2 + 1)))
    writer.batch(texts("old", 3, T0 - 50_000))
    writer.close()
    broker.delete_records(topic, 17)
    return []


def write_transactions(broker: Broker, topic: str) -> Notes:
    a, b, c = (broker.writer(topic, transactional_id=f"{topic}-{name}", enable_idempotence=True) for name in "abc")
    plain, idempotent = broker.writer(topic), broker.writer(topic, "gzip", enable_idempotence=True)

    def end(writer: Writer, commit: bool) -> None:
        end_transaction(broker, topic, writer, commit)

    a.begin()
    a.batch(texts("a-committed", 3, T0))
    b.begin()
    b.batch(texts("b-aborted", 4, T0 + 100))
    plain.batch(texts("plain", 3, T0 + 200))
    end(a, commit=True)
    c.begin()
    c.batch(texts("c-aborted", 2, T0 + 300))
    for n in range(3):  # both open transactions now reach over several segments
        b.batch(texts(f"b-aborted-{n}", 5, T0 + 400 + 100 * n, size=60))
        idempotent.batch(texts(f"idempotent-{n}", 20, T0 + 450 + 100 * n, size=60))
    end(b, commit=False)
    a.begin()
    a.batch(texts("a-aborted", 3, T0 + 800))
    end(a, commit=False)
    for n in range(3):
        plain.batch(texts(f"between-{n}", 10, T0 + 900 + 100 * n, size=60))
    c.batch(texts("c-aborted-late", 2, T0 + 1300))
    end(c, commit=False)
    b.begin()
    b.batch(texts("b-committed", 6, T0 + 1400))
    end(b, commit=True)
    c.begin()
    c.batch(texts("c-open", 4, T0 + 1500))
    plain.batch(texts("after-open", 5, T0 + 1600))
    a.begin()
    a.batch(texts("a-aborted-beyond-open", 2, T0 + 1700))
    end(a, commit=False)
    b.begin()
    b.batch(texts("b-open", 2, T0 + 1800))
    for writer in (a, plain, idempotent):
        writer.close()
    for writer in (b, c):
        writer.abandon()
    return []


def write_copied(broker: Broker, topic: str) -> Notes:
    """Kafka's Java client under transaction version 2, in which each transaction has an epoch of its own."""
    run_tool(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", broker.address, "--transactional-id", topic, "--consumer-group", topic),
        *("--input-topic", "idempotent", "--input-partition", "0", "--output-topic", topic),
        *("--transaction-size", "12", "--max-messages", "60", "--enable-random-aborts"),
    )
    return []


def write_idempotent(broker: Broker, topic: str) -> Notes:
    writers = [broker.writer(topic, codec, enable_idempotence=True) for codec in (None, "lz4", "zstd")]
    for n in range(21):
        writers[n % 3].batch(texts(f"producer-{n % 3}-{n}", 1 + n % 4, T0 + n * 50, size=60))
    for writer in writers:
        writer.close()
    raw = [  # id, epoch, base sequence, count: sequences that wrap, and a new epoch that begins at 0
        (9001, 0, 2_147_483_640, 5),
        (9001, 0, 2_147_483_645, 6),
        (9001, 0, 3, 2),
        (9002, 4, 0, 3),
        (9002, 5, 0, 2),
    ]
    for n, (producer_id, epoch, sequence, count) in enumerate(raw):
        made = legacy.batch(0, 0, texts(f"raw-{n}", count, T0 + 2000 + n * 50), (producer_id, epoch, sequence))
        wire.produce(broker.port, topic, made)
    return []


def write_epoch(broker: Broker, topic: str) -> Notes:
    start = log_end(broker, topic)
    writer = broker.writer(topic)
    for n in range(3):
        writer.batch(texts(f"from-{start}-{n}", 2 + n, T0 + start * 1000 + n * 100, size=40))
    writer.close()
    return []


def write_append_time(broker: Broker, topic: str) -> Notes:
    for n, codec in enumerate((None, "gzip", "lz4")):
        writer = broker.writer(topic, codec)
        writer.batch(texts(f"stamped-{codec}", 12, T0 + n * 1000, size=60))
        writer.close()
    broker.alter_topic(topic, message_timestamp_type="CreateTime")
    writer = broker.writer(topic, "snappy")
    writer.batch(texts("created", 12, T0 + 4000, size=60))
    writer.close()
    broker.alter_topic(topic, message_timestamp_type="LogAppendTime")
    writer = broker.writer(topic, "zstd")
    writer.batch(texts("stamped-again", 12, T0 + 5000, size=60))
    writer.close()
    return []


def keyed(prefix: str, keys: Sequence[int], start_ms: int, tombstones: Sequence[int] = ()) -> list[Message]:
    return [
        Message(
            start_ms + n * 10, f"key-{key}".encode(), None if key in tombstones else f"{prefix} {key} ".encode() * 3
        )
        for n, key in enumerate(keys)
    ]


def write_compacted(broker: Broker, topic: str) -> Notes:
    """Written whole before the cleaner may begin, cleaned, and twice more written to and cleaned again.

    A marker gets its horizon in the first cleaning that finds its transaction gone, and can go in the next.
    """
    transactional = broker.writer(topic, transactional_id=topic, enable_idempotence=True)
    idempotent = broker.writer(topic, "lz4", enable_idempotence=True)
    plain = {codec: broker.writer(topic, codec) for codec in CODECS}
    for n, codec in enumerate((*CODECS, *CODECS)):
        plain[codec].batch(keyed(f"{codec}-{n}", [(n * 5 + i * 3) % 24 for i in range(8)], T0 + n * 100))
    idempotent.batch(keyed("superseded-whole", [1, 2, 3], T0 + 1000))
    for commit, keys in ((True, [4, 30]), (False, [5, 31]), (True, [6])):
        transactional.begin()
        transactional.batch(keyed("committed" if commit else "aborted", keys, T0 + 1100))
        end_transaction(broker, topic, transactional, commit)
    plain[None].batch(keyed("tombstones", [7, 8, 9, 32], T0 + 1200, tombstones=[7, 9]))
    plain["zstd"].batch(keyed("tombstones", [10, 33, 11], T0 + 1250, tombstones=[10, 11]))
    plain["gzip"].batch(keyed("latest", [1, 2, 3, 6], T0 + 1300))
    clean(broker, topic, plain[None], T0 + 1400)
    plain["lz4"].batch(keyed("second-round", [0, 4, 12, 13, 30, 33], T0 + 1600))
    clean(broker, topic, plain[None], T0 + 1700)
    plain["snappy"].batch(keyed("third-round", [12, 14, 33, 34], T0 + 1800))
    clean(broker, topic, plain[None], T0 + 1900)
    for writer in (transactional, idempotent, *plain.values()):
        writer.close()
    return []


def clean(broker: Broker, topic: str, writer: Writer, start_ms: int) -> None:
    """Roll, so that everything before is cleanable, let the cleaner work, and hold it again."""
    for n in range(2):  # each fills a segment of its own
        writer.batch([Message(start_ms + n, f"filler-{n}".encode(), b"filler " * 350)])
    active_base = max(int(file.stem) for file in broker.partition_dir(topic).glob("*.log"))
    broker.alter_topic(topic, min_cleanable_dirty_ratio="0.01")
    broker.wait_for_cleaner(topic, active_base)
    broker.alter_topic(topic, min_cleanable_dirty_ratio="1.0")


SMALL_INDEX = {"index.interval.bytes": "200", "segment.index.bytes": "240", "segment.ms": str(7 * 24 * HOUR_MS)}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1.0",
    "internal.segment.bytes": "3000",
    **SMALL_INDEX,
}

EPOCHS = Case("epochs", "written between restarts of the broker: several leader epochs", SMALL_INDEX, write_epoch)

CLEAN = [
    Case("empty", "a topic to which nothing was written", SMALL_INDEX, write_nothing),
    Case(
        "codecs",
        "every codec, compressed by kafka-python, by the broker and by the Java client; odd records and headers",
        {**SMALL_INDEX, "segment.ms": str(HOUR_MS)},
        write_codecs,
    ),
    Case(
        "segments",
        "rolls by full index, size and time; timestamps out of order; the log start moved by DeleteRecords",
        {"index.interval.bytes": "50", "segment.index.bytes": "120", "internal.segment.bytes": "4096"}
        | {"segment.ms": str(HOUR_MS)},
        write_segments,
    ),
    Case(
        "transactions",
        "committed, aborted and open transactions of three producers over several segments",
        {**SMALL_INDEX, "internal.segment.bytes": "2000"},
        write_transactions,
    ),
    Case(
        "idempotent",
        "idempotent producers, sequences that wrap, a new producer epoch, a snapshot for each segment",
        {**SMALL_INDEX, "internal.segment.bytes": "1500"},
        write_idempotent,
    ),
    Case(
        "transactions-v2",
        "transactions of the Java client, the producer epoch raised by each of them",
        {**SMALL_INDEX, "internal.segment.bytes": "2500"},
        write_copied,
    ),
    Case(
        "append-time",
        "LogAppendTime, with a stretch of CreateTime in between",
        {**SMALL_INDEX, "message.timestamp.type": "LogAppendTime"},
        write_append_time,
    ),
    Case(
        "compacted",
        "cleaned three times by Kafka's cleaner, tombstones and markers kept a day",
        COMPACTED,
        write_compacted,
    ),
    Case(
        "compacted-expired",
        "the same with tombstones and markers given up at once",
        {**COMPACTED, "delete.retention.ms": "0"},
        write_compacted,
    ),
]

KILLED = [
    Case("killed-empty", "a topic to which nothing was written; the broker was killed", SMALL_INDEX, write_nothing),
    Case(
        "killed-segments",
        "the broker was killed with an active segment: index files have their full length",
        {**SMALL_INDEX, "internal.segment.bytes": "3000"},
        write_idempotent,
    ),
    Case(
        "killed-transactions",
        "the broker was killed with transactions open",
        {**SMALL_INDEX, "internal.segment.bytes": "2000"},
        write_transactions,
    ),
]
