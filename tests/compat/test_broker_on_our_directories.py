"""A real Kafka broker takes over directories that our engine wrote, and ours takes them back.

Two topics are made in the broker. One gets a directory that we closed, beside the broker's own marker of a clean
shutdown, so that it must believe our indexes and snapshots. The other gets one that we left as a killed process does,
and the broker is killed too: it recovers both. At the end our engine opens what the broker has made of them.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from support.kafka.dump_view import aborted_in, batch_fields
from support.kafka.log_directories import ODD, write_transactions
from support.logs.log_writer import CONFIG, T0, Marker, Producer, Scribe, Sent, texts

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from golden import wire
    from golden.broker import Broker, Message
    from golden.cases import end_transaction, log_end
    from support.kafka.client import consume, free_port

from tailrace.config.log import MAX_LONG
from tailrace.env.real import RealFiles, real_env
from tailrace.model.ids import TopicId
from tailrace.record.builder import batch_of
from tailrace.record.control import control_of
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import ShallowBatch, batches, check_integrity
from tailrace.storage.fetch import Isolation
from tailrace.storage.loader import LoadOptions, load
from tailrace.storage.partition_metadata import PartitionMetadata
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.verify import verify_directory
from tailrace.storage.warm import WarmSet

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]

CLOSED, KILLED = "closed-by-us", "killed-by-us"
TOPIC_SETTINGS = {
    "internal.segment.bytes": str(CONFIG.segment_bytes),
    "segment.index.bytes": str(CONFIG.segment_index_bytes),
    "index.interval.bytes": str(CONFIG.index_interval_bytes),
    "segment.ms": str(MAX_LONG),
}
FIRST_PRODUCER_ID = 500_000  # above those that the broker gives out
IDEMPOTENT = Producer(600_000)
FILES = RealFiles()


# -- our part --------------------------------------------------------------------------------------------------------


def write(directory: Path, topic_id: TopicId) -> Scribe:
    """Three leader epochs, transactions of every outcome, odd records in every codec, an idempotent producer.

    The broker forgets idempotent producers after a day, so that this one's time must be today's.
    """
    scribe = Scribe(directory, topic_id=topic_id)
    for codec in range(5):
        scribe.send(ODD, codec)
    write_transactions(scribe, epochs=(0, 1, 2), first_producer_id=FIRST_PRODUCER_ID)
    for n in range(4):
        scribe.send(texts(f"idempotent-{n}", 5, now_ms() - 60_000 + n), n, IDEMPOTENT)
    return scribe


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def topic_id_of(broker: Broker, topic: str) -> TopicId:
    found = PartitionMetadata(FILES, str(broker.partition_dir(topic))).read()
    assert found is not None
    return found


def put_in_place(scribe: Scribe, broker: Broker, topic: str) -> None:
    folder = broker.partition_dir(topic)
    shutil.rmtree(folder)
    shutil.copytree(scribe.directory, folder)


def read_all(log: UnifiedLog) -> bytes:
    data = b""
    offset = log.log_start_offset
    while offset < log.log_end_offset and (piece := log.read(offset, 1 << 20).read()):
        data += piece
        offset = list(batches(piece))[-1].next_offset
    return data


# -- the broker's part -----------------------------------------------------------------------------------------------


def check_served(broker: Broker, topic: str, scribe: Scribe) -> None:
    """Offsets, bytes, aborted transactions and records are those we wrote."""
    ours = [Path(file) for file in sorted(scribe.directory.glob("*.log"))]
    stable, aborted = outcome(scribe)
    for file in ours:
        answer = wire.fetch(broker.port, topic, int(file.stem), 1 << 20, read_committed=False)
        wanted = whole_batches(file)
        assert answer.records[: len(wanted)] == wanted
        assert answer.last_stable_offset == stable
        assert answer.high_watermark >= scribe.next_offset
    everything = consume(broker, topic, scribe.next_offset, "read_uncommitted")
    sent = {offset: record for batch in scribe.written for offset, record in batch.records.items()}
    data = {offset: record for offset, record in sent.items() if isinstance(record, Sent)}
    assert {offset: everything[offset] for offset in data} == data
    assert not [offset for offset in everything if offset < scribe.next_offset and offset not in data]
    committed = consume(broker, topic, stable, "read_committed")
    assert committed == {offset: data[offset] for offset in data if offset < stable and offset not in aborted}


def whole_batches(file: Path) -> bytes:
    """Without what a killed writer left behind them."""
    data = file.read_bytes()
    return data[: sum(batch.size for batch in batches(data))]


def outcome(scribe: Scribe) -> tuple[int, set[int]]:
    """The last stable offset, and the offsets that belong to aborted transactions."""
    open_batches: dict[int, list[int]] = {}
    aborted: set[int] = set()
    for batch in scribe.written:
        producer_id = batch.fields.get("producerId", -1)
        for offset, record in batch.records.items():
            if isinstance(record, Marker):
                ended = open_batches.pop(producer_id, [])
                aborted.update(ended if record.kind == "ABORT" else [])
            elif batch.fields.get("isTransactional"):
                open_batches.setdefault(producer_id, []).append(offset)
    return min((offsets[0] for offsets in open_batches.values()), default=scribe.next_offset), aborted


def check_knows_producer(broker: Broker, topic: str, scribe: Scribe) -> None:
    """From our snapshot or from our batches: the last batch sent again is found, a gap refused, the next taken."""
    last = scribe.written[-1]
    assert last.fields["producerId"] == IDEMPOTENT.producer_id
    who = {"producer_id": IDEMPOTENT.producer_id, "producer_epoch": IDEMPOTENT.epoch}
    again = batch_of(last.records.values(), base_sequence=last.fields["baseSequence"], **who)
    assert wire.produce(broker.port, topic, bytes(again)) == last.first
    sequence = scribe.sequences[IDEMPOTENT]
    fresh = texts("from-the-broker", 5, now_ms())
    with pytest.raises(RuntimeError, match="error 45"):  # OUT_OF_ORDER_SEQUENCE_NUMBER
        wire.produce(broker.port, topic, bytes(batch_of(fresh, base_sequence=sequence + 1, **who)))
    assert wire.produce(broker.port, topic, bytes(batch_of(fresh, base_sequence=sequence, **who))) == scribe.next_offset


def write_more(broker: Broker, topic: str, codecs: Iterable[str | None]) -> None:
    """Each codec, and a transaction of each outcome, by kafka-python."""
    messages = [Message(T0 + 90_000 + n, b"k%d" % n, b"written by Kafka " * 5) for n in range(10)]
    for codec in codecs:
        writer = broker.writer(topic, codec)
        writer.batch(messages)
        writer.close()
    writer = broker.writer(topic, transactional_id=topic, enable_idempotence=True)
    for commit in (True, False):
        writer.begin()
        writer.batch(messages)
        end_transaction(broker, topic, writer, commit)
    writer.close()


# -- ours again ------------------------------------------------------------------------------------------------------


class Served(NamedTuple):
    """What the broker served at the end: all records, and read-committed reads from the start of each segment."""

    records: dict[int, Sent]
    reads: dict[int, tuple[bytes, list[tuple[int, int]]]]


def last_served(broker: Broker, topic: str) -> Served:
    reads = {}
    for file in sorted(broker.partition_dir(topic).glob("*.log")):
        answer = wire.fetch(broker.port, topic, int(file.stem), 1 << 20, read_committed=True)
        reads[int(file.stem)] = (answer.records, answer.aborted or [])
    return Served(consume(broker, topic, log_end(broker, topic), "read_uncommitted"), reads)


def check_taken_back(directory: Path, topic_id: TopicId, scribe: Scribe, served: Served, was_clean: bool) -> None:
    """Nothing is missing, every file agrees with every other, and reads say what the broker's did."""
    assert list(verify_directory(FILES, str(directory), notes=True)) == []
    options = LoadOptions(topic_id=topic_id, was_clean=was_clean, producer_expiration_ms=MAX_LONG)
    log = load(real_env(), str(directory), scribe.config, WarmSet(8), options)
    log.update_high_watermark(log.log_end_offset)
    data = read_all(log)
    ours = b"".join(whole_batches(file) for file in sorted(scribe.directory.glob("*.log")))
    assert data.startswith(ours)
    found: dict[int, Record] = {}
    stored: list[ShallowBatch] = list(batches(data))
    for batch in stored:
        check_integrity(data, batch)
        if not batch.is_control:
            found |= {record.offset: record for record in records_of(data, batch)}
    assert {
        offset: Sent(record.timestamp, record.key, record.value, record.headers) for offset, record in found.items()
    } == served.records
    stable, _ = outcome(scribe)
    assert log.last_stable_offset == stable
    assert list(log.aborted_transactions(0, log.log_end_offset)) == aborted_in(printed(data, stored))
    assert {base: committed_read(log, base) for base in served.reads} == served.reads
    log.close()
    assert list(verify_directory(FILES, str(directory), notes=True)) == []


def committed_read(log: UnifiedLog, offset: int) -> tuple[bytes, list[tuple[int, int]]]:
    found = log.read(offset, 1 << 20, Isolation.TXN_COMMITTED)
    return found.read(), [(each.producer_id, each.first_offset) for each in found.aborted or ()]


def printed(data: bytes, stored: list[ShallowBatch]) -> list[dict[str, object]]:
    """The batches as the tool prints them, as far as transactions go."""
    lines = []
    for batch in stored:
        control = control_of(data, batch) if batch.is_control else None
        markers = (
            [{"endTxnMarker": "COMMIT" if control.type else "ABORT", "offset": batch.last_offset}] if control else []
        )
        lines.append({**batch_fields(batch), "records": markers})
    return lines


@pytest.mark.spec("LS-01", "LS-03", "LS-04", "LS-05", "LS-19", "LS-25", "LS-26", "LS-30", "LS-31", "LS-32", "LS-36")
@pytest.mark.spec("RF-01", "RF-04", "RF-06", "RF-12", "RF-19")
def test_a_broker_takes_over_our_directories_and_we_take_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")  # most of the time goes into starting
    with Broker(tmp_path / "kafka", free_port()) as broker:
        for topic in (CLOSED, KILLED):
            broker.create_topic(topic, TOPIC_SETTINGS)
        broker.stop()
        topic_ids = {topic: topic_id_of(broker, topic) for topic in (CLOSED, KILLED)}
        closed = write(tmp_path / f"{CLOSED}-0", topic_ids[CLOSED])
        closed.close()
        put_in_place(closed, broker, CLOSED)

        broker.start()
        check_served(broker, CLOSED, closed)
        check_knows_producer(broker, CLOSED, closed)
        write_more(broker, CLOSED, (None, "gzip", "snappy", "lz4", "zstd"))
        broker.kill()
        check_unchanged(closed, broker.partition_dir(CLOSED))

        killed = write(tmp_path / f"{KILLED}-0", topic_ids[KILLED])
        killed.log.abandon()
        active = max(killed.directory.glob("*.log"))
        active.write_bytes(active.read_bytes() + b"\0\0\0\0\0\0\0\1torn")
        put_in_place(killed, broker, KILLED)

        broker.start()
        check_served(broker, CLOSED, closed)
        check_served(broker, KILLED, killed)
        check_knows_producer(broker, KILLED, killed)
        write_more(broker, KILLED, ("zstd",))
        served = {topic: last_served(broker, topic) for topic in (CLOSED, KILLED)}
        broker.stop()
        check_unchanged(closed, broker.partition_dir(CLOSED))

        for topic, scribe in ((CLOSED, closed), (KILLED, killed)):
            for was_clean in (False, True):
                copy = tmp_path / f"was-clean-{was_clean}" / f"{topic}-0"
                shutil.copytree(broker.partition_dir(topic), copy)
                check_taken_back(copy, topic_ids[topic], scribe, served[topic], was_clean)


def check_unchanged(scribe: Scribe, folder: Path) -> None:
    """Kafka had no reason to make any file of ours anew, and where it did it made the same bytes."""
    active = max(file.stem for file in scribe.directory.glob("*.log"))
    for file in sorted(scribe.directory.iterdir()):
        if file.suffix in (".log", ".index", ".timeindex", ".txnindex") and file.stem < active:
            assert (folder / file.name).read_bytes() == file.read_bytes(), file.name
