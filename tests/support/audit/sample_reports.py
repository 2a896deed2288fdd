"""Audits and statistics that look like those of a real cluster, and are the same each time."""

from __future__ import annotations

import math
import random

from tailrace.spark.auditing import rules
from tailrace.spark.auditing.audit_report import AuditReport, ordered
from tailrace.spark.auditing.figures import BINS, CodecFigures, TopicFigures
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.report.skew import concentration, gini
from tailrace.spark.statistics.topic_stats import (
    CodecStats,
    CodecTrial,
    CodecTrials,
    Compacted,
    CompactionGain,
    HeaderName,
    HeaderStats,
    Histogram,
    HotKey,
    KeyStats,
    PartitionStats,
    Producers,
    ProducerStats,
    Rates,
    Retention,
    SizeLimit,
    TimeBucket,
    TimeLimit,
    TopicStats,
)

MINUTE_OF_START = 29_900_000  # in November 2026
DAY_MINUTES = 1440

TOPICS = {
    # records a minute, bytes of each, codec, how well it compresses, how uneven its keys are
    "orders": (5200, 310, "lz4", 2.4, 1.1),
    "payments": (2100, 520, "zstd", 4.1, 0.6),
    "page-views": (9800, 180, "snappy", 1.9, 1.6),
    "audit-trail": (700, 900, "none", 1.0, 0.2),
    "inventory": (900, 240, "gzip", 3.3, 0.9),
    "sessions": (1500, 260, "lz4", 2.2, 1.3),
    "__consumer_offsets": (260, 95, "none", 1.0, 0.8),
    "__transaction_state": (40, 120, "none", 1.0, 0.4),
}


def topic_figures(topic: str, days: float = 6) -> TopicFigures:
    rate, record_bytes, codec, ratio, uneven = TOPICS[topic]
    chance = random.Random(topic)
    found = TopicFigures(files=48)
    codecs = found.codecs.setdefault(codec, CodecFigures())
    for minute in range(0, int(days * DAY_MINUTES), 5):
        daily = 1 + 0.65 * math.sin((minute / DAY_MINUTES - 0.3) * 2 * math.pi) + chance.uniform(-0.08, 0.08)
        records = int(5 * rate * daily * (2.2 if 4000 < minute < 4160 else 1))
        stored = int(records * record_bytes / ratio)
        found.minutes[MINUTE_OF_START + minute] = (stored, records)
        found.records += records
        found.bytes += stored
        codecs.bytes += stored
        codecs.plain_bytes += records * record_bytes
    mean = 60
    found.batches = codecs.batches = found.records // mean
    codecs.records = found.records
    found.control_batches = 1200 if topic == "payments" else 0
    for at in range(BINS):
        found.batch_bytes[at] = _bell(at, math.log2(mean * record_bytes / ratio) + 1, found.batches)
        found.batch_records[at] = _bell(at, math.log2(mean) + 1, found.batches)
    for rank in range(1, 4000):
        found.key_sample[rank.to_bytes(8)] = max(int(9000 / rank**uneven), 1)
    found.sampled_records = found.key_sample.total()
    return found


def _bell(at: int, middle: float, total: int) -> int:
    return int(total * 0.35 * math.exp(-((at - middle) ** 2) / 2.6))


def findings() -> list[Finding]:
    """Of many rules, some with text that is out to do harm."""
    chance = random.Random(5)
    found = []
    words = {
        rules.CRC: ("the CRC is 8a31f0c2, the batch states 8a31f0c3", 5),
        rules.BAD_RECORD: ("the batch states 60 records and holds 59", 3),
        rules.OFFSET_GAP: ("offsets 812,201 to 812,259 are missing behind 812,200", 4),
        rules.OFFSET_INDEX: ("entry 17 says that offset 40,112 is at byte 981,231; it is at byte 980,004", 7),
        rules.TIME_INDEX: ("entry 9 says 2026-11-12 04:02:11.300 for offset 31,007, whose batch is of 04:02:10.951", 2),
        rules.SEQUENCE_GAP: ("producer 4012 epoch 3 goes from sequence 881 to 901", 3),
        rules.REPLICA_DIVERGENCE: ("broker 2 has CRC 19f3aa01 and broker 3 has 77b2c5de", 6),
        rules.HANGING_TRANSACTION: ("producer 4011 epoch 0 is open since 2026-11-13 08:00:01, for 3 h 20 min", 2),
        rules.SUPERSEDED_KEY: ("key 'customer-4711' has 3 records below the cleaner's point, the newest at 990,121", 9),
    }
    for rule, (text, count) in words.items():
        for _ in range(count):
            partition = f"{chance.choice(list(TOPICS)[:4])}-{chance.randrange(6)}"
            base = chance.randrange(0, 900_000, 1000)
            file = f"/var/lib/kafka/broker-{chance.randrange(1, 4)}/{partition}/{base:020}.log"
            found.append(Finding(file, partition, base + chance.randrange(900), rule, text, chance.randrange(1 << 29)))
    found.append(
        Finding(
            "/var/lib/kafka/broker-1/<img src=x onerror=alert(1)>-0/\udcff\u202egol.0",
            "<img src=x onerror=alert(1)>-0",
            None,
            rules.UNREADABLE,
            "</script><script>document.title='harmed'</script> & \x00\x1b[31m",
        )
    )
    found.append(Finding("/var/lib/kafka/broker-2/orders-1", "orders-1", None, rules.GONE, "the folder went away"))
    return found


def audit_report(found: list[Finding] | None = None) -> AuditReport:
    figures = {topic: topic_figures(topic) for topic in TOPICS}
    stored = sum(each.bytes for each in figures.values())
    return AuditReport(
        paths=("/var/lib/kafka/broker-1", "/var/lib/kafka/broker-2", "/var/lib/kafka/broker-3"),
        findings=ordered(findings() if found is None else found),
        figures=figures,
        directories=3,
        partitions=144,
        segments=1151,
        skipped_segments=840,
        bytes=stored,
        read_bytes=stored // 4,
        started_ms=(MINUTE_OF_START + 6 * DAY_MINUTES) * 60_000 + 17_000,
        seconds=201.4,
        step_seconds={"list": 2.1, "read": 131.0, "confirm": 3.3, "superseded": 41.0, "replicas": 24.0},
    )


def topic_stats() -> TopicStats:
    chance = random.Random(11)
    start_ms, bucket_ms, count = MINUTE_OF_START * 60_000, 3_600_000, 168
    buckets = tuple(
        TimeBucket(start_ms + at * bucket_ms, records, records * 290, records // 40)
        for at in range(count)
        if (records := int(90_000 * (1.1 + math.sin(at / 24 * 2 * math.pi)) * chance.uniform(0.9, 1.1))) > 0
        and not 60 <= at < 64
    )
    records = sum(bucket.records for bucket in buckets)
    stored = records * 140
    counts = [max(int(400_000 / rank**0.9), 1) for rank in range(1, 5001)]
    hot = tuple(
        HotKey(
            f"customer-{rank * 7919 % 5000:04}".encode(), 13, counts[rank], counts[rank] * 290, counts[rank] / records
        )
        for rank in range(10)
    )
    curve = tuple((1 - x, 1 - y) for x, y in reversed(concentration(counts)))
    end_ms = start_ms + count * bucket_ms
    return TopicStats(
        topic="orders",
        source="localhost:9092",
        partitions=tuple(
            PartitionStats(n, 0, records // 4, records // 4, stored // 4 - n * stored // 40, 60_000, start_ms, end_ms)
            for n in range(4)
        ),
        records=records,
        batches=240_000,
        control_batches=120,
        aborted_records=6_000,
        stored_bytes=stored,
        plain_bytes=records * 330,
        payload_bytes=records * 290,
        tombstones=records // 40,
        null_values=records // 39,
        keys=KeyStats(5000, records - 1200, 1200, 3, 812, hot, gini(counts), curve),
        key_sizes=_sizes([(13, 14, records // 2), (14, 15, records // 3)]),
        value_sizes=_sizes([(low, low + 32, _bell(at, 7, records)) for at, low in enumerate(range(256, 512, 32))]),
        batch_sizes=_sizes([(1 << at, (1 << at) + (1 << at - 3), _bell(at, 14, 240_000)) for at in range(8, 20)]),
        batch_records=_sizes([(each, each + 1, _bell(each, 9, 240_000)) for each in range(1, 16)]),
        rates=Rates(bucket_ms, buckets, 17, 54.2, 26.1, 7600.0),
        headers=HeaderStats(
            records // 2, records, records * 20, (HeaderName("trace-id", records // 2, records, records * 20),), 0
        ),
        producers=Producers(
            2,
            (
                ProducerStats(4011, (0, 3), records // 2, 120_000, stored // 2, 90_000, end_ms),
                ProducerStats(None, None, records // 2, 120_000, stored // 2, 0, end_ms),
            ),
        ),
        codecs=(CodecStats("lz4", 200_000, records, stored, records * 330), CodecStats("none", 40_000, 9, 400, 400)),
        codec_trials=CodecTrials(
            4000,
            64 << 20,
            (
                CodecTrial("none", 150 << 20, records * 330, stored - records * 330, 0.0, 0.0),
                CodecTrial("gzip", 40 << 20, stored * 62 // 100, stored * 38 // 100, 21.0, 3.1),
                CodecTrial("snappy", 70 << 20, stored * 108 // 100, -stored * 8 // 100, 2.1, 0.9),
                CodecTrial("lz4", 64 << 20, stored, 0, 1.9, 0.6),
                CodecTrial("zstd", 38 << 20, stored * 58 // 100, stored * 42 // 100, 4.4, 1.2),
            ),
        ),
        compaction=CompactionGain(
            Compacted(5000, records - 5000, stored // 9, stored - stored // 9, 8 / 9),
            Compacted(15000, records - 15000, stored // 4, stored - stored // 4, 3 / 4),
            330,
            4200,
            1200,
            4000,
            False,
        ),
        retention=Retention(
            end_ms,
            tuple(
                TimeLimit(name, hours * 3_600_000, records * hours // 168, kept, kept / stored)
                for name, hours in (("1h", 1), ("6h", 6), ("1d", 24), ("3d", 72), ("7d", 168), ("30d", 720))
                if (kept := min(stored, stored * hours // 168))
            ),
            tuple(
                SizeLimit(limit, min(stored, limit * 4), min(stored, limit * 4) / stored, end_ms - limit // 4000)
                for limit in (10**6, 10**7, 10**8, 10**9, 10**10)
            ),
        ),
        seconds=41.7,
    )


def _sizes(bins: list[tuple[int, int, int]]) -> Histogram:
    used = tuple(each for each in bins if each[2])
    count, total = sum(each[2] for each in used), sum(each[0] * each[2] for each in used)
    middle = used[len(used) // 2][0]
    greatest = used[-1][1] - 1
    return Histogram(count, total, used[0][0], greatest, used, {"p50": middle, "p99": greatest})
