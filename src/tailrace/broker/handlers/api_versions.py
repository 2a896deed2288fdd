"""ApiVersions: what this listener serves, and the features of the broker and of the cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.metadata.versions import KRAFT_VERSION
from tailrace.model.errors import InvalidRequestError
from tailrace.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_NAMES_FROM: Final = 3
_ZERO_MINIMUM_FROM: Final = 4
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    node: Node, context: RequestContext, request: ApiVersionsRequest, reply: Callable[[ApiVersionsResponse], None]
) -> None:
    names = (request.client_software_name, request.client_software_version)
    if context.version >= _NAMES_FROM and not all(map(_SOFTWARE.fullmatch, names)):
        reply(ApiVersionsResponse(error_code=InvalidRequestError.code))
        return
    image = node.image
    supported = [
        SupportedFeatureKey(name=name, min_version=first, max_version=last)
        for name, (first, last) in node.supported_features.items()
        if first > 0 or context.version >= _ZERO_MINIMUM_FROM  # older clients cannot read a minimum of 0
    ]
    finalised = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in {**image.features, KRAFT_VERSION: node.quorum.kraft_version}.items()
        if level > 0
    ]
    reply(
        ApiVersionsResponse(
            api_keys=node.dispatch(context.is_controller_listener).rows(),
            supported_features=supported,
            finalized_features_epoch=image.offset,
            finalized_features=finalised,
        )
    )
