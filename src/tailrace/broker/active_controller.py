"""Where the active controller is: what the metadata quorum knows about its leader.

`RemoteController` asks before every attempt, and is notified of changes so that waiting requests leave at once. It
probes the other controllers for a broker that leaves. The interface is small so that tests can script it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tailrace.config.voters import Address
from tailrace.model.listeners import Listeners


class ActiveController(NamedTuple):
    node_id: int
    epoch: int
    """Of the quorum. A node that leads again after a restart has another epoch."""
    address: Address
    """Of its controller listener: the first name in `controller.listener.names` of this node."""


class OtherControllers(NamedTuple):
    """The voters of the quorum in other processes, as far as this node knows them."""

    addresses: tuple[Address, ...]
    blocking_count: int
    """If this many of them do not run, the others are no majority, and none can be active."""


class ActiveControllerSource(Protocol):
    """Used on the node's thread only."""

    @property
    def active_controller(self) -> ActiveController | None:
        """None while the leader or its endpoint is unknown."""

    @property
    def other_controllers(self) -> OtherControllers:
        """The bootstrap servers while no voters are known."""

    @property
    def on_active_controller_changed(self) -> Listeners[()]:
        """Notified when `active_controller` has another value, never from within a call of the link."""
