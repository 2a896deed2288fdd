"""Writes docs/images/audit.png: the page of an audit, as Chromium shows it.

    python tools/make_report_picture.py

A broker gets a week of records in some topics. Then three faults are put into its files: a bit of a value is turned, a
batch cut out, an entry of an index changed. What the audit says of that is the picture. It starts Spark and needs
Chromium, so it is not made anew by anything else: run it when the page has changed.
"""

from __future__ import annotations

import math
import os
import random
import struct
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from page_picture import take
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.model.ids import TopicPartition
from tailrace.spark.auditing.audit import audit
from tailrace.spark.auditing.audit_report import AuditReport
from tailrace.spark.auditing.report import audit_page
from tailrace.spark.report.html import write
from tailrace.testing.broker import Broker

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = ROOT / "docs" / "images" / "audit.png"
WIDTH_PX, HEIGHT_PX = 1200, 2275

START_MS: Final = 1_767_571_200_000  # 2026-01-05
HOUR_MS: Final = 3_600_000
HOURS: Final = 168
PARTITIONS: Final = 3
SETTINGS: Final = {"log.retention.ms": -1, "log.segment.bytes": 1 << 20, "log.index.interval.bytes": 1024}
HEADER_BYTES: Final = 61


class Load(NamedTuple):
    codec: str
    records: int
    """In an hour, on average, in each partition."""
    value_bytes: int
    keys: int
    uneven: float


LOADS: Final = {
    "orders": Load("lz4", 130, 160, 400, 2.2),
    "payments": Load("zstd", 60, 240, 900, 1.3),
    "page-views": Load("snappy", 210, 90, 2000, 3.2),
    "audit-trail": Load("none", 25, 300, 60, 1.0),
}


def fill(bootstrap: str) -> None:
    """Busier by day than by night, and twice as busy in one night."""
    chance = random.Random(9)
    with Cluster(bootstrap) as cluster:
        for topic, load in LOADS.items():
            with Producer(cluster, codec=load.codec, may_create_topics=False) as producer:
                for hour in range(HOURS):
                    daily = 1.05 + 0.85 * math.sin((hour / 24 - 0.35) * 2 * math.pi) + (1.6 if 74 <= hour < 78 else 0)
                    for partition in range(PARTITIONS):
                        left = int(load.records * daily * chance.uniform(0.85, 1.15)) + 1
                        times = sorted(START_MS + hour * HOUR_MS + chance.randrange(HOUR_MS) for _ in range(left))
                        while times:
                            many = min(len(times), 1 + int(chance.expovariate(1 / 18)))
                            now, times = times[:many], times[many:]
                            producer.send_batch(
                                TopicPartition(topic, partition), [record(load, at, chance) for at in now]
                            )


def record(load: Load, at_ms: int, chance: random.Random) -> tuple[int, bytes, bytes]:
    key = f"customer-{int(chance.random() ** load.uneven * load.keys):04}"
    words = " ".join(chance.choice(("shipped", "paid", "open", "returned")) for _ in range(load.value_bytes // 9))
    return at_ms, key.encode(), f'{{"customer": "{key}", "state": "{words}"}}'.encode()


def batches(log: bytes) -> list[tuple[int, int]]:
    """(position, size) of each."""
    found, at = [], 0
    while at + HEADER_BYTES <= len(log):
        (length,) = struct.unpack_from(">i", log, at + 8)
        found.append((at, length + 12))
        at += length + 12
    return found


def plant(data: Path) -> None:
    turned = data / "orders-1" / f"{0:020}.log"
    content = bytearray(turned.read_bytes())
    at, _ = batches(content)[40]
    content[at + HEADER_BYTES + 20] ^= 4
    turned.write_bytes(content)

    cut = data / "payments-0" / f"{0:020}.log"
    content = bytearray(cut.read_bytes())
    at, size = batches(content)[-30]
    cut.write_bytes(content[:at] + content[at + size :])

    lying = data / "page-views-2" / f"{0:020}.index"
    content = bytearray(lying.read_bytes())
    struct.pack_into(">i", content, 8 * 100 + 4, struct.unpack_from(">i", content, 8 * 100 + 4)[0] + 3)
    lying.write_bytes(content)


def within(folder: str, report: AuditReport) -> AuditReport:
    """The same, seen from this folder: nobody cares for temporary folders of this machine."""
    findings = tuple(replace(each, file=os.path.relpath(each.file, folder)) for each in report.findings)
    return replace(report, paths=tuple(os.path.relpath(path, folder) for path in report.paths), findings=findings)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data, page = Path(folder) / "data", Path(folder) / "audit.html"
        with Broker(SETTINGS, data_dir=str(data)) as broker:
            for topic in LOADS:
                broker.create_topic(topic, partitions=PARTITIONS)
            fill(broker.bootstrap_servers)
        plant(data)
        write(audit_page(within(folder, audit(str(data)))), str(page))
        PICTURE.parent.mkdir(exist_ok=True)
        take(page, PICTURE, WIDTH_PX, HEIGHT_PX)
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
