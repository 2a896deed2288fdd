"""Topics for `spark_run.py`: random keys of 8 bytes and values of 100, made without a Python object per record.

All batches have the same shape, so one is built record by record, as a form; the others are copies of it with random
bytes in the places of keys and values, and with times of their own. Timestamps grow by one millisecond each `PER_MS`
records of a partition, from `T0` on.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

import numpy as np

from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.model.ids import TopicPartition
from tailrace.record.builder import batch_of
from tailrace.testing.broker import Broker

KEY_BYTES = 8
VALUE_BYTES = 100
BATCH_RECORDS = 550  # 64 KB, what a producer fills for Spark
PER_MS = 10
PARTITIONS = 4
T0 = 1_700_000_000_000

_TIMES = Struct(">qq")
_TIMES_AT = 27  # base and greatest timestamp in a batch's header
_KEY = b"k" * KEY_BYTES
_VALUE = b"v" * VALUE_BYTES


class BatchForm:
    """Of so many records; `filled` gives batches that have it."""

    def __init__(self, records: int) -> None:
        self.records = records
        self._last_delta_ms = (records - 1) // PER_MS
        self._form = np.frombuffer(batch_of([(T0 + n // PER_MS, _KEY, _VALUE) for n in range(records)]), np.uint8)
        whole = self._form.tobytes()
        starts = []
        at = 0
        for _ in range(records):
            at = whole.index(_KEY, at)
            key, at = at, whole.index(_VALUE, at)
            starts.append((key, at))
        self._keys = np.add.outer([key for key, _ in starts], np.arange(KEY_BYTES))
        self._values = np.add.outer([value for _, value in starts], np.arange(VALUE_BYTES))

    def filled(self, first: int, random: np.random.Generator) -> bytearray:
        """Of the partition's records from `first` on. Without its CRC, which a producer sets."""
        made = self._form.copy()
        made[self._keys] = random.integers(0, 256, self._keys.shape, np.uint8)
        made[self._values] = random.integers(0, 256, self._values.shape, np.uint8)
        data = bytearray(made.tobytes())
        start_ms = T0 + first // PER_MS
        _TIMES.pack_into(data, _TIMES_AT, start_ms, start_ms + self._last_delta_ms)
        return data


def batches(rows: int, seed: int) -> Iterator[tuple[bytearray, int]]:
    """So many rows of one partition: batches and their record counts."""
    random = np.random.default_rng(seed)
    form = BatchForm(BATCH_RECORDS)
    for first in range(0, rows, BATCH_RECORDS):
        left = min(BATCH_RECORDS, rows - first)
        each = form if left == BATCH_RECORDS else BatchForm(left)
        yield each.filled(first, random), left


def fill(broker: Broker, topic: str, rows: int, *, segments: int = 1) -> int:
    """Make the topic, with so many rows, in about so many segments a partition; returns the bytes of its batches."""
    of_partition = rows // PARTITIONS
    batch_bytes = len(next(batches(min(of_partition, BATCH_RECORDS), 0))[0])
    whole = batch_bytes * -(-of_partition // BATCH_RECORDS)
    size = max(whole // segments + batch_bytes, 1 << 20) if segments > 1 else 1 << 30
    broker.create_topic(topic, PARTITIONS, segment_bytes=size, retention_ms=-1)
    written = 0
    with Cluster(broker.bootstrap_servers) as cluster, Producer(cluster) as producer:
        for number in range(PARTITIONS):
            partition = TopicPartition(topic, number)
            for data, count in batches(of_partition, number):
                written += len(data)
                producer.send_encoded(partition, data, count)
        producer.flush()
    return written
