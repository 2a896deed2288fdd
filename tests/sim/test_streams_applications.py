"""Applications of Kafka Streams and a whole broker: their topics, a restart, and brokers that do not serve them."""

from __future__ import annotations

from typing import Any

from support.brokers.simulated import SimBroker
from support.conversations.consumer_members import make_topic
from support.conversations.conversation import Talk
from support.conversations.simulated import PausingClient
from support.conversations.streams_groups import SETTINGS
from support.conversations.streams_members import StreamsParty, Thread, subtopology, topology
from support.coordinators.group_records import texts
from support.requests.case import ServerFacts
from tailrace.coordinator.streams.status import StatusCode
from tailrace.model.errors import UnsupportedVersionError
from tailrace.protocol.messages.create_topics import CreateTopicsRequest
from tailrace.protocol.messages.streams_group_heartbeat import TopicInfo
from tailrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

HEARTBEAT_MS = 5_000
TO_LOWER = 2
"""The kind of a change of a feature that may lose something."""


def a_party(broker: SimBroker) -> StreamsParty:
    client: Any = PausingClient(broker)
    return StreamsParty(Talk(client, ServerFacts("")), "app")


def an_application(broker: SimBroker, **store: Any) -> tuple[StreamsParty, Thread]:
    party = a_party(broker)
    make_topic(party.talk, "app-in", 2)
    info = TopicInfo(name="app-store", **store)
    return party, party.thread("a", topology(subtopology("0", "app-in", state_changelog_topics=[info])))


def orders_of(broker: SimBroker) -> list[CreateTopicsRequest]:
    """What the controller is asked to make, from now on."""
    orders: list[CreateTopicsRequest] = []
    send = broker.node.controller.send

    def noting(request: Any, version: int, done: Any) -> None:
        if isinstance(request, CreateTopicsRequest):
            orders.append(request)
        send(request, version, done)

    broker.node.controller.send = noting  # type: ignore[method-assign]
    return orders


def test_what_could_not_be_made_is_told_and_tried_again_later() -> None:
    broker = SimBroker(**texts(SETTINGS)).start()
    party, thread = an_application(broker, replication_factor=5)
    orders = orders_of(broker)
    details = []

    def beat() -> None:
        fields: dict[str, Any] = {} if thread.epoch else {"rebalance_timeout_ms": 1_000, "topology": thread._topology}
        request = party.request(thread.id, thread.epoch, held=thread.held, **fields)
        answer: Any = party.talk._client.ask(request, 0)
        thread._heard(answer)
        assert [status.status_code for status in answer.status] == [StatusCode.MISSING_INTERNAL_TOPICS]
        details.append(answer.status[0].status_detail)

    beat()
    beat()
    broker.pass_time(HEARTBEAT_MS)
    beat()
    assert len(orders) == 1
    assert "could not be created" in details[-1]
    assert "app-store (" in details[-1]
    broker.pass_time(HEARTBEAT_MS + 1)
    beat()
    assert len(orders) == 2


def test_a_topic_is_ordered_once_however_many_ask() -> None:
    broker = SimBroker(**texts(SETTINGS)).start()
    _, thread = an_application(broker)
    orders = orders_of(broker)
    waiting: list[Any] = []
    send = broker.node.controller.send
    broker.node.controller.send = lambda *order: waiting.append(order)  # type: ignore[method-assign]
    thread.join("joins")
    thread.beat("goes on")
    assert len(waiting) == 1
    broker.node.controller.send = send  # type: ignore[method-assign]
    send(*waiting[0])
    broker.pass_time(100)
    thread.beat("has its topics")
    assert len(orders) == 1
    assert thread.held["active"] == {"0": [0, 1]}
    (made,) = orders[0].topics
    assert (made.name, made.num_partitions, made.replication_factor) == ("app-store", 2, -1)


def test_an_application_goes_on_after_a_crash() -> None:
    broker = SimBroker(**texts(SETTINGS)).start()
    _, thread = an_application(broker)
    thread.join("joins")
    thread.beat("has its topics")
    before = thread.epoch
    broker.kill()
    broker.start()
    party = a_party(broker)
    answer = party.beat("goes on", "a", before, held=thread.held)
    assert (answer.error_code, answer.member_epoch, answer.active_tasks) == (0, before, None)
    assert answer.status == []


def refused(broker: SimBroker) -> None:
    party = a_party(broker)
    thread = party.thread("a", topology(subtopology("0", "in")))
    assert thread.join("joins").error_code == UnsupportedVersionError.code
    party.describe("described")
    assert party.talk.answers[-1].answer.groups[0].error_code == UnsupportedVersionError.code


def test_a_broker_may_not_serve_them() -> None:
    refused(SimBroker(group_coordinator_rebalance_protocols="classic,consumer").start())


def test_a_cluster_may_not_have_the_feature() -> None:
    broker = SimBroker().start()
    update = FeatureUpdateKey(feature="streams.version", max_version_level=0, upgrade_type=TO_LOWER)
    broker.client().ask(UpdateFeaturesRequest(feature_updates=[update]), 1)
    broker.pass_time(100)
    refused(broker)
