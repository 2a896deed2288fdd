"""The same requests to Kafka and to Tailrace: responses match, except for `support.requests.known_differences`.

Good and bad requests of every API and version that we serve, conversations, damaged bytes.
"""

from __future__ import annotations

import re
import socket
import struct
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.clients.raw_client import TIMEOUT_SECONDS, NoAnswer, RawClient
from support.conversations.classic_groups import CONVERSATIONS_OF_CLASSIC_GROUPS
from support.conversations.classic_groups import SETTINGS as CLASSIC_GROUPS
from support.conversations.consumer_groups import CONVERSATIONS_OF_CONSUMER_GROUPS
from support.conversations.consumer_groups import SETTINGS as CONSUMER_GROUPS
from support.conversations.consumer_groups import TOPIC as CONSUMED
from support.conversations.conversation import CONVERSATIONS, LAST_WORDS, Talk
from support.conversations.offsets import CONVERSATIONS_OF_OFFSETS
from support.conversations.refusals import CONVERSATIONS_OF_REFUSALS
from support.conversations.share_groups import CONVERSATIONS_OF_SHARE_GROUPS
from support.conversations.share_groups import SETTINGS as SHARE_GROUPS
from support.conversations.streams_groups import CONVERSATIONS_OF_STREAMS_GROUPS
from support.conversations.streams_groups import SETTINGS as STREAMS_GROUPS
from support.conversations.transactional_writes import CONVERSATIONS_OF_TRANSACTIONAL_WRITES
from support.conversations.transactions import CONVERSATIONS_OF_TRANSACTIONS
from support.hostile.request_load import controller_listener
from support.requests.case import COMPACTED, DATA, UNKNOWN_ID, Case, Place
from support.requests.catalog import all_cases
from support.requests.damaged_frames import SIZES, damaged, damaged_text, sized
from support.requests.known_differences import KNOWN_DIFFERENCES, Known, unexpected
from support.requests.response_values import differences, shape

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kafka-python's use of importlib
    from golden.broker import Broker
    from support.kafka.client import free_port

import tailrace
from tailrace.broker.dispatch import CONTROLLER_HANDLERS
from tailrace.protocol.apis import API_VERSIONS, api_of
from tailrace.protocol.message import Response
from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tailrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.record.builder import BatchBuilder

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

COMPATIBILITY = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "transaction.max.timeout.ms": "900000",
    "share.coordinator.state.topic.num.partitions": "1",  # which of them has something goes by ids of topics
    **CLASSIC_GROUPS,
    **CONSUMER_GROUPS,
    **SHARE_GROUPS,
    **STREAMS_GROUPS,
}
PRODUCE, JOIN_GROUP = 0, 11
UNSUPPORTED_VERSION = 35
CHANGING = {19, 20, 37}
"""APIs that are not damaged: Kafka does not look at bytes behind a request, and these would change topics."""


class Pair(NamedTuple):
    """Both servers, and which of the known differences were found."""

    kafka: RawClient
    ours: RawClient
    kafka_controller: RawClient
    our_controller: RawClient
    kafka_place: Place
    our_place: Place
    seen: set[Known]


@pytest.fixture(scope="module")
def pair(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("kafka")
    with (
        Broker(folder, free_port(), SETTINGS) as broker,
        tailrace.Broker(broker.settings) as our_broker,
        RawClient(broker.address) as kafka,
        RawClient(our_broker.bootstrap_servers) as ours,
        RawClient(f"127.0.0.1:{broker.port + 1}") as kafka_controller,
        RawClient("{}:{}".format(*controller_listener(ours))) as our_controller,
    ):
        yield Pair(kafka, ours, kafka_controller, our_controller, furnished(kafka), furnished(ours), set())


def furnished(client: RawClient) -> Place:
    """Topics with records, the same in both."""
    compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    topics = [
        CreatableTopic(name=DATA, num_partitions=3, replication_factor=1),
        CreatableTopic(name=COMPACTED, num_partitions=1, replication_factor=1, configs=compacted),
        CreatableTopic(name=CONSUMED, num_partitions=3, replication_factor=1),
    ]
    made: Any = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=20_000), 7)
    assert {topic.error_code for topic in made.topics} == {0}, made
    builder = BatchBuilder()
    for n in range(10):
        builder.append(1000 + 10 * n, b"key", b"value")
    records = [PartitionProduceData(index=0, records=bytes(builder.build()))]
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=DATA, partition_data=records)])
    # The broker may hear of the topic a moment after the controller, and must ask for ids before it has any.
    until_good(lambda: client.ask(request, 9), lambda answer: answer.responses[0].partition_responses[0].error_code)
    until_good(lambda: client.ask(InitProducerIdRequest(transactional_id=None), 0), lambda answer: answer.error_code)
    described: Any = client.ask(MetadataRequest(topics=None), 12)
    dirs: Any = client.ask(DescribeLogDirsRequest(topics=None), 4)
    return Place(dirs.results[0].log_dir, {topic.name: topic.topic_id for topic in described.topics})


def until_good(ask: Callable[[], Response], code_in: Callable[[Any], int]) -> None:
    for _ in range(100):
        if not code_in(ask()):
            return
        time.sleep(0.1)
    raise AssertionError("it does not come to work")


def outcome(ask: Callable[[], Response]) -> Any:
    try:
        return shape(ask())
    except NoAnswer as found:
        return str(found)


def told(case: str, expected: Any, got: Any, seen: set[Known]) -> list[str]:
    return [
        f"{case}, {path}:\n  Kafka {theirs}\n  ours  {own}"
        for path, theirs, own in unexpected(case, differences(expected, got), seen)
    ]


def test_the_answers_agree(pair: Pair) -> None:
    found: list[str] = []
    for theirs, own in zip(all_cases(pair.kafka_place), all_cases(pair.our_place), strict=True):
        assert theirs.name == own.name
        expected = outcome(partial(pair.kafka.ask, theirs.request, theirs.version))
        got = outcome(partial(pair.ours.ask, own.request, own.version))
        found += told(own.name, expected, got, pair.seen)
    assert not found, "\n".join(found)


def test_the_controllers_answers_agree(pair: Pair) -> None:
    """On its own listener, where it is asked as an administrator may, past all brokers."""
    found: list[str] = []
    for theirs, own in zip(all_cases(pair.kafka_place), all_cases(pair.our_place), strict=True):
        if theirs.request.KEY in CONTROLLER_HANDLERS and not re.search("unknown operation|the most", theirs.name):
            expected = outcome(partial(pair.kafka_controller.ask, theirs.request, theirs.version))
            got = outcome(partial(pair.our_controller.ask, own.request, own.version))
            found += told(f"controller: {own.name}", expected, got, pair.seen)
    assert not found, "\n".join(found)


@pytest.mark.timeout(900)
def test_the_conversations_agree(pair: Pair) -> None:
    found: list[str] = []
    conversations = (
        *CONVERSATIONS,
        *CONVERSATIONS_OF_CLASSIC_GROUPS,
        *CONVERSATIONS_OF_CONSUMER_GROUPS,
        *CONVERSATIONS_OF_OFFSETS,
        *CONVERSATIONS_OF_SHARE_GROUPS,
        *CONVERSATIONS_OF_STREAMS_GROUPS,
        *CONVERSATIONS_OF_TRANSACTIONS,
        *CONVERSATIONS_OF_TRANSACTIONAL_WRITES,
        *CONVERSATIONS_OF_REFUSALS,
    )
    for converse in conversations:
        theirs, own = Talk(pair.kafka, pair.kafka_place), Talk(pair.ours, pair.our_place)
        with ThreadPoolExecutor(2) as both:  # much of it is waiting
            list(both.map(converse, (theirs, own)))
        for (name, expected), (_, got) in zip(theirs.answers, own.answers, strict=True):
            found += told(f"{converse.__name__}: {name}", shape(expected), shape(got), pair.seen)
    assert not found, "\n".join(found)


def test_damaged_requests_meet_the_same_end(pair: Pair) -> None:
    """Of every API and version the first case, damaged in each way: the same answer, or a closed door."""
    found: list[str] = []
    for case in first_cases():
        api = api_of(case.request.KEY)
        frame = pair.ours.frame_of(case.request, case.version)
        is_flexible = case.version >= api.flexible_from
        for how, bad in damaged(frame, api.last_version + 1, is_flexible=is_flexible):
            if api.key == API_VERSIONS and "version" in how:
                continue  # it answers these, in version 0
            expected, got = (met(client, case, bad) for client in (pair.kafka, pair.ours))
            found += told(f"{case.name}, {how}", expected, got, pair.seen)
    assert not found, "\n".join(found)


def first_cases() -> Iterator[Case]:
    tried: set[tuple[int, int]] = set()
    for case in all_cases(Place("/nowhere", {DATA: UNKNOWN_ID, COMPACTED: UNKNOWN_ID})):
        key = case.request.KEY
        if key == PRODUCE and not case.name.endswith("nothing"):
            continue  # what one of them writes, when the other does not, would be seen by all that come later
        if key == JOIN_GROUP and "''" not in case.name:
            continue  # a group without a name has no members that would wait for each other
        if (key, case.version) not in tried and key not in CHANGING:
            tried.add((key, case.version))
            yield case


def met(client: RawClient, case: Case, frame: bytes) -> Any:
    return outcome(lambda: client.answer_to(case.request.KEY, case.version, frame))


def test_text_that_is_no_text_meets_the_same_end(pair: Pair) -> None:
    found: list[str] = []
    topic = [MetadataRequestTopic(name="a-topic")]
    request = MetadataRequest(topics=topic, allow_auto_topic_creation=False)
    for version in range(4, 13):
        frame = damaged_text(pair.ours.frame_of(request, version), b"a-topic")
        case = Case(f"Metadata v{version}", request, version)
        expected, got = (met(client, case, frame) for client in (pair.kafka, pair.ours))
        if (expected, got) != ("closed", "closed"):
            found += told(case.name, expected, got, pair.seen)
    assert not found, "\n".join(found)


def test_sizes_that_cannot_be_close_the_connection(pair: Pair) -> None:
    for size in SIZES:
        for client in (pair.kafka, pair.ours):
            with socket.create_connection(client.address, TIMEOUT_SECONDS) as sock:
                sock.sendall(struct.pack(">i", size) + bytes(max(min(size, 100), 0)))
                assert sock.recv(1) == b"", f"{size} from {client.address}"


def test_api_versions_of_the_future_are_answered_alike(pair: Pair) -> None:
    body = struct.pack(">hhih", API_VERSIONS, 99, 42, -1)
    answered = 0
    for tail in (b"", b"\0", b"\0\1\1\0", b"\0junk", b"junk"):
        ask = partial(RawClient.answer_to, key=API_VERSIONS, version=0, frame=sized(body + tail))
        expected, got = (outcome(partial(ask, client)) for client in (pair.kafka, pair.ours))
        assert got == expected, tail
        answered += expected != "closed" and expected["error_code"] == UNSUPPORTED_VERSION
    assert answered


def test_every_known_difference_is_one(pair: Pair) -> None:
    """Needs all the tests above."""
    assert [known for known in KNOWN_DIFFERENCES if known not in pair.seen] == []


def test_every_known_difference_is_in_the_documentation() -> None:
    text = COMPATIBILITY.read_text()
    sections = set(re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    missing = {known.section for known in KNOWN_DIFFERENCES} - sections
    assert not missing


def test_the_last_words_agree(pair: Pair) -> None:
    """What ends a server's use to us comes last."""
    found: list[str] = []
    for converse in LAST_WORDS:
        theirs, own = Talk(pair.kafka, pair.kafka_place), Talk(pair.ours, pair.our_place)
        converse(theirs)
        converse(own)
        for (name, expected), (_, got) in zip(theirs.answers, own.answers, strict=True):
            found += told(f"{converse.__name__}: {name}", shape(expected), shape(got), pair.seen)
    assert not found, "\n".join(found)
