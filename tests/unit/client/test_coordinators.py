from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.brokers.coordinating import CoordinatingBroker
from support.brokers.scripted import HANG_UP, Pauses
from tailrace.client.cluster import Cluster
from tailrace.client.coordinators import GROUP, TRANSACTION, Coordinators
from tailrace.client.errors import ConnectionLostError, class_of
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse


@pytest.fixture
def broker() -> Iterator[CoordinatingBroker]:
    with CoordinatingBroker() as broker:
        yield broker


def asked(broker: CoordinatingBroker) -> list[list[str]]:
    return [request.coordinator_keys for request in broker.requests(FindCoordinatorRequest)]


def test_all_are_asked_for_at_once_and_remembered(broker: CoordinatingBroker, cluster: Cluster) -> None:
    coordinators = Coordinators(cluster, TRANSACTION)
    assert coordinators.by_node(["a", "b", "a"]) == {1: ["a", "b"]}
    assert coordinators.of_all(["b", "c"]) == {"b": 1, "c": 1}
    assert asked(broker) == [["a", "b"], ["c"]]
    assert {request.key_type for request in broker.requests(FindCoordinatorRequest)} == {1}
    coordinators.forget("a")
    assert coordinators.of("a") == 1
    assert asked(broker)[2:] == [["a"]]


def test_a_coordinator_that_is_not_there_yet_is_waited_for(
    broker: CoordinatingBroker, cluster: Cluster, pauses: Pauses
) -> None:
    broker.find_errors = [15, 14, 15]
    assert Coordinators(cluster, GROUP).of("g") == 1
    assert len(pauses.seconds) == 3
    broker.find_errors = [24]
    with pytest.raises(class_of(24), match="there is no coordinator of group  now"):
        Coordinators(cluster, GROUP).of("")


@pytest.mark.parametrize(("code", "finds_anew"), [(16, True), (15, True), (14, False), (88, False)])
def test_it_is_looked_for_anew_where_the_one_we_asked_is_none(
    broker: CoordinatingBroker, cluster: Cluster, code: int, finds_anew: bool
) -> None:
    errors = [class_of(code)("not now")] * 2

    def attempt(node_id: int) -> int:
        if errors:
            raise errors.pop()
        return node_id

    assert Coordinators(cluster, GROUP).ask("asking", "g", attempt) == 1
    assert len(asked(broker)) == (3 if finds_anew else 1)


def test_a_lost_connection_is_a_reason_to_look_anew(broker: CoordinatingBroker, cluster: Cluster) -> None:
    errors = [ConnectionLostError("gone")]

    def attempt(node_id: int) -> int:
        if errors:
            raise errors.pop()
        return node_id

    assert Coordinators(cluster, GROUP).ask("asking", "g", attempt) == 1
    assert len(asked(broker)) == 2


def test_an_error_that_lasts_is_raised(broker: CoordinatingBroker, cluster: Cluster) -> None:
    def attempt(_: int) -> None:
        raise class_of(69)("no such group")

    with pytest.raises(class_of(69)):
        Coordinators(cluster, GROUP).ask("asking", "g", attempt)
    assert len(asked(broker)) == 1


def test_a_broker_that_leaves_one_out_is_not_believed(broker: CoordinatingBroker, cluster: Cluster) -> None:
    answers = iter([FindCoordinatorResponse(), HANG_UP])
    broker.answers[FindCoordinatorRequest] = lambda request: next(answers, None) or broker.find_coordinator(request)
    assert Coordinators(cluster, GROUP).of("g") == 1
