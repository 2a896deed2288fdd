from __future__ import annotations

import pytest

from support.brokers.handler_calls import CONTROLLER_LISTENER, ask, versions_of
from support.brokers.stub import CLUSTER_ID, StubNode, broker, controller
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest

MISMATCHED, UNSUPPORTED = 114, 115
INVALID_REQUEST = 42
BROKERS, CONTROLLERS = 1, 2


@pytest.fixture
def node() -> StubNode:
    node = StubNode()
    node.learn(broker(1, rack="r1"), broker(2, fenced=True), controller(1), controller(4))
    return node


@pytest.mark.parametrize("version", versions_of(DescribeClusterRequest))
def test_the_brokers_of_the_listener(node: StubNode, version: int) -> None:
    answer = ask(node, DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, CLUSTER_ID, 1)
    assert answer.endpoint_type == BROKERS
    assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [(1, "plaintext1", 9001, "r1")]
    assert answer.cluster_authorized_operations == 8096


def test_fenced_brokers_on_demand(node: StubNode) -> None:
    answer = ask(node, DescribeClusterRequest(include_fenced_brokers=True))
    assert [(b.broker_id, b.is_fenced) for b in answer.brokers] == [(1, False), (2, True)]
    assert answer.controller_id == 1
    assert answer.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", versions_of(DescribeClusterRequest)[1:])
def test_controllers_on_their_own_listener(node: StubNode, version: int) -> None:
    asked = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    answer = ask(node, asked, version, listener=CONTROLLER_LISTENER)
    assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [
        (1, "controller1", 9101),
        (4, "controller4", 9104),
    ]
    assert (answer.controller_id, answer.error_code) == (1, 0)
    assert answer.endpoint_type == CONTROLLERS


def test_version_0_has_no_word_for_controllers(node: StubNode) -> None:
    answer = ask(node, DescribeClusterRequest(), 0, listener=CONTROLLER_LISTENER)
    assert (answer.error_code, answer.brokers, answer.cluster_id) == (INVALID_REQUEST, [], "")


def test_a_leader_that_is_not_listed_is_not_named(node: StubNode) -> None:
    node.quorum.leader_id = 9
    answer = ask(node, DescribeClusterRequest(endpoint_type=CONTROLLERS), listener=CONTROLLER_LISTENER)
    assert answer.controller_id == -1


def test_the_other_kind_of_endpoint(node: StubNode) -> None:
    assert ask(node, DescribeClusterRequest(endpoint_type=CONTROLLERS)).error_code == MISMATCHED
    answer = ask(node, DescribeClusterRequest(endpoint_type=BROKERS), listener=CONTROLLER_LISTENER)
    assert (answer.error_code, answer.brokers) == (MISMATCHED, [])


def test_a_kind_of_endpoint_that_does_not_exist(node: StubNode) -> None:
    assert ask(node, DescribeClusterRequest(endpoint_type=7)).error_code == UNSUPPORTED
