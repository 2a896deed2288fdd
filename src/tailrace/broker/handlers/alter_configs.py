"""AlterConfigs: replace all settings of topics, brokers, groups and subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.config_changes import UNKNOWN_SERVER_ERROR, Change, Verdict, judge
from tailrace.broker.context import RequestContext
from tailrace.broker.forwarding import to_controller
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
    resources = request.resources
    verdicts = judge(node, resources, _changes_of, is_incremental=False, validate_only=request.validate_only)
    rest = [resource for place, resource in enumerate(resources) if place not in verdicts]

    def answered(response: AlterConfigsResponse) -> None:
        decided = {
            (each.resource_type, each.resource_name): Verdict(each.error_code, each.error_message)
            for each in response.responses
        }
        for place, resource in enumerate(resources):
            found = decided.get((resource.resource_type, resource.resource_name))
            verdicts.setdefault(place, found or Verdict(UNKNOWN_SERVER_ERROR, "the controller did not say"))
        reply(
            AlterConfigsResponse(
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
        passed_on = AlterConfigsRequest(resources=rest, validate_only=request.validate_only)
        to_controller(node, context, passed_on, answered)
    else:
        answered(AlterConfigsResponse())


def _changes_of(resource: AlterConfigsResource) -> list[Change]:
    return [Change(each.name, None, each.value) for each in resource.configs]
