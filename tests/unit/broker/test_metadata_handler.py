from __future__ import annotations

import pytest

from support.brokers.handler_calls import ask, begin, versions_of
from support.brokers.stub import CLUSTER_ID, StubNode, broker, topic, topic_id
from tailrace.broker.forwarding import LONGEST_WAIT_MS
from tailrace.model.ids import LOST_DIRECTORY
from tailrace.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, INVALID_TOPIC = 3, 5, 9, 17
INVALID_REQUEST, LISTENER_NOT_FOUND, UNKNOWN_TOPIC_ID = 42, 72, 100
NOT_SAID = -(2**31)


def by_name(*names: str | None, create: bool = False, **options: bool) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create, **options)


def by_id(*ids: bytes) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(topic_id=each, name=None) for each in ids])


@pytest.fixture
def node() -> StubNode:
    node = StubNode()
    node.learn(broker(1, rack="r1"), *topic("orders", 2, leader_epoch=3), *topic("__consumer_offsets"))
    return node


@pytest.mark.parametrize("version", versions_of(MetadataRequest))
def test_every_version_names_brokers_leaders_and_replicas(node: StubNode, version: int) -> None:
    request = by_name("orders", create=True) if version < 4 else by_name("orders")
    answer = ask(node, request, version)
    (seen,) = answer.brokers
    assert (seen.node_id, seen.host, seen.port) == (1, "plaintext1", 9001)
    assert seen.rack == ("r1" if version >= 1 else None)
    assert answer.cluster_id == (CLUSTER_ID if version >= 2 else None)
    assert answer.controller_id == (1 if version >= 1 else -1)
    (described,) = answer.topics
    assert (described.name, described.error_code, described.is_internal) == ("orders", 0, False)
    assert described.topic_id == (topic_id("orders") if version >= 10 else bytes(16))
    assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in described.partitions] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]
    assert {p.leader_epoch for p in described.partitions} == {3 if version >= 7 else -1}


def test_no_list_means_all_topics_and_an_empty_one_none(node: StubNode) -> None:
    assert {t.name for t in ask(node, MetadataRequest(topics=None), 9).topics} == {"orders", "__consumer_offsets"}
    assert ask(node, MetadataRequest(topics=[]), 9).topics == []


def test_in_version_0_an_empty_list_means_all_topics(node: StubNode) -> None:
    assert len(ask(node, MetadataRequest(topics=[]), 0).topics) == 2


def test_internal_topics_are_marked(node: StubNode) -> None:
    assert ask(node, by_name("__consumer_offsets")).topics[0].is_internal


def test_a_name_given_twice_is_answered_once(node: StubNode) -> None:
    assert [t.name for t in ask(node, by_name("orders", "orders")).topics] == ["orders"]


def test_topics_by_id(node: StubNode) -> None:
    unknown = b"x" * 16
    answer = ask(node, by_id(unknown, topic_id("orders")))
    assert [(t.error_code, t.name, t.topic_id) for t in answer.topics] == [
        (UNKNOWN_TOPIC_ID, None, unknown),
        (0, "orders", topic_id("orders")),
    ]


def test_where_there_are_ids_names_are_not_looked_at(node: StubNode) -> None:
    request = by_id(topic_id("orders"))
    request.topics.append(MetadataRequestTopic(name="__consumer_offsets"))
    assert [t.name for t in ask(node, request).topics] == ["orders"]


@pytest.mark.parametrize("version", [10, 11])
def test_versions_with_ids_that_nobody_may_use_refuse_them(node: StubNode, version: int) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id("orders"), name="orders")])
    answer = ask(node, request, version)
    assert [(t.error_code, t.name) for t in answer.topics] == [(INVALID_REQUEST, "orders")]
    assert answer.brokers == []
    (nameless,) = ask(node, by_name(None), version).topics
    assert (nameless.error_code, nameless.name) == (INVALID_REQUEST, "")


def test_neither_name_nor_id_fails_the_whole_request(node: StubNode) -> None:
    answer = ask(node, by_name(None, "orders"), 13)
    assert answer.error_code == -1
    assert [(t.error_code, t.name) for t in answer.topics] == [(-1, ""), (-1, "orders")]


def test_unknown_and_illegal_names(node: StubNode) -> None:
    answer = ask(node, by_name("nope", "bad/name", "", "x" * 250, ".."))
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("nope", UNKNOWN_TOPIC),
        ("bad/name", INVALID_TOPIC),
        ("", INVALID_TOPIC),
        ("x" * 250, INVALID_TOPIC),
        ("..", INVALID_TOPIC),
    ]
    assert node.controller.sent == []


def test_operations_are_told_only_on_demand(node: StubNode) -> None:
    quiet = ask(node, by_name("orders", "nope"), 8)
    assert {quiet.cluster_authorized_operations, *(t.topic_authorized_operations for t in quiet.topics)} == {NOT_SAID}
    both = by_name(
        "orders", "nope", include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    told = ask(node, both, 8)
    assert told.cluster_authorized_operations == 8096
    assert [t.topic_authorized_operations for t in told.topics] == [3576, 3576]


# On first use


def test_an_unknown_topic_is_asked_for_once_and_whoever_asks_waits_for_it(node: StubNode) -> None:
    request = by_name("new", "bad/name", create=True)
    waiting = [begin(node, request, 12) for _ in range(2)]
    assert waiting == [[], []]
    ((sent, version),) = node.controller.sent
    assert isinstance(sent, CreateTopicsRequest)
    assert version == 7
    assert [(t.name, t.num_partitions, t.replication_factor) for t in sent.topics] == [("new", 1, 1)]
    node.controller.answer(CreateTopicsResponse(topics=[CreatableTopicResult(name="new", error_code=38)]))
    for (answer,) in waiting:
        assert [(t.name, t.error_code) for t in answer.topics] == [("new", UNKNOWN_TOPIC), ("bad/name", INVALID_TOPIC)]
    begin(node, request, 12)
    assert len(node.controller.sent) == 2


def test_a_creation_that_takes_too_long_is_answered_as_in_kafka(node: StubNode) -> None:
    """The topics that exist do not wait longer for one that does not."""
    answers = begin(node, by_name("orders", "new", create=True), 12)
    jobs, clock = node.world.jobs, node.world.clock
    jobs.tick(clock.now_ms() + LONGEST_WAIT_MS - 1)
    jobs.run_all()
    assert answers == []
    jobs.tick(clock.now_ms() + 1)
    jobs.run_all()
    assert [(t.name, t.error_code, len(t.partitions)) for t in answers[0].topics] == [
        ("orders", 0, 2),
        ("new", UNKNOWN_TOPIC, 0),
    ]
    node.controller.answer(CreateTopicsResponse(topics=[CreatableTopicResult(name="new")]))
    assert len(answers) == 1


def test_requests_that_were_answered_are_not_kept_for_a_creation(node: StubNode) -> None:
    """Clients retry for as long as the controller does not answer."""
    jobs, clock = node.world.jobs, node.world.clock
    for _ in range(3):
        begin(node, by_name("new", "newer", create=True), 12)
        assert [len(waiting) for waiting in node.auto_topics._under_way.values()] == [1, 1]
        jobs.tick(clock.now_ms() + 2000)
        jobs.run_all()
    assert len(node.controller.sent) == 1
    created = [CreatableTopicResult(name=name) for name in ("new", "newer")]
    node.controller.answer(CreateTopicsResponse(topics=created))
    assert not node.auto_topics._under_way


def test_without_leave_of_client_or_broker_nothing_is_created(node: StubNode) -> None:
    ask(node, by_name("new", create=False))
    node.config.auto_create_topics_enable = False
    ask(node, by_name("new", create=True))
    assert node.controller.sent == []


def test_the_topic_of_group_offsets_gets_settings_of_its_own() -> None:
    node = StubNode(
        offsets_topic_num_partitions=50, offsets_topic_replication_factor=3, offsets_topic_segment_bytes=104857600
    )
    node.learn(broker(1))
    begin(node, by_name("__consumer_offsets", create=True), 12)
    (created,) = node.controller.sent[0][0].topics
    assert (created.num_partitions, created.replication_factor) == (50, 3)
    assert {c.name: c.value for c in created.configs}["cleanup.policy"] == "compact"


# Brokers that cannot be reached


def test_brokers_are_those_of_the_listener_that_are_not_fenced() -> None:
    node = StubNode()
    node.learn(
        broker(1, listeners=("PLAINTEXT", "INTERNAL")), broker(2, fenced=True), broker(3, listeners=("INTERNAL",))
    )
    assert [b.node_id for b in ask(node, MetadataRequest(topics=[])).brokers] == [1]
    internal = ask(node, MetadataRequest(topics=[]), listener="INTERNAL").brokers
    assert [(b.node_id, b.host) for b in internal] == [(1, "internal1"), (3, "internal3")]


def test_a_cluster_that_goes_down_does_not_say_that_it_has_no_brokers() -> None:
    node = StubNode()
    node.learn(broker(1, fenced=True), *topic("orders"))
    assert [each.node_id for each in ask(node, by_name("orders"), 9).brokers] == [1]


def test_offline_replicas_are_on_fenced_absent_or_hidden_brokers_or_in_a_lost_directory() -> None:
    node = StubNode()
    node.learn(broker(1), broker(2, fenced=True), broker(3, listeners=("OTHER",)))
    node.learn(*topic("a", replicas=(1, 2, 3, 4)), *topic("b", directories=[LOST_DIRECTORY]))
    offline = {t.name: t.partitions[0].offline_replicas for t in ask(node, by_name("a", "b")).topics}
    assert offline == {"a": [2, 3, 4], "b": [1]}


@pytest.mark.parametrize("version", versions_of(MetadataRequest))
def test_a_leader_that_is_gone_or_hidden(version: int) -> None:
    node = StubNode()
    node.learn(broker(1), broker(3, listeners=("OTHER",)))
    node.learn(*topic("gone", replicas=(2, 1)), *topic("hidden", replicas=(3, 1)), *topic("none", leader=-1))
    request = by_name("gone", "hidden", "none", create=version < 4)
    partitions = {t.name: t.partitions[0] for t in ask(node, request, version).topics}
    assert {p.leader_id for p in partitions.values()} == {-1}
    hidden = LISTENER_NOT_FOUND if version >= 6 else LEADER_NOT_AVAILABLE
    assert {name: p.error_code for name, p in partitions.items()} == {
        "gone": LEADER_NOT_AVAILABLE,
        "hidden": hidden,
        "none": LEADER_NOT_AVAILABLE,
    }


def test_version_0_leaves_out_replicas_that_are_not_alive() -> None:
    node = StubNode()
    node.learn(broker(1), *topic("a", replicas=(1, 2)))
    (old,) = ask(node, by_name("a", create=True), 0).topics[0].partitions
    assert (old.error_code, old.replica_nodes, old.isr_nodes) == (REPLICA_NOT_AVAILABLE, [1], [1])
    (new,) = ask(node, by_name("a", create=True), 1).topics[0].partitions
    assert (new.error_code, new.replica_nodes, new.isr_nodes) == (0, [1, 2], [1, 2])
