"""IncrementalAlterConfigs: change some settings of topics, brokers, loggers, groups and subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.config_changes import Change, alter
from tailrace.broker.context import RequestContext
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node


def handle(
    node: Node,
    context: RequestContext,
    request: IncrementalAlterConfigsRequest,
    reply: Callable[[IncrementalAlterConfigsResponse], None],
) -> None:
    alter(node, context, request, reply, AlterConfigsResourceResponse, _changes_of, is_incremental=True)


def _changes_of(resource: AlterConfigsResource) -> list[Change]:
    return [Change(each.name, each.config_operation, each.value) for each in resource.configs]
