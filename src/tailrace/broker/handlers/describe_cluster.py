"""DescribeCluster: the brokers, to clients of a broker listener; the controllers, to those of a controller listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.endpoints import ListenerView
from tailrace.broker.operations import CLUSTER_OPERATIONS
from tailrace.model.errors import (
    InvalidRequestError,
    MismatchedEndpointTypeError,
    TailraceError,
    UnsupportedEndpointTypeError,
)
from tailrace.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

BROKERS: Final = 1
CONTROLLERS: Final = 2
ENDPOINT_TYPES: Final = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}
NO_CONTROLLER: Final = -1


def handle(
    node: Node,
    context: RequestContext,
    request: DescribeClusterRequest,
    reply: Callable[[DescribeClusterResponse], None],
) -> None:
    here = CONTROLLERS if context.is_controller_listener else BROKERS
    wanted = request.endpoint_type
    if context.version == 0 and here != BROKERS:  # version 0 knows no other type, nor the errors that came with it
        reply(
            _refused(InvalidRequestError("this listener is for CONTROLLER endpoints, which version 0 cannot ask for"))
        )
        return
    if wanted not in ENDPOINT_TYPES:
        reply(_refused(UnsupportedEndpointTypeError(f"Unsupported endpoint type {wanted}")))
        return
    if wanted != here:
        text = f"this listener is for {ENDPOINT_TYPES[here]} endpoints, the request is for {ENDPOINT_TYPES[wanted]}"
        reply(_refused(MismatchedEndpointTypeError(text)))
        return
    if context.is_controller_listener:
        brokers, controller_id = _controllers(node, context.listener), node.quorum.leader_id
    else:
        brokers, controller_id = _brokers(node, context, request.include_fenced_brokers)
    is_listed = any(broker.broker_id == controller_id for broker in brokers)
    response = DescribeClusterResponse(
        cluster_id=node.cluster_id, controller_id=controller_id if is_listed else NO_CONTROLLER, brokers=brokers
    )
    if context.version > 0:
        response.endpoint_type = here
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    reply(response)


def _refused(error: TailraceError) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error.code, error_message=str(error))


def _brokers(node: Node, context: RequestContext, with_fenced: bool) -> tuple[list[DescribeClusterBroker], int]:
    view = ListenerView(node.image, context.listener)
    alive = view.brokers()
    brokers = [
        DescribeClusterBroker(broker_id=b.id, host=b.host, port=b.port, rack=b.rack, is_fenced=b.is_fenced)
        for b in (view.brokers(with_fenced=True) if with_fenced else alive)
    ]
    return brokers, node.env.random.choice(alive).id if alive else NO_CONTROLLER


def _controllers(node: Node, listener: str) -> list[DescribeClusterBroker]:
    return [
        DescribeClusterBroker(broker_id=controller.id, host=endpoint.host, port=endpoint.port)
        for controller in node.image.controllers.values()
        for endpoint in controller.endpoints
        if endpoint.name == listener
    ]
