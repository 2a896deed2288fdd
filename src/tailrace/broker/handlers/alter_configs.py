"""AlterConfigs: replace all settings of topics, brokers, groups and subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.config_changes import Change, alter
from tailrace.broker.context import RequestContext
from tailrace.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: AlterConfigsRequest,
    reply: Callable[[AlterConfigsResponse], None],
) -> None:
    alter(node, context, request, reply, AlterConfigsResourceResponse, _changes_of, is_incremental=False)


def _changes_of(resource: AlterConfigsResource) -> list[Change]:
    return [Change(each.name, None, each.value) for each in resource.configs]
