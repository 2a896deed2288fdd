"""Whether the consumer group protocol is served: the cluster has to have `group.version` 1, and the broker wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.metadata.versions import GROUP_VERSION

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def is_consumer_protocol_enabled(node: Node) -> bool:
    protocols = node.config.group_coordinator_rebalance_protocols
    return "consumer" in (name.lower() for name in protocols) and node.image.features.get(GROUP_VERSION, 0) >= 1
