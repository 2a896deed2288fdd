"""ListConfigResources: what has, or could have, settings. Version 0 asks for subscriptions to clients' metrics only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.config.validation import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import UnsupportedVersionError
from tailrace.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_KINDS: Final = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)


def handle(
    node: Node,
    context: RequestContext,
    request: ListConfigResourcesRequest,
    reply: Callable[[ListConfigResourcesResponse], None],
) -> None:
    wanted = set(request.resource_types) if context.version > 0 else {CLIENT_METRICS}
    if not wanted <= set(_KINDS):
        reply(ListConfigResourcesResponse(error_code=UnsupportedVersionError.code))
        return
    found = [
        ConfigResource(resource_type=kind, resource_name=name)
        for kind in _KINDS
        if not wanted or kind in wanted
        for name in _names(node.image, kind)
    ]
    reply(ListConfigResourcesResponse(config_resources=found))


def _names(image: MetadataImage, kind: int) -> list[str]:
    if kind == TOPIC:
        return list(image.topics)
    if kind in (BROKER, BROKER_LOGGER):
        return [str(broker) for broker in image.brokers]
    return [name for other, name in image.configs if other == kind]
