"""Parts that the answers to ShareFetch and ShareAcknowledge have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.broker.share_sessions import Place
from tailrace.model.errors import FencedLeaderEpochError, NotLeaderOrFollowerError

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_TELLS_LEADER: Final = (NotLeaderOrFollowerError.code, FencedLeaderEpochError.code)


class Leader(NamedTuple):
    """Where to go instead."""

    node_id: int
    epoch: int
    endpoint: dict[str, Any] | None
    """Fields of a NodeEndpoint."""


def leader_instead(node: Node, place: Place, error_code: int, listener: str) -> Leader | None:
    """None unless the error says that another broker leads the partition."""
    topic = node.image.topic_by_id(place.topic_id)
    registration = None if topic is None else topic.partitions.get(place.partition)
    if error_code not in _TELLS_LEADER or registration is None:
        return None
    broker = node.image.brokers.get(registration.leader)
    found = None if broker is None else broker.endpoint(listener)
    endpoint = None
    if broker is not None and found is not None:
        endpoint = {"node_id": broker.id, "host": found.host, "port": found.port, "rack": broker.rack}
    return Leader(registration.leader, registration.leader_epoch, endpoint)
