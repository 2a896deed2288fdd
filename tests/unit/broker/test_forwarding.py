from __future__ import annotations

import pytest

from support.brokers.handler_calls import BROKER_LISTENER, CONTROLLER_LISTENER, begin, versions_of
from support.brokers.stub import StubController, StubNode
from tailrace.broker.dispatch import BROKER_HANDLERS, CONTROLLER_HANDLERS
from tailrace.model.errors import NotControllerError
from tailrace.protocol.apis import APIS
from tailrace.protocol.message import Request
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tailrace.protocol.messages.alter_partition import AlterPartitionRequest
from tailrace.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from tailrace.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest
from tailrace.protocol.messages.controller_registration import ControllerRegistrationRequest
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest
from tailrace.protocol.messages.create_topics import CreateTopicsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest
from tailrace.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.protocol.messages.update_features import UpdateFeaturesRequest

OF_CLIENTS: list[type[Request]] = [
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeQuorumRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
]
OF_BROKERS: list[type[Request]] = [
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
]


@pytest.mark.parametrize("kind", OF_CLIENTS)
def test_clients_of_a_broker_reach_the_active_controller(kind: type[Request]) -> None:
    for version in versions_of(kind):
        node = StubNode()
        answers = begin(node, kind(), version, listener=BROKER_LISTENER)
        assert node.controller.sent == [(kind(), version)]
        node.controller.answer(APIS[kind.KEY].response())
        assert answers == [APIS[kind.KEY].response()]


@pytest.mark.parametrize("kind", OF_CLIENTS + OF_BROKERS)
def test_on_a_controller_listener_this_controller_is_meant(kind: type[Request]) -> None:
    for version in versions_of(kind):
        node = StubNode()
        node.local_controller = StubController()
        answers = begin(node, kind(), version, listener=CONTROLLER_LISTENER)
        assert (node.controller.sent, node.local_controller.sent) == ([], [(kind(), version)])
        node.local_controller.answer(APIS[kind.KEY].response())
        assert answers == [APIS[kind.KEY].response()]


def test_a_node_that_is_no_controller_says_so() -> None:
    with pytest.raises(NotControllerError):
        begin(StubNode(), CreateTopicsRequest(), 7, listener=CONTROLLER_LISTENER)


def test_brokers_do_not_serve_what_only_brokers_ask() -> None:
    assert not {kind.KEY for kind in OF_BROKERS} & BROKER_HANDLERS.keys()
    assert {kind.KEY for kind in OF_CLIENTS + OF_BROKERS} <= CONTROLLER_HANDLERS.keys()
