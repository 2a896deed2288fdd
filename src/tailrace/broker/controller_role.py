"""The controller role of a node: its controller, which is active while the node leads the metadata quorum.

A node with this role serves the controller listeners. Where it runs the only controller of the quorum, it is also the
link of the node to the active controller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.context import RequestContext
from tailrace.broker.controller_registrar import ControllerRegistrar
from tailrace.controller.controller import Controller
from tailrace.controller.state import ControllerIdentity
from tailrace.metadata.endpoint import Endpoint
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.add_raft_voter import AddRaftVoterRequest
from tailrace.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest

if TYPE_CHECKING:
    from tailrace.broker.node import Node


class ControllerRole:
    def __init__(self, node: Node) -> None:
        """Touches no file."""
        self.controller: Controller
        self._node = node
        self._registrar: ControllerRegistrar

    def open(self, endpoints: tuple[Endpoint, ...], incarnation_id: bytes) -> None:
        """The quorum was created and not started. `endpoints` are what other nodes connect to."""
        node, metadata = self._node, self._node.metadata
        identity = ControllerIdentity(node.node_id, node.cluster_id, incarnation_id, endpoints, node.supported_features)
        self.controller = Controller(metadata.quorum, node.env, node.live, identity, metadata.image, node.metrics)
        metadata.loader.controller = self.controller
        self._registrar = ControllerRegistrar(self.controller, node.controller, metadata.image, node.env)

    def send(self, request: Request, version: int, done: Callable[[Response], None]) -> None:
        """See ControllerLink."""
        self._handle(request, version, None, done)

    def forward(self, request: Request, context: RequestContext, done: Callable[[Response], None]) -> None:
        """See ControllerLink."""
        self._handle(request, context.version, context, done)

    def probe(self, done: Callable[[bool], None]) -> None:
        """See ControllerLink: the only controller runs."""
        done(False)

    def _handle(
        self, request: Request, version: int, context: RequestContext | None, done: Callable[[Response], None]
    ) -> None:
        """Changes of the voters are the quorum's to decide, all else is the controller's."""
        if isinstance(request, AddRaftVoterRequest | RemoveRaftVoterRequest):
            self._node.quorum.handle(request, version, "", done)
        else:
            self.controller.handle(request, version, context, done)

    def tick(self) -> None:
        """On the node's thread, a few times a second."""
        self.controller.tick(self._node.env.clock.monotonic_ms())
        self._registrar.tick()
