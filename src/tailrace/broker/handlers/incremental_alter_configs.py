"""IncrementalAlterConfigs: change some settings of topics, brokers, loggers, groups and subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.config_changes import UNKNOWN_SERVER_ERROR, Change, Verdict, judge
from tailrace.broker.context import RequestContext
from tailrace.broker.forwarding import to_controller
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
    resources = request.resources
    verdicts = judge(node, resources, _changes_of, is_incremental=True, validate_only=request.validate_only)
    rest = [resource for place, resource in enumerate(resources) if place not in verdicts]

    def answered(response: IncrementalAlterConfigsResponse) -> None:
        decided = {
            (each.resource_type, each.resource_name): Verdict(each.error_code, each.error_message)
            for each in response.responses
        }
        for place, resource in enumerate(resources):
            found = decided.get((resource.resource_type, resource.resource_name))
            verdicts.setdefault(place, found or Verdict(UNKNOWN_SERVER_ERROR, "the controller did not say"))
        reply(
            IncrementalAlterConfigsResponse(
                responses=[
                    AlterConfigsResourceResponse(
                        error_code=verdicts[place].code,
                        error_message=verdicts[place].message,
                        resource_type=resource.resource_type,
                        resource_name=resource.resource_name,
                    )
                    for place, resource in enumerate(resources)
                ]
            )
        )

    if rest:
        passed_on = IncrementalAlterConfigsRequest(resources=rest, validate_only=request.validate_only)
        to_controller(node, context, passed_on, answered)
    else:
        answered(IncrementalAlterConfigsResponse())


def _changes_of(resource: AlterConfigsResource) -> list[Change]:
    return [Change(each.name, each.config_operation, each.value) for each in resource.configs]
