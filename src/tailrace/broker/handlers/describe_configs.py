"""DescribeConfigs: settings of topics, brokers, loggers, groups and subscriptions, and where they come from.

Only the broker itself can say what it runs with; settings of all brokers, topics and groups any broker can.

A resource takes a few bytes of a request and up to fifty thousand of its answer. So an answer has an end: resources
behind it are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.loggers import Loggers
from tailrace.config.describe import (
    Description,
    Source,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from tailrace.config.validation import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from tailrace.metadata.topic_names import check_topic_name
from tailrace.model.errors import RefusedRequestError, TailraceError, UnknownTopicOrPartitionError
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node

MAX_SETTINGS: Final = 200_000


def handle(
    node: Node,
    context: RequestContext,
    request: DescribeConfigsRequest,
    reply: Callable[[DescribeConfigsResponse], None],
) -> None:
    response, left = DescribeConfigsResponse(), MAX_SETTINGS
    for resource in request.resources:
        result = _result(node, request, resource, is_too_much=left <= 0)
        response.results.append(result)
        left -= len(result.configs)
    reply(response)


def _result(
    node: Node, request: DescribeConfigsRequest, resource: DescribeConfigsResource, *, is_too_much: bool
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        if is_too_much:
            raise RefusedRequestError("the answer would be too large: ask for fewer resources at a time")
        wanted = set(resource.configuration_keys or ())
        result.configs = [
            _answer(each, request)
            for each in _descriptions(node, resource.resource_type, resource.resource_name)
            if not wanted or each.name in wanted
        ]
        result.error_message = ""
    except TailraceError as error:
        result.error_code = error.code
        result.error_message = str(error)
    return result


def _descriptions(node: Node, kind: int, name: str) -> Iterable[Description]:
    live, image = node.live, node.image
    if kind == TOPIC:
        check_topic_name(name)
        if name not in image.topics:
            raise UnknownTopicOrPartitionError(f"there is no topic {name}")
        return describe_topic(live.layers, live.topic_config(image, name), image.topic_config(name))
    if kind == BROKER:
        if not name:
            return describe_cluster_default(live.layers)
        _check_node_id(node, name)
        return describe_broker(live.layers)
    if kind == BROKER_LOGGER:
        _check_node_id(node, name)
        return (Description(logger, level, Source.BROKER_LOGGER) for logger, level in Loggers().levels().items())
    if kind in (CLIENT_METRICS, GROUP):
        if not name:
            raise RefusedRequestError("a name is needed: there are no settings of all of them")
        overrides = image.configs.get((kind, name), {})
        return describe_group(live.layers, overrides) if kind == GROUP else describe_client_metrics(overrides)
    raise RefusedRequestError(f"there are no settings of resource type {kind}")


def _check_node_id(node: Node, name: str) -> None:
    if name != str(node.node_id):
        raise RefusedRequestError(f"this is broker {node.node_id}, not {name!r}: ask that one")


def _answer(description: Description, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = description.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=description.name,
        value=description.value,
        read_only=description.is_read_only,
        config_source=description.source,
        is_sensitive=description.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=description.kind,
        documentation=description.documentation if request.include_documentation else None,
    )
