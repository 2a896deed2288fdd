"""Requests about topics, and about who serves them."""

from __future__ import annotations

from collections.abc import Iterator

from support.requests.case import COMPACTED, DATA, NO_ID, UNKNOWN_ID, UNUSUAL_NAMES, Case, ServerFacts, label, versions
from tailrace.protocol.message import Request
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tailrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


def metadata(facts: ServerFacts) -> Iterator[Case]:
    def named(*names: str | None, ids: tuple[bytes, ...] = ()) -> list[MetadataRequestTopic]:
        topics = [MetadataRequestTopic(name=name) for name in names]
        return topics + [MetadataRequestTopic(topic_id=each, name=None) for each in ids]

    for version in versions(MetadataRequest):
        if version >= 1:
            yield Case("all", MetadataRequest(topics=None), version)
        yield Case("none", MetadataRequest(topics=[]), version)
        yield Case("known", MetadataRequest(topics=named(DATA, COMPACTED, DATA)), version)
        if version >= 4:
            quiet = MetadataRequest(topics=named(*UNUSUAL_NAMES), allow_auto_topic_creation=False)
            yield Case("strange", quiet, version)
        if version >= 8:
            told = MetadataRequest(topics=named(DATA, "nope"), allow_auto_topic_creation=False)
            told.include_topic_authorized_operations = True
            yield Case("with operations", told, version)
        if version >= 10:
            ids = (facts.topic_ids[DATA], UNKNOWN_ID)
            yield Case("by id", MetadataRequest(topics=named(ids=ids)), version)
            yield Case("by id and name", MetadataRequest(topics=named(COMPACTED, ids=ids)), version)
            yield Case("neither", MetadataRequest(topics=named(None, DATA)), version)


def describe_topic_partitions(facts: ServerFacts) -> Iterator[Case]:
    def page(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Request:
        return DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
        )

    pages = {
        "all": page(),
        "some": page(DATA, COMPACTED, DATA),
        "strange": page(*(name for name in UNUSUAL_NAMES if name)),
        "without a name": page("", DATA),
        "limit": page(limit=2),
        "no limit": page(limit=-1),
        "cursor": page(DATA, limit=1, cursor=(DATA, 1)),
        "cursor behind": page(DATA, cursor=(DATA, 9)),
        "cursor of no topic": page(cursor=("d", 0)),
        "foreign cursor": page(DATA, cursor=(COMPACTED, 0)),
        "negative cursor": page(DATA, cursor=(DATA, -1)),
    }
    for name, request in pages.items():
        yield Case(name, request, 0)


def describe_cluster(facts: ServerFacts) -> Iterator[Case]:
    for version in versions(DescribeClusterRequest):
        yield Case("brokers", DescribeClusterRequest(include_cluster_authorized_operations=True), version)
        if version >= 1:
            yield Case("controllers", DescribeClusterRequest(endpoint_type=2), version)
            yield Case("neither", DescribeClusterRequest(endpoint_type=3), version)
        if version >= 2:
            yield Case("fenced", DescribeClusterRequest(include_fenced_brokers=True), version)


def create_topics(facts: ServerFacts) -> Iterator[Case]:
    def new(
        name: str, partitions: int = 1, replicas: int = 1, configs: dict[str, str | None] | None = None
    ) -> CreatableTopic:
        given = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
        return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=given)

    def assigned(name: str, *replicas: list[int], partitions: int = -1, factor: int = -1) -> CreatableTopic:
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(replicas)
        ]
        return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, assignments=assignments)

    def moved(topic: CreatableTopic, *indexes: int) -> CreatableTopic:
        for assignment, index in zip(topic.assignments, indexes, strict=True):
            assignment.partition_index = index
        return topic

    def twice_set(topic: CreatableTopic) -> CreatableTopic:
        topic.configs = [CreatableTopicConfig(name="retention.ms", value=value) for value in ("1000000", "2000000")]
        return topic

    for version in versions(CreateTopicsRequest):
        requests = {
            "new": [new(f"new-{version}", 2)],
            "again": [new(f"new-{version}", 2)],
            "strange": [new(name) for name in UNUSUAL_NAMES if name != "nope" and len(name) != 249],
            "colliding": [new(f"a.b{version}"), new(f"a_b{version}")],
            "colliding with another": [new(f"a_b.{version}"), new(f"a.b_{version}")],
            "twice": [new("twice"), new("twice"), new(f"once-{version}")],
            "partitions": [new(f"p{n}-{version}", n) for n in (0, -1, -2)],
            "replicas": [new(f"r{n}-{version}", 1, n) for n in (0, -1, -2, 2)],
            "metadata": [new("__cluster_metadata")],
            "too many partitions": [new(f"many-{version}", 10_001)],
            "10,000 partitions": [new(f"many-{version}", 10_000)],
            "too many partitions in all": [new(f"many{n}-{version}", 6000) for n in range(2)],
            "the most partitions": [new(f"many-{version}", 2**31 - 1)],
            "strangest replicas": [new(f"r-{version}", 1, -32768), new(f"r-{version}-2", 1, 32767)],
            "config twice": [twice_set(new(f"c-{version}"))],
            "assigned twice": [moved(assigned(f"s7-{version}", [1], [1]), 0, 0)],
            "assigned with a gap": [moved(assigned(f"s8-{version}", [1], [1]), 0, 2)],
            "assigned below zero": [moved(assigned(f"s9-{version}", [1], [1]), -1, 0)],
            "no topic": [],
            "configs": [
                new(f"c0-{version}", configs={"cleanup.policy": "compact"}),
                new(f"c1-{version}", configs={"cleanup.policy": "shred"}),
                new(f"c2-{version}", configs={"no.such.key": "1"}),
                new(f"c3-{version}", configs={"retention.ms": None}),
                new(f"c4-{version}", configs={"segment.bytes": "1"}),
                new(f"c5-{version}", configs={"retention.ms": "-2"}),
            ],
            "assigned": [
                assigned(f"s0-{version}", [1], [1]),
                assigned(f"s1-{version}", [2]),
                assigned(f"s2-{version}", [1, 1]),
                assigned(f"s3-{version}", []),
                assigned(f"s4-{version}", [1], partitions=1),
                assigned(f"s5-{version}", [1], factor=1),
                assigned(f"s6-{version}", [-1]),
            ],
        }
        for name, topics in requests.items():
            yield Case(name, CreateTopicsRequest(topics=topics, timeout_ms=20_000), version)
        dry = CreateTopicsRequest(topics=[new(f"dry-{version}"), new(DATA)], validate_only=True)
        yield Case("dry", dry, version)
        yield Case("no time", CreateTopicsRequest(topics=[new("bad/name")], timeout_ms=0), version)


def create_partitions(facts: ServerFacts) -> Iterator[Case]:
    def more(
        name: str, count: int, assignments: list[list[int]] | None = None, *, validate_only: bool = False
    ) -> CreatePartitionsRequest:
        given = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
        wanted = CreatePartitionsTopic(name=name, count=count, assignments=given)
        return CreatePartitionsRequest(topics=[wanted], timeout_ms=20_000, validate_only=validate_only)

    for version in versions(CreatePartitionsRequest):
        topic, count = f"new-{max(version, 2)}", 4 + 2 * version
        yield Case("dry", more(topic, count, validate_only=True), version)
        yield Case("more", more(topic, count), version)
        yield Case("assigned", more(topic, count + 1, [[1]]), version)
        for wrong in (count, 1, 0, -1):
            yield Case(f"{wrong} of {count}", more(topic, wrong), version)
        for name, assignments in (("too many", [[1], [1]]), ("no broker", [[7]]), ("none", []), ("nobody", [[]])):
            yield Case(name, more(topic, count + 2, assignments), version)
        yield Case("same broker twice", more(topic, count + 2, [[1, 1]]), version)
        for name in UNUSUAL_NAMES:
            yield Case(f"of {label(name)}", more(name, 5), version)
        twice = more(topic, 50)
        twice.topics = twice.topics * 2
        yield Case("twice", twice, version)
    yield Case("the most", more("new-3", 2**31 - 1), 3)


def delete_topics(facts: ServerFacts) -> Iterator[Case]:
    for version in versions(DeleteTopicsRequest, last=5):
        names = [f"new-{version}", "nope", *UNUSUAL_NAMES]
        yield Case("by name", DeleteTopicsRequest(topic_names=names, timeout_ms=20_000), version)
        yield Case("twice", DeleteTopicsRequest(topic_names=["nope", "nope"], timeout_ms=20_000), version)
        yield Case("metadata", DeleteTopicsRequest(topic_names=["__cluster_metadata"], timeout_ms=20_000), version)
        yield Case("nothing", DeleteTopicsRequest(), version)
    compacted = facts.topic_ids[COMPACTED]
    states: dict[str, list[tuple[str | None, bytes]]] = {
        "by name": [(name, NO_ID) for name in UNUSUAL_NAMES],
        "by unknown id": [(None, UNKNOWN_ID)],
        "neither": [(None, NO_ID)],
        "both": [(COMPACTED, compacted)],
        "id twice": [(None, compacted), (None, compacted)],
        "name and its id": [(COMPACTED, NO_ID), (None, compacted)],
        "by id": [(None, compacted)],
        "again": [(None, compacted)],
    }
    for version in versions(DeleteTopicsRequest, first=6):
        for name, topics in states.items():
            wanted = [DeleteTopicState(name=each, topic_id=topic_id) for each, topic_id in topics]
            yield Case(name, DeleteTopicsRequest(topics=wanted, timeout_ms=20_000), version)
