"""Whether the streams group protocol is served: the cluster's `streams.version` and the broker's settings say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.metadata.versions import STREAMS_VERSION

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def is_streams_protocol_enabled(node: Node) -> bool:
    protocols = node.config.group_coordinator_rebalance_protocols
    return "streams" in (name.lower() for name in protocols) and node.image.features.get(STREAMS_VERSION, 0) >= 1
