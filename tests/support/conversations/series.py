"""Series of requests that Kafka and Tailrace receive in the same order.

They are good and bad requests of every API and version that a broker serves, damaged bytes, and conversations.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from support.clients.raw_client import TIMEOUT_SECONDS, NoAnswer, RawClient
from support.conversations.classic_groups import CONVERSATIONS_OF_CLASSIC_GROUPS
from support.conversations.classic_groups import SETTINGS as CLASSIC_GROUPS
from support.conversations.consumer_groups import CONVERSATIONS_OF_CONSUMER_GROUPS
from support.conversations.consumer_groups import SETTINGS as CONSUMER_GROUPS
from support.conversations.consumer_groups import TOPIC as CONSUMED
from support.conversations.controller_errors import controller_errors
from support.conversations.conversation import CONVERSATIONS as CONVERSATIONS_OF_LOGS
from support.conversations.conversation import LAST_WORDS, Talk
from support.conversations.offsets import CONVERSATIONS_OF_OFFSETS
from support.conversations.quorum_requests import quorum_requests, unserved_apis, unsupported_versions
from support.conversations.refusals import CONVERSATIONS_OF_REFUSALS
from support.conversations.second_broker import second_broker
from support.conversations.share_groups import CONVERSATIONS_OF_SHARE_GROUPS
from support.conversations.share_groups import SETTINGS as SHARE_GROUPS
from support.conversations.streams_groups import CONVERSATIONS_OF_STREAMS_GROUPS
from support.conversations.streams_groups import SETTINGS as STREAMS_GROUPS
from support.conversations.transactional_writes import CONVERSATIONS_OF_TRANSACTIONAL_WRITES
from support.conversations.transactions import CONVERSATIONS_OF_TRANSACTIONS
from support.kafka.exchanges import Exchange, brief, fingerprint, fingerprint_of_frame
from support.requests.case import COMPACTED, DATA, UNKNOWN_ID, Case, ServerFacts
from support.requests.catalog import all_cases
from support.requests.damaged_frames import SIZES, damaged, damaged_text, sized
from support.requests.envelopes import opened
from support.requests.response_values import Shape
from tailrace.broker.dispatch import BROKER_HANDLERS, CONTROLLER_HANDLERS
from tailrace.protocol.apis import API_VERSIONS, api_of
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tailrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.record.builder import BatchBuilder

SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.max.timeout.ms": "900000",
    "share.coordinator.state.topic.num.partitions": "1",  # which of them has something goes by ids of topics
    **CLASSIC_GROUPS,
    **CONSUMER_GROUPS,
    **SHARE_GROUPS,
    **STREAMS_GROUPS,
}
PRODUCE, JOIN_GROUP = 0, 11
CHANGING = {19, 20, 37}
"""APIs that are not damaged: Kafka does not look at bytes behind a request, and these would change topics."""

KINDS: dict[str, tuple[Callable[[Talk], None], ...]] = {
    "logs": CONVERSATIONS_OF_LOGS,
    "classic-groups": CONVERSATIONS_OF_CLASSIC_GROUPS,
    "consumer-groups": CONVERSATIONS_OF_CONSUMER_GROUPS,
    "offsets": CONVERSATIONS_OF_OFFSETS,
    "share-groups": CONVERSATIONS_OF_SHARE_GROUPS,
    "streams-groups": CONVERSATIONS_OF_STREAMS_GROUPS,
    "transactions": CONVERSATIONS_OF_TRANSACTIONS,
    "transactional-writes": CONVERSATIONS_OF_TRANSACTIONAL_WRITES,
    "refusals": CONVERSATIONS_OF_REFUSALS,
}
SIMULATED = frozenset({"consumer-groups", "share-groups", "streams-groups", "transactions", "transactional-writes"})
"""Kinds whose conversations mostly wait. `tests/sim` replays them on a simulated broker, where time costs nothing."""


class Server(NamedTuple):
    client: RawClient
    controller: RawClient
    facts: ServerFacts


class Series(NamedTuple):
    name: str
    conduct: Callable[[Server], list[Exchange]]


# -- what a server needs first ---------------------------------------------------------------------------------------


def furnished(client: Any) -> ServerFacts:
    """Topics with records, the same on every server."""
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
    written = partial(client.ask, request, 9)
    until_good(client, written, lambda answer: answer.responses[0].partition_responses[0].error_code)
    given_id = partial(client.ask, InitProducerIdRequest(transactional_id=None), 4)
    until_good(client, given_id, lambda answer: answer.error_code)
    described: Any = client.ask(MetadataRequest(topics=None), 12)
    dirs: Any = client.ask(DescribeLogDirsRequest(topics=None), 4)
    return ServerFacts(dirs.results[0].log_dir, {topic.name: topic.topic_id for topic in described.topics})


def identified(facts: ServerFacts, controller: RawClient) -> ServerFacts:
    """With what the broker itself knows: its epoch, which the controller confirms to it alone, and its directory."""
    properties = Path(facts.log_dir, "meta.properties").read_text()
    (directory_id,) = re.findall(r"^directory\.id=(.{22})$", properties, re.MULTILINE)
    for epoch in range(1000):
        answer: Any = controller.ask(BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch), 1)
        if not answer.error_code:
            return replace(facts, broker_epoch=epoch, directory_id=urlsafe_b64decode(directory_id + "=="))
    raise AssertionError("the broker has no epoch")


def until_good(client: Any, ask: Callable[[], Response], code_in: Callable[[Any], int]) -> None:
    pause = getattr(client, "pause", time.sleep)
    for _ in range(100):
        if not code_in(ask()):
            return
        pause(0.1)
    raise AssertionError("it does not come to work")


# -- requests --------------------------------------------------------------------------------------------------------


def outcome(request: Request, ask: Callable[[], Response]) -> Shape:
    try:
        return brief(opened(request, ask()))
    except NoAnswer as found:
        return str(found)


def cases(server: Server) -> list[Exchange]:
    return [_asked(server.client, case, case.name) for case in all_cases(server.facts)]


def controller_cases(server: Server) -> list[Exchange]:
    """On its own listener, where it is asked as an administrator may, past all brokers."""
    return [
        _asked(server.controller, case, f"controller: {case.name}")
        for case in all_cases(server.facts)
        if case.request.KEY in CONTROLLER_HANDLERS and not re.search("unknown operation|the most", case.name)
    ]


def _asked(client: RawClient, case: Case, name: str) -> Exchange:
    request = fingerprint((case.request, case.version))
    return Exchange(name, request, outcome(case.request, partial(client.ask, case.request, case.version)))


def converse(conversation: Callable[[Talk], None], server: Server) -> list[Exchange]:
    talk = Talk(server.client, server.facts)
    conversation(talk)
    return talk.exchanges()


def second_broker_registered(server: Server) -> list[Exchange]:
    broker, controller = Talk(server.client, server.facts), Talk(server.controller, server.facts)
    controller.answers = broker.answers
    second_broker(broker, controller)
    return broker.exchanges()


def controller_errors_met(server: Server) -> list[Exchange]:
    controller = Talk(server.controller, server.facts)
    controller_errors(controller)
    return controller.exchanges()


# -- damaged bytes ---------------------------------------------------------------------------------------------------


def damaged_requests(server: Server) -> list[Exchange]:
    """Of every API and version the first case, damaged in each way, for the listener that serves the API."""
    found: list[Exchange] = []
    for case in first_cases():
        api = api_of(case.request.KEY)
        client = server.client if api.key in BROKER_HANDLERS else server.controller
        frame = client.frame_of(case.request, case.version)
        is_flexible = case.version >= api.flexible_from
        for how, bad in damaged(frame, api.last_version + 1, is_flexible=is_flexible):
            if api.key == API_VERSIONS and "version" in how:
                continue  # it answers these, in version 0
            found.append(_met(client, f"{case.name}, {how}", case.request, case.version, bad))
    return found


def first_cases() -> Iterator[Case]:
    tried: set[tuple[int, int]] = set()
    for case in all_cases(ServerFacts("/nowhere", {DATA: UNKNOWN_ID, COMPACTED: UNKNOWN_ID})):
        key = case.request.KEY
        if key == PRODUCE and not case.name.endswith("nothing"):
            continue  # what one of them writes, when the other does not, would be seen by all that come later
        if key == JOIN_GROUP and "''" not in case.name:
            continue  # a group without a name has no members that would wait for each other
        if (key, case.version) not in tried and key not in CHANGING:
            tried.add((key, case.version))
            yield case


def _met(client: RawClient, name: str, request: Request, version: int, frame: bytes) -> Exchange:
    response = outcome(request, lambda: client.answer_to(request.KEY, version, frame))
    return Exchange(name, fingerprint_of_frame(frame), response)


def damaged_texts(server: Server) -> list[Exchange]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a-topic")], allow_auto_topic_creation=False)
    frames = ((each, server.client.frame_of(request, each)) for each in range(4, 13))
    return [
        _met(server.client, f"Metadata v{version}", request, version, damaged_text(frame, b"a-topic"))
        for version, frame in frames
    ]


def impossible_sizes(server: Server) -> list[Exchange]:
    found: list[Exchange] = []
    for size in SIZES:
        frame = struct.pack(">i", size) + bytes(max(min(size, 100), 0))
        with socket.create_connection(server.client.address, TIMEOUT_SECONDS) as sock:
            sock.sendall(frame)
            response = sock.recv(1).hex() or "closed"
        found.append(Exchange(f"a request of {size} bytes", fingerprint_of_frame(frame), response))
    return found


def future_api_versions(server: Server) -> list[Exchange]:
    body = struct.pack(">hhih", API_VERSIONS, 99, 42, -1)
    tails = (b"", b"\0", b"\0\1\1\0", b"\0junk", b"junk")
    request = ApiVersionsRequest()
    return [_met(server.client, f"ApiVersions v99 with {tail!r}", request, 0, sized(body + tail)) for tail in tails]


REQUESTS: tuple[Series, ...] = (
    Series("requests", cases),
    Series("requests-to-the-controller", controller_cases),
    Series("damaged-requests", damaged_requests),
    Series("damaged-texts", damaged_texts),
    Series("second-broker", second_broker_registered),
    Series("impossible-sizes", impossible_sizes),
    Series("future-api-versions", future_api_versions),
    Series("controller-errors", controller_errors_met),
    *(
        Series(f"last/{each.__name__}", partial(converse, each)) for each in LAST_WORDS
    ),  # the server is of no use afterwards
)
"""In this order for one server: each series depends on the changes of the series before it."""
QUORUM: tuple[Series, ...] = (
    Series("unserved-apis", lambda server: unserved_apis(server.client, server.controller)),
    Series("unsupported-versions", lambda server: unsupported_versions(server.client, server.controller)),
    Series("quorum-requests", lambda server: quorum_requests(server.client, server.controller, server.facts.log_dir)),
)
"""In this order, for a server whose voters are in its log."""
CONVERSATIONS: tuple[Series, ...] = tuple(
    Series(f"{kind}/{each.__name__}", partial(converse, each)) for kind in KINDS for each in KINDS[kind]
)
"""In any order, for a server that has received no other requests."""
