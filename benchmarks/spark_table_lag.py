"""How far a table is behind a topic that grows all the time: `spark_run.py --lag-minutes 10`.

A process of its own sends records at a steady rate. The table follows with a trigger, and with all its upkeep. Once a
second it is noted how many records were sent and are not in the table. That must not grow: neither the log of the
table, nor the number of its files, nor what was compacted may make later batches slower.
"""

from __future__ import annotations

import multiprocessing
import time
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np

import spark_data
from peer_row import Row
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.model.ids import TopicPartition

if TYPE_CHECKING:
    from spark_rows import Bench

TOPIC = "lagging"
RATE = 50_000
TRIGGER = "10s"
MOST_LAG_S = 30
EARLY = (0.2, 0.4)
LATE = (0.8, 1.0)
"""Parts of the time that are set beside each other: minutes 2 to 4 and 8 to 10, of 10."""
FORMS = 64


def lag(bench: Bench, minutes: float) -> list[Row]:
    from tailrace.spark import table

    bench.broker.create_topic(TOPIC, spark_data.PARTITIONS, retention_ms=-1)
    context = multiprocessing.get_context("spawn")
    sent = context.Value("q", 0)
    sender = context.Process(target=send_steadily, args=(bench.servers, minutes * 60, sent), daemon=True)
    job = table(TOPIC, brokers=bench.servers, to=str(bench.folder / "lagging"), trigger=TRIGGER, session=bench.spark)
    try:
        sender.start()
        lags = []
        until_s = time.monotonic() + minutes * 60
        while time.monotonic() < until_s:
            time.sleep(1)
            lags.append(max(sent.value - sum(job.report.offsets.values()), 0))
            if len(lags) % 60 == 0:
                bench.say(f"minute {len(lags) // 60}: {max(lags[-60:]) / RATE:.1f} s of records behind at most")
            if not sender.is_alive() or not job.is_running:
                raise RuntimeError("the sender of records, or the table's job, has ended")
    finally:
        sender.terminate()
        sender.join()
        job.stop()
    if sent.value < RATE * minutes * 60 * 0.98:
        raise RuntimeError(f"only {sent.value:,} records were sent in {minutes:g} minutes")
    return rows_of(lags)


def rows_of(lags: list[int]) -> list[Row]:
    """Of seconds, how many records the table was behind."""
    early, late = (mean(lags[int(len(lags) * start) : int(len(lags) * end)]) for start, end in (EARLY, LATE))
    growth = Row("lag growth", "records behind: the last fifth beside the second", "records", 1.2, False)
    growth.rounds.append((late, early))
    most = Row("greatest lag", f"the most behind, beside {MOST_LAG_S} s of records", "s", 1, False)
    most.rounds.append((max(lags) / RATE, MOST_LAG_S))
    return [growth, most]


def send_steadily(servers: str, seconds: float, sent: Any) -> None:
    """Batches are made before; each gets sent several times."""
    random = np.random.default_rng(2)
    form = spark_data.BatchForm(spark_data.BATCH_RECORDS)
    batches = [bytes(form.filled(0, random)) for _ in range(FORMS)]
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        start_s = time.monotonic()
        number = 0
        while (passed_s := time.monotonic() - start_s) < seconds + 60:
            while number * form.records < passed_s * RATE:
                partition = TopicPartition(TOPIC, number % spark_data.PARTITIONS)
                producer.send_encoded(partition, bytearray(batches[number % FORMS]), form.records)
                number += 1
                sent.value = number * form.records
            producer.poll()
            time.sleep(0.01)
