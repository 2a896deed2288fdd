"""Partition directories that our engine writes for Kafka to judge: `DIRECTORIES` are functions that write one each.

They return the open log's `Scribe`, which knows what was put in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from support.logs.log_writer import CODECS, CONFIG, HOUR_MS, T0, Producer, Scribe, Sent, texts
from tailrace.record.builder import batch_of, empty_batch
from tailrace.record.filter import filter_batch
from tailrace.record.legacy import compressed_wrapper, plain_message
from tailrace.record.reader import Record
from tailrace.record.shallow import batches

ODD = [
    Sent(T0, b"plain", b"value"),
    Sent(T0 - 5, None, b"null key"),
    Sent(T0 + 700, b"null value", None),
    Sent(T0 + 1, None, None),
    Sent(T0 + 2, b"", b""),
    Sent(T0 + 3, b"headers", b"x" * 200, (("a", b"1"), ("b", None), ("a", b""), ("", b"no name"))),
    Sent(T0 + 4, "ключ".encode(), "値\nover two lines".encode(), (("é", b"\x00\xff"),)),
    Sent(T0 + 5, bytes(range(128, 256)), bytes(range(11, 256)), (("binary", bytes(range(16))),)),
]


# -- the directories -------------------------------------------------------------------------------------------------


def empty(directory: Path) -> Scribe:
    return Scribe(directory)


def codecs(directory: Path) -> Scribe:
    """Every codec, in small batches and in large ones of several blocks; index entries by Kafka's default interval."""
    scribe = Scribe(directory, replace(CONFIG, segment_bytes=150_000, index_interval_bytes=4096))
    for codec in range(5):
        scribe.send(later(ODD, codec * 1000), codec)
        long = [
            Sent(T0 + codec * 1000 + n, b"%d" % n, b"".join(b"%d," % (n * i * 7919 % 100_003) for i in range(2500)))
            for n in range(6)
        ]
        scribe.send(long, codec)
        for n in range(8):
            scribe.send(texts(f"{CODECS[codec]}-{n}", 20, T0 + codec * 1000 + n * 50, size=60), codec)
    return scribe


def later(records: Sequence[Sent], by_ms: int) -> list[Sent]:
    return [record._replace(timestamp=record.timestamp + by_ms) for record in records]


def recompressed(directory: Path) -> Scribe:
    """The leader's own codec, whatever the producer's."""
    scribe = Scribe(directory)
    for turn, name in enumerate((*CODECS[1:], "uncompressed")):
        scribe.use(compression_type=name)
        for codec in range(5):
            sent = later(ODD, turn * 1000 + codec * 100)
            stored = "none" if name == "uncompressed" else name
            scribe.send_set(batch_of(sent, codec=codec), sent, compresscodec=stored)
    return scribe


def append_time(directory: Path) -> Scribe:
    """Stamped by the leader, with a stretch of the producers' own times in between."""
    scribe = Scribe(directory, replace(CONFIG, message_timestamp_type="LogAppendTime"))
    for kind in ("LogAppendTime", "CreateTime", "LogAppendTime"):
        scribe.use(message_timestamp_type=kind)
        for codec in range(5):
            scribe.send(ODD, codec)
            scribe.clock.advance(250)
    return scribe


def converted(directory: Path) -> Scribe:
    """Message sets of old producers, which the leader makes into batches of magic 2."""
    scribe = Scribe(directory)
    plain = [record._replace(headers=()) for record in ODD]
    for magic in (0, 1):
        sent = [record._replace(timestamp=-1) for record in plain] if magic == 0 else plain
        numbered = [(n, *record[:3]) for n, record in enumerate(plain)]
        scribe.send_set(b"".join(plain_message(*message, magic=magic) for message in numbered), sent)
        for codec in range(1, 3 + magic):
            wrapped = compressed_wrapper(numbered, magic=magic, codec=codec)
            scribe.send_set(wrapped, sent, compresscodec=CODECS[codec])
    return scribe


def segments(directory: Path) -> Scribe:
    """Rolls by size, by a full index and by time; timestamps up and down, within batches and between them."""
    scribe = Scribe(directory, replace(CONFIG, segment_index_bytes=40, index_interval_bytes=60, segment_ms=HOUR_MS))
    for n in range(40):
        scribe.send(texts(f"small-{n}", 1 + n % 3, T0 + n * 7919 % 10_000, step_ms=-3))
    scribe.use(segment_index_bytes=960)
    for n in range(12):
        scribe.send(texts(f"large-{n}", 10, T0 + 10_000 + n * 100, step_ms=7, size=80), codec=n % 5)
    for n in range(6):
        scribe.send(texts(f"hourly-{n}", 2, T0 + n * (HOUR_MS // 2 + 1)))
    return scribe


def idempotent(directory: Path) -> Scribe:
    """Several producers, sequences that wrap, a new epoch of a producer; over many segments."""
    scribe = Scribe(directory, replace(CONFIG, segment_bytes=1200))
    wrapping = Producer(77)
    scribe.sequences[wrapping] = 2**31 - 7
    for n in range(30):
        producer = (Producer(5), wrapping, Producer(2**40, 3), Producer(2**40 + 1, 4 + n // 15))[n % 4]
        scribe.send(texts(f"{producer.producer_id}-{n}", 1 + n % 4, T0 + n * 50), n % 5, producer)
    return scribe


def transactions(directory: Path) -> Scribe:
    """Committed, aborted and open ones of four producers over several segments and leader epochs."""
    scribe = Scribe(directory, replace(CONFIG, segment_bytes=1500))
    write_transactions(scribe)
    return scribe


def write_transactions(scribe: Scribe, epochs: Sequence[int] = (0, 2, 5), first_producer_id: int = 1000) -> None:
    a, b, c, d = (Producer(first_producer_id + n, n) for n in range(4))

    def fill(name: str, count: int) -> None:
        for n in range(count):
            scribe.send(texts(f"{name}-{n}", 8, T0 + scribe.next_offset, size=60), n % 5)

    def batch(producer: Producer, name: str, count: int = 3) -> None:
        scribe.send(texts(name, count, T0 + scribe.next_offset), producer.epoch, producer, transactional=True)

    scribe.epoch = epochs[0]
    batch(a, "a-committed")
    batch(b, "b-aborted")
    fill("plain", 3)
    scribe.end(a, commit=True)
    batch(c, "c-aborted")
    for n in range(3):  # two open transactions reach over several segments
        batch(b, f"b-aborted-{n}", 6)
        fill(f"between-{n}", 2)
    scribe.end(b, commit=False)
    scribe.epoch, scribe.coordinator_epoch = epochs[1], 3
    batch(a, "a-aborted")
    scribe.end(a, commit=False)
    fill("more", 4)
    batch(c, "c-aborted-late")
    scribe.end(c, commit=False)
    scribe.end(c, commit=False)  # again, for a transaction that is not there any more: a marker, but no abort
    batch(b, "b-committed", 6)
    scribe.end(b, commit=True)
    batch(c, "c-open")
    scribe.epoch = epochs[2]
    fill("after-open", 4)
    batch(a, "a-aborted-beyond-open", 2)
    scribe.end(a, commit=False)
    batch(d, "d-open", 2)
    fill("last", 2)


def truncated(directory: Path) -> Scribe:
    """Cut twice, in an old segment and within the newest, and written on by later leaders."""
    scribe = transactions(directory)
    within = scribe.written[len(scribe.written) // 2]
    scribe.truncate(within.first + 1)  # in the middle of a batch, which goes as a whole
    scribe.sequences.clear()
    scribe.epoch = 7
    scribe.send(texts("after-cut", 4, T0 + 5000))
    scribe.send(texts("to-be-cut", 4, T0 + 9000))
    scribe.truncate(scribe.written[-1].first)
    scribe.epoch = 8
    new = Producer(2000)
    for n in range(6):
        scribe.send(texts(f"new-leader-{n}", 6, T0 + 6000 + n), n % 5, new, transactional=True)
        if n % 2:
            scribe.end(new, commit=False)
    return scribe


def restarted(directory: Path) -> Scribe:
    """Closed and opened again between a few batches each."""
    scribe = Scribe(directory)
    for run in range(5):
        scribe.epoch = run
        for n in range(5):
            scribe.send(texts(f"run-{run}-{n}", 6, T0 + run * 100 + n), n, Producer(9))
        scribe.reopen()
    return scribe


def killed(directory: Path) -> Scribe:
    """Killed while a batch was being written; recovered from the first byte, and written on."""
    scribe = transactions(directory)
    active = max(directory.glob("*.log"))
    whole = active.read_bytes()
    active.write_bytes(whole + whole[:70])
    scribe.kill()
    scribe.epoch = 9
    scribe.send(texts("after-recovery", 5, T0 + 7000))
    scribe.end(Producer(1003, 3), commit=False)
    return scribe


def killed_with_garbage(directory: Path) -> Scribe:
    """Killed with its newest segment grown by zeros, and recovered from a recovery point within the log."""
    scribe = transactions(directory)
    active = max(directory.glob("*.log"))
    active.write_bytes(active.read_bytes() + bytes(5000))
    scribe.kill(recovery_point=scribe.written[-12].first)
    scribe.epoch = 9
    scribe.send(texts("after-recovery", 5, T0 + 7000), 4)
    return scribe


def killed_without_indexes(directory: Path) -> Scribe:
    """Its disposable files are gone after the kill."""
    scribe = transactions(directory)
    scribe.log.abandon()
    for file in directory.iterdir():
        if file.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            file.unlink()
    scribe.open()
    scribe.was_interrupted = True
    return scribe


def follower(directory: Path) -> Scribe:
    """Whatever a leader may have: old message sets, batches with gaps between and within, filtered and empty ones."""
    scribe = Scribe(directory)
    plain = [record._replace(headers=()) for record in ODD]
    for magic in (0, 1):
        follow_messages(scribe, magic, plain)
    follow_filtered(scribe)
    for n in range(10):  # offsets missing between batches
        base = scribe.next_offset + n * 10
        sent = texts(f"after-gap-{n}", 3, T0 + 20_000 + n)
        batch = batch_of(sent, base_offset=base, leader_epoch=4 + n // 4, codec=n % 5)
        scribe.follow(batch, dict(enumerate(sent, base)), partitionLeaderEpoch=4 + n // 4)
    return scribe


def follow_messages(scribe: Scribe, magic: int, records: Sequence[Sent]) -> None:
    """Plain messages, a wrapper of each codec, one wrapper with offsets missing, one stamped by its broker."""

    def stored(timestamp: int, record: Sent) -> Sent:
        return record._replace(timestamp=timestamp if magic else -1)

    start_ms = T0 + magic * 3000
    for n, record in enumerate(records):
        offset = scribe.next_offset
        message = plain_message(offset, start_ms + n, record.key, record.value, magic=magic)
        scribe.follow(message, {offset: stored(start_ms + n, record)}, magic=magic)
    for turn, codec in enumerate([*range(1, 3 + magic), 1]):
        step = 3 if turn == 2 + magic else 1
        base, at_ms = scribe.next_offset, start_ms + 100 * (turn + 1)
        inner = [(base + step * n, at_ms - n, record.key, record.value) for n, record in enumerate(records)]
        kept = {offset: stored(stamp, Sent(stamp, key, value)) for offset, stamp, key, value in inner}
        wrapper = compressed_wrapper(inner, magic=magic, codec=codec)
        scribe.follow(wrapper, kept, magic=magic, compresscodec=CODECS[codec])
    if magic:
        base = scribe.next_offset
        inner = [(base + n, start_ms, record.key, record.value) for n, record in enumerate(records)]
        stamped = {"timestamp_type": 1, "log_append_time_ms": start_ms + 900}
        wrapper = compressed_wrapper(inner, magic=1, codec=3, **stamped)
        kept = {base + n: record._replace(timestamp=start_ms + 900) for n, record in enumerate(records)}
        scribe.follow(wrapper, kept, magic=1, timestampType="LogAppendTime")


def follow_filtered(scribe: Scribe) -> None:
    """Batches that lost their first, middle, last and all records, with and without a horizon.

    Timestamps fall from turn to turn, so that the time index has none of a batch without records: what no record says
    any more the tool takes for a mismatch, in directories of Kafka's cleaner too.
    """
    keeps: Sequence[Callable[[int], bool]] = (lambda n: n > 2, lambda n: n in (0, 6), lambda n: n < 3, lambda n: False)
    for turn, keep in enumerate(keeps):
        for codec in range(5):
            base = scribe.next_offset
            sent = later(ODD, 10_000 + 100 * codec - 1000 * turn)
            who = {"producer_id": 5, "producer_epoch": 0, "base_sequence": scribe.sequences.get(Producer(5), 0)}
            scribe.sequences[Producer(5)] = who["base_sequence"] + len(sent)
            whole = batch_of(sent, base_offset=base, codec=codec, leader_epoch=3, **who)

            def is_kept(record: Record, keep: Callable[[int], bool] = keep, base: int = base) -> bool:
                return keep(record.offset - base)

            (batch,) = batches(whole)
            horizon_ms = T0 + 86_400_000 if turn == 1 else None
            left = filter_batch(whole, batch, is_kept, keep_empty=True, delete_horizon_ms=horizon_ms)
            assert left is not None
            kept = {base + n: record for n, record in enumerate(sent) if keep(n)}
            fields = {"baseOffset": base, "baseSequence": who["base_sequence"], "deleteHorizonMs": horizon_ms}
            fields |= {"lastSequence": who["base_sequence"] + len(sent) - 1, "count": len(kept)}
            if not kept:
                fields["maxTimestamp"] = max(record.timestamp for record in sent)
            scribe.follow(left, kept, base + len(sent) - 1, **fields)
    base = scribe.next_offset
    scribe.follow(empty_batch(base, base + 9, max_timestamp=T0), {}, base + 9, baseOffset=base, count=0)


def far_offsets(directory: Path) -> Scribe:
    """Offsets beyond 32 bits, and a segment that ends since the next offset is too far from its base."""
    scribe = Scribe(directory)
    scribe.restart_at(5_000_000_000)
    for n in range(3):
        base = scribe.next_offset + n * 1_000_000_000
        sent = texts(f"far-{n}", 30, T0 + n)
        batch = batch_of(sent, base_offset=base, leader_epoch=0)
        scribe.follow(batch, dict(enumerate(sent, base)), partitionLeaderEpoch=0)
    return scribe


def emptied(directory: Path) -> Scribe:
    """Written to, emptied, and left at a later offset."""
    scribe = transactions(directory)
    scribe.restart_at(4711)
    return scribe


def preallocated(directory: Path) -> Scribe:
    """Files of full length while they are written, cut when they are closed."""
    scribe = Scribe(directory, replace(CONFIG, preallocate=True))
    write_transactions(scribe)
    return scribe


DIRECTORIES: dict[str, Callable[[Path], Scribe]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        empty,
        codecs,
        recompressed,
        append_time,
        converted,
        segments,
        idempotent,
        transactions,
        truncated,
        restarted,
        killed,
        killed_with_garbage,
        killed_without_indexes,
        follower,
        far_offsets,
        emptied,
        preallocated,
    )
}
