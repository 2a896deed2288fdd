"""FindCoordinator: any broker says who coordinates what, and makes the coordinator's topic when it is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.brokers.simulated import SimBroker
from tailrace.model.internal_topics import CONSUMER_OFFSETS
from tailrace.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest

GROUP = 0
SHARE = 2
NOBODY = {"node_id": -1, "port": -1, "error_message": ""}
HERE = {"node_id": 1, "host": "127.0.0.1", "port": 9092, "error_message": ""}


@pytest.mark.spec("CO-01")
def test_the_first_who_asks_is_answered_when_the_topic_is_there() -> None:
    broker = SimBroker(offsets_topic_num_partitions="9").start()
    answer = broker.client().ask(FindCoordinatorRequest(key="readers"), 3)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "127.0.0.1", 9092)
    topic = broker.node.image.topics[CONSUMER_OFFSETS]
    assert len(topic.partitions) == 9
    assert broker.node.image.configs[2, CONSUMER_OFFSETS]["cleanup.policy"] == "compact"
    assert broker.node.groups.partition_for("readers") == 7, "Java's hash of it is 1080410128"


@pytest.mark.spec("CO-01")
def test_several_groups_at_once() -> None:
    broker = SimBroker().start()
    answer = broker.client().ask(FindCoordinatorRequest(coordinator_keys=["a", "b", "a", ""]), 4)
    assert answer.coordinators == [Coordinator(key=key, **HERE) for key in ("a", "b", "a", "")]


@pytest.mark.spec("CO-01")
def test_a_partition_without_a_leader_has_no_coordinator() -> None:
    broker = SimBroker().start()
    client = broker.client()
    client.ask(FindCoordinatorRequest(key="a"), 3)
    topic = broker.node.image.topics[CONSUMER_OFFSETS]
    index = broker.node.groups.partition_for("a")
    topic.partitions[index] = replace(topic.partitions[index], leader=-1)
    answer = client.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"]), 4)
    assert answer.coordinators == [
        Coordinator(key="a", error_code=15, **NOBODY),
        Coordinator(key="b", **HERE),
    ]


@pytest.mark.parametrize(
    ("key", "version"),
    [
        ("x", 6),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ", 6),
        (":AAAAAAAAAAAAAAAAAAAAAQ:1", 6),
        ("g:xx:1", 6),
        ("g:h:AAAAAAAAAAAAAAAAAAAAAQ:1", 6),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:one", 6),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:0", 5),
    ],
)
def test_keys_of_share_groups_have_a_form(key: str, version: int) -> None:
    broker = SimBroker().start()
    request = FindCoordinatorRequest(coordinator_keys=[key], key_type=SHARE)
    assert broker.client().ask(request, version).coordinators == [Coordinator(key=key, error_code=42, **NOBODY)]
    assert broker.node.image.topics == {}


def test_a_kind_of_coordinator_that_does_not_exist() -> None:
    broker = SimBroker().start()
    answer = broker.client().ask(FindCoordinatorRequest(key="a", key_type=9), 3)
    assert (answer.error_code, answer.node_id) == (42, -1)
    assert answer.error_message
    (row,) = broker.client().ask(FindCoordinatorRequest(coordinator_keys=["a"], key_type=9), 6).coordinators
    assert row.error_code == 42
    assert row.error_message
