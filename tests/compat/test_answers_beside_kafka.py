"""The same requests to Kafka and to us: every error code is the same, or stands in `KNOWN_DIFFERENCES` with its reason.

docs/compatibility.md has the differences in prose.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from answer_codes import codes
from damaged_frames import damaged
from raw_client import NoAnswer, RawClient
from request_case import COMPACTED, DATA, UNKNOWN_ID, Case, Place
from request_cases import all_cases

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from broker_client import free_port

    from golden.broker import Broker

import tailrace
from tailrace.protocol.apis import api_of
from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tailrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.record.builder import BatchBuilder

pytestmark = pytest.mark.compat

SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "transaction.max.timeout.ms": "900000",
}

KNOWN_DIFFERENCES = {
    r"DescribeTopicPartitions v0 without a name": "a name that is illegal fails that topic only, not the whole request",
    r"IncrementalAlterConfigs v\d .*, (4|-1)": "an unknown operation is an invalid request, no server error",
}
"""By a pattern of cases' names, why the codes differ."""

KNOWN_DAMAGE: dict[str, str] = {}
"""By the way of damage, why it is met differently."""
UNDAMAGED = {18, 19, 20, 37}
"""APIs that are left out: ApiVersions, which answers also what it does not understand, and those that would change
topics, since Kafka does not look at bytes behind a request."""


@pytest.fixture(scope="module")
def kafka(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    folder = tmp_path_factory.mktemp("kafka")
    with Broker(folder, free_port(), SETTINGS) as broker, RawClient(broker.address) as client:
        yield client


@pytest.fixture(scope="module")
def ours() -> Iterator[RawClient]:
    with tailrace.Broker(SETTINGS) as broker, RawClient(broker.bootstrap_servers) as client:
        yield client


def furnish(client: RawClient) -> Place:
    """Topics with records, the same in both."""
    compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    topics = [
        CreatableTopic(name=DATA, num_partitions=3, replication_factor=1),
        CreatableTopic(name=COMPACTED, num_partitions=1, replication_factor=1, configs=compacted),
    ]
    made: Any = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=20_000), 7)
    assert {topic.error_code for topic in made.topics} == {0}, made
    builder = BatchBuilder()
    for n in range(10):
        builder.append(1000 + 10 * n, b"key", b"value")
    records = [PartitionProduceData(index=0, records=bytes(builder.build()))]
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=DATA, partition_data=records)])
    for _ in range(50):  # the broker may hear of the topic a moment after the controller
        answer: Any = client.ask(request, 9)
        if not answer.responses[0].partition_responses[0].error_code:
            break
        time.sleep(0.1)
    for _ in range(50):  # the first asks for a block of ids and may be told to come again
        first: Any = client.ask(InitProducerIdRequest(transactional_id=None), 0)
        if not first.error_code:
            break
        time.sleep(0.1)
    described: Any = client.ask(MetadataRequest(topics=None), 12)
    dirs: Any = client.ask(DescribeLogDirsRequest(topics=None), 4)
    return Place(dirs.results[0].log_dir, {topic.name: topic.topic_id for topic in described.topics})


def outcome(client: RawClient, case: Case) -> Any:
    try:
        return codes(client.ask(case.request, case.version))
    except NoAnswer as outcome:
        return str(outcome)


@pytest.mark.timeout(300)
def test_the_error_codes_agree(kafka: RawClient, ours: RawClient) -> None:
    differences = []
    seen: set[str] = set()
    for theirs, own in zip(all_cases(furnish(kafka)), all_cases(furnish(ours)), strict=True):
        assert theirs.name == own.name
        expected, got = outcome(kafka, theirs), outcome(ours, own)
        if expected == got:
            continue
        known = [pattern for pattern in KNOWN_DIFFERENCES if re.fullmatch(pattern, own.name)]
        seen.update(known)
        if not known:
            differences.append(f"{own.name}:\n  Kafka {shown(expected, got)}\n  ours  {shown(got, expected)}")
    assert not differences, "\n".join(differences)
    assert seen == KNOWN_DIFFERENCES.keys(), "some differences are gone"


@pytest.mark.timeout(300)
def test_damaged_requests_meet_the_same_end(kafka: RawClient, ours: RawClient) -> None:
    """Of every API and version the first case, damaged in each way: an answer of the same codes, or a closed door."""
    differences = []
    tried: set[tuple[int, int]] = set()
    for case in all_cases(Place("/nowhere", {DATA: UNKNOWN_ID, COMPACTED: UNKNOWN_ID})):
        key, version = case.request.KEY, case.version
        if (key, version) in tried or key in UNDAMAGED:
            continue
        tried.add((key, version))
        frame = ours.frame_of(case.request, version)
        for how, bad in damaged(frame, api_of(key).last_version + 1):
            expected, got = (met(client, key, version, bad) for client in (kafka, ours))
            if expected != got and how not in KNOWN_DAMAGE:
                differences.append(f"{case.name}, {how}: Kafka {expected}, ours {got}")
    assert not differences, "\n".join(differences)


def met(client: RawClient, key: int, version: int, frame: bytes) -> Any:
    try:
        return codes(client.answer_to(key, version, frame))
    except NoAnswer as outcome:
        return str(outcome)


def shown(one: Any, other: Any) -> str:
    """What is in one and not in the other."""
    if isinstance(one, str) or isinstance(other, str):
        return str(one)
    return str({path: code for path, code in one.items() if other.get(path) != code})
