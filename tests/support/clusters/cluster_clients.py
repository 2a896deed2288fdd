"""Clients of a cluster with faults: each works on its own thread, remembers what was acknowledged, and checks it later.

The outcome of a request that failed is unknown: it may be executed later, as long as brokers hold it back for a
controller. The same is true of a request that was sent more than once, even if one response acknowledges it. What such
a request could still change is never checked.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread
from typing import Any, Final

from support.clusters.process_cluster import CLUSTER_ID, ProcessCluster
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.config_admin import ConfigAdmin, Resource
from tailrace.client.consumer import Consumer
from tailrace.client.errors import DUPLICATE_VOTER, TOPIC_ALREADY_EXISTS, VOTER_NOT_FOUND, ClientError
from tailrace.client.producer import Producer
from tailrace.client.quorum_admin import QuorumAdmin, VoterListener
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.message import Request
from tailrace.raft.voters import Voter

TIMEOUT_S: Final = 10.0
PAUSE_S: Final = 0.05
MAX_TOPICS: Final = 30
SHARE_OF_REMOVED_LEADERS: Final = 0.1
"""Each new leader keeps the ids of killed brokers for another session, so that leaders must last longer than that."""
SETTINGS_TOPIC: Final = "settings"
SETTING: Final = "retention.ms"
INVALID_PARTITIONS: Final = 37
INVALID_REPLICATION_FACTOR: Final = 38
INVALID_REPLICA_ASSIGNMENT: Final = 39


class CountingCluster(Cluster):
    """Notes how often each kind of request was sent, and its last response."""

    def __init__(self, bootstrap: list[str]) -> None:
        super().__init__(bootstrap, timeout_s=TIMEOUT_S)
        self.sent: Counter[str] = Counter()
        self.responses: dict[str, Any] = {}

    def call(self, request: Request, **options: Any) -> Any:
        kind = type(request).__name__
        self.sent[kind] += 1
        self.responses.pop(kind, None)
        self.responses[kind] = super().call(request, **options)
        return self.responses[kind]


class ClusterClient(ABC):
    def __init__(self, name: str, cluster: ProcessCluster, seed: int) -> None:
        self.name = name
        self.dice = random.Random(f"{seed}/{name}")
        self.acknowledged = 0
        self.unknown = 0
        """Requests whose outcome is unknown."""
        self.differences: list[str] = []
        self.cluster = cluster
        self.caller = CountingCluster(cluster.bootstrap)
        self._is_over = Event()
        self._thread = Thread(target=self._run, name=name)

    @property
    def is_started(self) -> bool:
        return self._thread.ident is not None

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._is_over.set()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            self.cluster.network.enter()
            while not self._is_over.is_set() and not self.differences:
                self.attempt()
                self._is_over.wait(self.dice.uniform(0, 2 * PAUSE_S))
        except Exception as error:
            self.note(f"{error!r}")
        finally:
            self.close()

    def close(self) -> None:
        self.caller.close()

    def attempt(self) -> None:
        try:
            self.act()
        except TailraceError as error:
            if not (error.retriable or isinstance(error, ClientError) or self.expects(error)):
                self.note(f"unexpected error: {error!r}")
            self._is_over.wait(PAUSE_S)

    @abstractmethod
    def act(self) -> None:
        """One step of work; errors that can pass are expected."""

    def expects(self, error: TailraceError) -> bool:
        return False

    def note(self, difference: str) -> None:
        self.differences.append(f"{self.name}: {difference}")


class TopicClient(ClusterClient):
    """Creates topics, adds partitions and deletes topics. No name is used twice."""

    def __init__(self, name: str, cluster: ProcessCluster, seed: int) -> None:
        super().__init__(name, cluster, seed)
        self.admin = Admin(self.caller)
        self.topics: dict[str, set[int]] = {}
        """Topics that exist, with the numbers of partitions that they may have."""
        self.deleted: set[str] = set()
        self.doubtful: set[str] = set()
        self._repeated: set[str] = set()
        """Created by a request that was sent more than once: they may be created again after a deletion."""
        self._created = 0

    def act(self) -> None:
        removable = sorted(self.topics.keys() - self._repeated)
        choice = self.dice.random()
        if removable and (choice < 0.3 or len(self.topics) > MAX_TOPICS):
            self._delete(self.dice.choice(removable))
        elif self.topics and choice < 0.45:
            self._add_partitions(self.dice.choice(sorted(self.topics)))
        else:
            self._create()

    def _brokers(self, count: int) -> dict[int, list[int]]:
        return {number: [self.dice.choice(self.cluster.brokers).node_id] for number in range(count)}

    def _create(self) -> None:
        self._created += 1
        name = f"{self.name}-{self._created}"
        assignment = self._brokers(self.dice.randint(1, 3))
        before = self.caller.sent["CreateTopicsRequest"]
        try:
            self.admin.create_topic(name, assignment=assignment)
        except TailraceError:
            response = self.caller.responses.get("CreateTopicsRequest")
            if response is None or response.topics[0].error_code:
                self.doubtful.add(name)
                self.unknown += 1
                raise
        self.topics[name] = {len(assignment)}
        if self.caller.sent["CreateTopicsRequest"] - before > 1:
            self._repeated.add(name)
        self.acknowledged += 1

    def _add_partitions(self, name: str) -> None:
        total = max(self.topics[name]) + 1
        try:
            self.admin.add_partitions(name, total)
        except TailraceError:
            self.topics[name].add(total)
            self.unknown += 1
            raise
        self.topics[name] = {total}
        self.acknowledged += 1

    def expects(self, error: TailraceError) -> bool:
        """Fenced brokers get no replicas. A broker that lost a response asks the controller again, as in Kafka."""
        return error.code in (
            TOPIC_ALREADY_EXISTS,
            INVALID_PARTITIONS,
            INVALID_REPLICATION_FACTOR,
            INVALID_REPLICA_ASSIGNMENT,
        )

    def _delete(self, name: str) -> None:
        del self.topics[name]
        try:
            self.admin.delete_topic(name)
        except TailraceError:
            response = self.caller.responses.get("DeleteTopicsRequest")
            if response is None or response.responses[0].error_code:
                self.doubtful.add(name)
                self.unknown += 1
                raise
        self.deleted.add(name)
        self.acknowledged += 1

    def check(self, image: MetadataImage) -> Iterator[str]:
        for name, counts in self.topics.items():
            if name not in image.topics:
                yield f"topic {name} was acknowledged and is lost"
            elif len(image.topics[name].partitions) not in counts:
                yield f"topic {name} has {len(image.topics[name].partitions)} partitions instead of {counts}"
        for name in self.deleted & image.topics.keys():
            yield f"the deletion of topic {name} was acknowledged and is lost"
        for name in image.topics.keys() - self.topics.keys() - self.doubtful:
            if name.startswith(f"{self.name}-") and name not in self.deleted:
                yield f"topic {name} was never created"


class ConfigClient(ClusterClient):
    """Changes one setting of the topic SETTINGS_TOPIC."""

    def __init__(self, name: str, cluster: ProcessCluster, seed: int) -> None:
        super().__init__(name, cluster, seed)
        self.admin = ConfigAdmin(self.caller)
        self.value: str | None = None
        self._late: set[str] = set()
        self._changes = 0

    def act(self) -> None:
        self._changes += 1
        value = str(1_000_000 + self._changes)
        before = self.caller.sent["IncrementalAlterConfigsRequest"]
        try:
            self.admin.alter(Resource.topic(SETTINGS_TOPIC), values={SETTING: value})
        except TailraceError:
            self._late.add(value)
            self.unknown += 1
            raise
        if self.caller.sent["IncrementalAlterConfigsRequest"] - before > 1:
            self._late.add(value)
        self.value = value
        self.acknowledged += 1

    def check(self, image: MetadataImage) -> Iterator[str]:
        found = image.topic_config(SETTINGS_TOPIC).get(SETTING)
        if found != self.value and found not in self._late:
            yield f"{SETTING} is {found}, not {self.value} as acknowledged"


class VoterClient(ClusterClient):
    """Removes one of the voters and adds it again."""

    def __init__(self, name: str, cluster: ProcessCluster, seed: int) -> None:
        super().__init__(name, cluster, seed)
        self.admin = QuorumAdmin(self.caller)
        self.is_settling = False
        """All voters are to be there."""
        self.is_settled = False

    def act(self) -> None:
        quorum = self.admin.describe()
        present = {voter.node_id for voter in quorum.voters}
        missing = [voter for voter in self.cluster.voters if voter.node_id not in present]
        self.is_settled = self.is_settling and not missing
        if missing:
            self._add(missing[0])
        elif not self.is_settling:
            others = [voter for voter in self.cluster.voters if voter.node_id != quorum.leader_id]
            is_rare = self.dice.random() < SHARE_OF_REMOVED_LEADERS
            self._remove(self.dice.choice(self.cluster.voters if is_rare else others))
        self._is_over.wait(self.dice.uniform(0.1, 1.5))

    def _add(self, voter: Voter) -> None:
        listeners = [VoterListener(each.name, each.host, each.port) for each in voter.endpoints]
        try:
            self.admin.add_voter(CLUSTER_ID, voter.node_id, voter.directory_id, listeners)
        except TailraceError:
            self.unknown += 1
            raise
        self.acknowledged += 1

    def _remove(self, voter: Voter) -> None:
        try:
            self.admin.remove_voter(CLUSTER_ID, voter.node_id, voter.directory_id)
        except TailraceError:
            self.unknown += 1
            raise
        self.acknowledged += 1

    def expects(self, error: TailraceError) -> bool:
        """A request of unknown outcome was executed since the voters were described."""
        return error.code in (DUPLICATE_VOTER, VOTER_NOT_FOUND) and self.unknown > 0


class RecordClient(ClusterClient):
    """Produces to a topic with its replica on one broker, and reads it."""

    def __init__(self, name: str, cluster: ProcessCluster, seed: int, broker_id: int) -> None:
        super().__init__(name, cluster, seed)
        self.broker_id = broker_id
        self.partition = TopicPartition(topic_of(broker_id), 0)
        self.fetched = 0
        self.produced: list[bytes] = []
        """Acknowledged values, in order."""
        self.doubtful: set[bytes] = set()
        self._number = 0
        self._producer: Producer | None = None
        self._reader = CountingCluster(cluster.bootstrap)
        self._consumer: Consumer | None = None

    def act(self) -> None:
        if self._producer is None:
            self._producer = Producer(self.caller, delivery_timeout_s=TIMEOUT_S, may_create_topics=False)
        self._number += 1
        value = b"%s %d" % (self.name.encode(), self._number)
        try:
            self._producer.send(self.partition.topic, value, partition=0)
            self._producer.flush()
        except TailraceError:
            self.doubtful.add(value)
            self.unknown += 1
            self._close_producer()
            raise
        self.produced.append(value)
        self.acknowledged += 1
        self._fetch()

    def _fetch(self) -> None:
        if self._consumer is None:
            consumer = Consumer(self._reader)
            consumer.assign([self.partition], {self.partition: self.fetched})
            self._consumer = consumer
        for run in self._consumer.poll(1.0):
            self.fetched = run.next_offset

    def _close_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(TailraceError):
                producer.close()

    def close(self) -> None:
        self._close_producer()
        if self._consumer is not None:
            self._consumer.close()
        super().close()
        self._reader.close()

    def check_records(self) -> Iterator[str]:
        """After the faults, on a thread of the clients' host."""
        found: list[bytes] = []
        with CountingCluster(self.cluster.bootstrap) as caller, Consumer(caller) as consumer:
            consumer.assign([self.partition])
            end = consumer.ends()[self.partition]
            deadline = time.monotonic() + 3 * TIMEOUT_S
            while consumer.positions[self.partition] < end and time.monotonic() < deadline:
                for run in consumer.poll(1.0):
                    found += [bytes(record.value or b"") for record in run.records()]
        certain = [value for value in found if value not in self.doubtful]
        if certain != self.produced:
            lost = [value for value in self.produced if value not in set(found)]
            yield f"{self.partition} lost {lost[:3]}" if lost else f"{self.partition} has records twice or out of order"


def topic_of(broker_id: int) -> str:
    return f"records-{broker_id}"
