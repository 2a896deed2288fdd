"""Requests to the controller that Kafka's controller does not survive: it resigns, and is active again soon after."""

from __future__ import annotations

import time
from typing import Any

from support.conversations.conversation import Talk
from support.conversations.second_broker import supported_features
from support.requests.brokers import BROKER, FEATURE, LISTENER, proposal, registered_controller
from support.requests.case import DATA
from tailrace.protocol.message import Request
from tailrace.protocol.messages.alter_partition import AlterPartitionRequest, RequestTopicData
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest
from tailrace.protocol.messages.broker_registration import Feature as BrokerFeature
from tailrace.protocol.messages.broker_registration import Listener as BrokerListener
from tailrace.protocol.messages.controller_registration import Feature, Listener
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest

PROPOSAL, REGISTRATION = 3, 4
UNKNOWN_PROTOCOL = 99
LEVELS = {"in disorder": (3, 1), "below zero": (-3, -1), "partly below zero": (-1, 5)}
UNKNOWN_BROKER = 7


def controller_errors(controller: Talk) -> None:
    def ask(name: str, request: Request, version: int) -> None:
        controller.ask(name, request, version)
        _when_active(controller)

    for state in (9, -1, 127):
        ask(f"recovery state {state}", _proposal(controller, state), PROPOSAL)
    listener = Listener(name="A", host="nowhere.invalid", port=1, security_protocol=UNKNOWN_PROTOCOL)
    ask("a controller with an unknown protocol", registered_controller([listener], [FEATURE]), 0)
    for name, listener in {
        "a listener without a name": Listener(name="", host="nowhere.invalid", port=1),
        "a listener without a host": Listener(name="A", host="", port=1),
        "a listener with port 0": Listener(name="A", host="nowhere.invalid", port=0),
    }.items():
        ask(f"a controller with {name}", registered_controller([listener], [FEATURE]), 0)
    ask("a controller with a feature without a name", registered_controller([LISTENER], [Feature()]), 0)
    for how, (first, last) in LEVELS.items():
        feature = Feature(name="f", min_supported_version=first, max_supported_version=last)
        ask(f"a controller with levels {how}", registered_controller([LISTENER], [feature]), 0)

    def register(name: str, listeners: list[BrokerListener], features: list[BrokerFeature]) -> None:
        request = _broker(cluster.cluster_id, listeners, features)
        controller.note(name, controller._client.ask(request, REGISTRATION))
        _when_active(controller)

    cluster: Any = controller._client.ask(DescribeClusterRequest(endpoint_type=2), 1)
    known = supported_features(controller)
    unknown = BrokerListener(name="A", host="nowhere.invalid", port=1, security_protocol=UNKNOWN_PROTOCOL)
    register("a broker with an unknown protocol", [unknown], known)
    for name, other in {
        "a listener without a host": BrokerListener(name="A", host="", port=1),
        "a listener with port 0": BrokerListener(name="A", host="nowhere.invalid", port=0),
    }.items():
        register(f"a broker with {name}", [other], known)
    register("a broker with a feature without a name", [], [*known, BrokerFeature()])
    twice = [BrokerListener(name="A", host="nowhere.invalid", port=port) for port in (1, 2)]
    register("a broker with a listener twice", twice, known)
    for how, (first, last) in LEVELS.items():
        wrong = BrokerFeature(name="f", min_supported_version=first, max_supported_version=last)
        register(f"a broker with levels {how}", [], [*known, wrong])
    ask("the broker unregistered", UnregisterBrokerRequest(broker_id=UNKNOWN_BROKER), 0)


def _proposal(controller: Talk, recovery: int) -> AlterPartitionRequest:
    made = proposal(PROPOSAL, 1, recovery=recovery)
    topics = [RequestTopicData(topic_id=controller.facts.topic_ids[DATA], partitions=[made])]
    return AlterPartitionRequest(broker_id=BROKER, broker_epoch=controller.facts.broker_epoch, topics=topics)


def _broker(
    cluster_id: str, listeners: list[BrokerListener], features: list[BrokerFeature]
) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=UNKNOWN_BROKER,
        cluster_id=cluster_id,
        incarnation_id=b"an incarnation..",
        listeners=listeners,
        features=features,
        rack=None,
        log_dirs=[b"a directory's id"],
    )


def _when_active(controller: Talk) -> None:
    for _ in range(100):
        answer: Any = controller._client.ask(registered_controller([LISTENER], [FEATURE]), 0)
        if not answer.error_code:
            return
        time.sleep(0.1)
    raise AssertionError("there is no active controller")
