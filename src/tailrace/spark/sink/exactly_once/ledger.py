"""The topic that holds the decisions of all sinks of a cluster. Compacted, by the sink's id.

A decision counts when its transaction is committed. The last one is searched from the end backwards, in windows that
grow, so that a topic that is not compacted yet costs nothing. The reader waits where another sink's decision is just
being written before the end: a few milliseconds, or until its driver's transaction times out if that has died.
"""

from __future__ import annotations

from typing import Final

from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.config_admin import ConfigAdmin, Resource
from tailrace.client.consumer import Consumer
from tailrace.client.errors import TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION, NoAnswerError
from tailrace.client.offsets import EARLIEST, LATEST, READ_COMMITTED, find_offsets
from tailrace.client.outgoing import Identity
from tailrace.client.partitioner import partition_of_key
from tailrace.client.transaction_end import USUAL_SCAN_MS
from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.spark.errors import PipelineError
from tailrace.spark.sink.exactly_once.decision import Decision
from tailrace.spark.sink.exactly_once.names import driver_id

TOPIC: Final = "__tailrace_sink_decisions"
PARTITIONS: Final = 8
"""That decisions are in. Those that somebody has added stay empty: where a sink's decisions are must never change."""
REPLICAS: Final = 3
POLICY: Final = "cleanup.policy"
COMPACT: Final = "compact"
LARGEST: Final = "max.message.bytes"
LARGEST_BYTES: Final = 16 << 20
"""A decision has 50 to 250 bytes for each task."""
SETTINGS: Final = {
    POLICY: COMPACT,
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
    LARGEST: str(LARGEST_BYTES),
    "compression.type": "producer",
}
DECISION_TIMEOUT_MS: Final = 30_000
"""For writing one decision, at most. Who is stopped for longer has not decided."""
FIRST_WINDOW: Final = 64
WINDOW_GROWTH: Final = 16


class Ledger:
    def __init__(self, cluster: Cluster, sink_id: str) -> None:
        self._cluster = cluster
        self._key = sink_id.encode()
        self._driver_id = driver_id(sink_id)
        self._is_there = False

    def _partition(self) -> TopicPartition:
        if not self._is_there:
            self._make()
            self._check()
            self._is_there = True
        return TopicPartition(TOPIC, partition_of_key(self._key, PARTITIONS))

    def _make(self) -> None:
        try:
            self._cluster.topic(TOPIC)
            return
        except TailraceError as error:
            if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                raise
        replicas = min(REPLICAS, len(self._cluster.brokers))
        try:
            Admin(self._cluster).create_topic(
                TOPIC, partitions=PARTITIONS, replication_factor=replicas, configs=SETTINGS
            )
        except TailraceError as error:
            if error.code != TOPIC_ALREADY_EXISTS:
                raise
        self._cluster.topic(TOPIC, waits=True)

    def _check(self) -> None:
        """Somebody may have made it otherwise, or changed it: then decisions would be lost, or could not be written."""
        found = len(self._cluster.topic(TOPIC).partitions)
        if found < PARTITIONS:
            raise PipelineError(
                f"topic {TOPIC} holds the decisions of exactly-once sinks and has {found} partitions: it needs at "
                f"least {PARTITIONS}; delete it, if no such sink has written yet, and it is made as it should be"
            )
        described = self._cluster.retry(
            f"asking for the settings of {TOPIC}",
            lambda: ConfigAdmin(self._cluster).describe(Resource.topic(TOPIC), [POLICY, LARGEST]),
            waits_for_topics=True,
        )
        settings = {entry.name: entry.value or "" for entry in described}
        policy = settings.get(POLICY, COMPACT)
        if {each.strip() for each in policy.split(",")} != {COMPACT}:
            raise PipelineError(
                f"topic {TOPIC} holds the decisions of exactly-once sinks and has {POLICY}={policy}: it must be "
                f"{COMPACT} alone, or decisions are deleted while they are needed"
            )
        largest = settings.get(LARGEST, "")
        if largest.isdecimal() and int(largest) < LARGEST_BYTES:
            raise PipelineError(
                f"topic {TOPIC} holds the decisions of exactly-once sinks and has {LARGEST}={largest}: it must be at "
                f"least {LARGEST_BYTES}, or batches of many tasks cannot be decided"
            )

    def read_last(self) -> Decision | None:
        partition = self._partition()
        first = find_offsets(self._cluster, {partition: EARLIEST})[partition].offset
        end = find_offsets(self._cluster, {partition: LATEST})[partition].offset
        window = FIRST_WINDOW
        while True:
            start = max(first, end - window)
            values = self._last_between(partition, start, end)
            if values:
                return None if values[-1] is None else Decision.from_json(values[-1])
            if start == first:
                return None
            window *= WINDOW_GROWTH

    def _last_between(self, partition: TopicPartition, start: int, end: int) -> list[bytes | None]:
        """The last value of the sink's, None for a tombstone; nothing where there is no record of it."""
        last: list[bytes | None] = []
        # Another sink's driver may have died while it wrote: its transaction ends when the coordinator looks for it.
        deadline = self._cluster.deadline(self._cluster.timeout_s + (DECISION_TIMEOUT_MS + 2 * USUAL_SCAN_MS) / 1000)
        with Consumer(self._cluster, isolation=READ_COMMITTED) as consumer:
            consumer.assign([partition], {partition: start})
            while consumer.positions[partition] < end:
                if deadline.is_over:
                    raise NoAnswerError(f"waited {deadline.seconds:g} s for a decision in {partition} to be ended")
                for run in consumer.poll(min(deadline.left_s, 1.0)):
                    for record in run.records():
                        if record.key is not None and bytes(record.key) == self._key:
                            last = [None if record.value is None else bytes(record.value)]
        return last

    def write(self, driver: Identity, decision: Decision | None) -> None:
        """Into the transaction that the driver's id has open, or opens with it. None is a tombstone."""
        partition = self._partition()
        producer = TransactionalProducer(self._cluster, self._driver_id, transaction_timeout_ms=DECISION_TIMEOUT_MS)
        producer.adopt(driver)
        producer.begin()
        value = None if decision is None else decision.to_json()
        producer.send(TOPIC, value, self._key, partition=partition.partition)
        producer.hand_over()
