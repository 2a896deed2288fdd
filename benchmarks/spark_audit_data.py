"""Topics for an audit: records of 1 KB in batches of 16 KB, plain and compressed, by an idempotent producer.

Values are words of a small language, so that they are compressed about as well as JSON is. Some hundred batches are
built for each codec; a topic is made of copies of them, each with times of its own. A table is a topic in which no key
comes twice, all of it below the cleaner's point.

`enlarge` makes a log directory many times as large without a byte more on disk: further partitions, whose files are
links to those of the first.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from struct import Struct

from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.model.ids import TopicPartition
from tailrace.record.builder import BatchBuilder
from tailrace.testing.broker import Broker

CODECS = {"none": 0, "lz4": 3, "zstd": 4}
VALUE_BYTES = 1000
BATCH_RECORDS = 16
SEGMENT_BYTES = 256 << 20
PARTITIONS = 2
KEYS = 100_000
T0 = 1_700_000_000_000

CHECKPOINTS = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint")
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"

_FORMS = 200
_WORDS = 600
_TIMES = Struct(">qq")
_TIMES_AT = 27  # base and greatest timestamp in a batch's header


def forms(codec: int) -> list[bytes]:
    """Batches to copy."""
    chance = random.Random(1)
    words = [bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))) for _ in range(_WORDS)]
    made = []
    for _ in range(_FORMS):
        builder = BatchBuilder(codec=codec)
        for _ in range(BATCH_RECORDS):
            value = b" ".join(chance.choices(words, k=VALUE_BYTES // 4))[:VALUE_BYTES]
            builder.append(T0, b"key %06d" % chance.randrange(KEYS), value)
        made.append(bytes(builder.build()))
    return made


def fill(broker: Broker, topic: str, codec: int, size: int, **configs: object) -> None:
    """A topic of about `size` bytes of records before compression."""
    broker.create_topic(topic, PARTITIONS, segment_bytes=SEGMENT_BYTES, retention_ms=-1, **configs)
    batches = forms(codec)
    with Cluster(broker.bootstrap_servers) as cluster, Producer(cluster) as producer:
        for number in range(size // (BATCH_RECORDS * VALUE_BYTES)):
            data = bytearray(batches[number % _FORMS])
            _TIMES.pack_into(data, _TIMES_AT, T0 + number, T0 + number)
            producer.send_encoded(TopicPartition(topic, number % PARTITIONS), data, BATCH_RECORDS)
        producer.flush()


def fill_table(broker: Broker, topic: str, size: int) -> None:
    """Plain records, each with a key of its own."""
    segment_bytes = max(size // PARTITIONS // 8, 1 << 20)
    broker.create_topic(topic, PARTITIONS, segment_bytes=segment_bytes, cleanup_policy="compact")
    form = forms(0)[0]
    places = [at for at in range(len(form)) if form[at : at + 4] == b"key "]
    with Cluster(broker.bootstrap_servers) as cluster, Producer(cluster) as producer:
        for number in range(size // (BATCH_RECORDS * VALUE_BYTES)):
            data = bytearray(form)
            for place, at in enumerate(places):
                data[at : at + 10] = b"%010d" % (number * BATCH_RECORDS + place)
            _TIMES.pack_into(data, _TIMES_AT, T0 + number, T0 + number)
            producer.send_encoded(TopicPartition(topic, number % PARTITIONS), data, BATCH_RECORDS)
        producer.flush()


def call_cleaned(log_dir: Path, topic: str) -> None:
    """As if the cleaner had come to the active segment and found nothing to do. The broker is down."""
    folders = [log_dir / f"{topic}-{number}" for number in range(PARTITIONS)]
    points = {
        f"{topic} {number}": max(int(path.stem) for path in each.glob("*.log")) for number, each in enumerate(folders)
    }
    _write(log_dir / CLEANER_CHECKPOINT, points)


def enlarge(log_dir: Path, topic: str, size: int) -> int:
    """Until the topic has about `size` bytes; returns how many. The broker is down."""
    first = log_dir / f"{topic}-0"
    of_one = sum(path.stat().st_size for path in first.glob("*.log"))
    count = max(size // of_one, PARTITIONS)
    for number in range(PARTITIONS, count):
        if not (log_dir / f"{topic}-{number}").exists():
            shutil.copytree(first, log_dir / f"{topic}-{number}", copy_function=os.link)
    for name in CHECKPOINTS:
        known = _read(log_dir / name)
        _write(
            log_dir / name, known | {f"{topic} {number}": known[f"{topic} 0"] for number in range(PARTITIONS, count)}
        )
    return sum(path.stat().st_size for path in log_dir.glob(f"{topic}-*/*.log"))


def second_replica(log_dir: Path, place: Path) -> Path:
    """Of all partitions, on another broker: files of its own, not links."""
    shutil.copytree(log_dir, place)
    settings = (place / "meta.properties").read_text().splitlines()
    others = [line for line in settings if not line.startswith(("node.id", "directory.id"))]
    (place / "meta.properties").write_text("\n".join([*others, "node.id=2", ""]))
    return place


def _read(path: Path) -> dict[str, int]:
    """A checkpoint: its version, how many lines follow, and in each a topic, a partition and an offset."""
    return {key: int(end) for key, _, end in (line.rpartition(" ") for line in path.read_text().splitlines()[2:])}


def _write(path: Path, ends: dict[str, int]) -> None:
    lines = [f"{key} {end}" for key, end in sorted(ends.items())]
    path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
