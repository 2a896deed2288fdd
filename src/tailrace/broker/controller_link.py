"""How requests of this node, and of its clients, reach the active controller, in this process or another one.

ControllerRole      the link of a node that runs the only controller of its quorum
RemoteController    the link of every other node: it finds the active controller again when that changes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tailrace.broker.context import RequestContext
from tailrace.protocol.message import Request, Response

Done = Callable[[Response], None]


class ControllerLink(Protocol):
    def send(self, request: Request, version: int, done: Done) -> None:
        """Send a request of this node itself to the active controller.

        `done` is called exactly once, on the node's thread, possibly during this call. Its response has the type that
        belongs to the request: if no controller responds in time, the link responds with an error itself.

        `version` is the newest version that the sender knows. A controller in another process gets the request in the
        highest version that both sides have.
        """

    def forward(self, request: Request, context: RequestContext, done: Done) -> None:
        """Send a client's request, which must be forwardable, in the version of the client.

        As `send`, with one exception: if the active controller cannot decode the request, the connection of the client
        is closed, and `done` is not called. The client then connects and asks for the versions again.
        """

    def probe(self, done: Callable[[bool], None]) -> None:
        """Call `done` with whether too many controllers refuse connections for one to be active.

        A controller that cannot be reached, or does not respond, is no evidence: it may be active.
        """
