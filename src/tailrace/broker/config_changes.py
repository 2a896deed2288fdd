"""What a broker does with changes of settings before the controller decides: AlterConfigs and IncrementalAlterConfigs.

The broker refuses what makes no sense in itself, checks changes of its own settings against what it runs with, and
keeps the levels of loggers to itself. The rest goes to the controller; the answers are put together in the order of
the request. A controller listener also takes the settings of other brokers: they may be down, and then nothing but the
controller's own rules can check them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from tailrace.broker.context import RequestContext
from tailrace.broker.forwarding import to_controller
from tailrace.broker.loggers import Loggers
from tailrace.config.table import ConfigError
from tailrace.config.validation import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    incrementally_altered,
    usable_broker_overrides,
)
from tailrace.controller.configs import MAX_ID_DIGITS
from tailrace.model.errors import InvalidConfigError, RefusedRequestError, TailraceError
from tailrace.protocol.apis import api_of

if TYPE_CHECKING:
    from tailrace.broker.node import Node

_log = logging.getLogger(__name__)

UNKNOWN_SERVER_ERROR = -1


class Resource(Protocol):
    """What both requests have in common."""

    resource_type: int
    resource_name: str


class Change(NamedTuple):
    """`operation` is None in a request that replaces all that was set before."""

    key: str
    operation: int | None
    value: str | None


class Verdict(NamedTuple):
    """On one resource: an error, or 0."""

    code: int
    message: str | None


R = TypeVar("R", bound=Resource)
GOOD = Verdict(0, None)


def judge(
    node: Node,
    resources: Sequence[R],
    changes_of: Callable[[R], list[Change]],
    *,
    is_incremental: bool,
    validate_only: bool,
    takes_any_broker: bool,
) -> dict[int, Verdict]:
    """Verdicts by place in the request; what is not among them is for the controller."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    verdicts = {}
    for place, resource in enumerate(resources):
        if counts[resource.resource_type, resource.resource_name] > 1:
            verdicts[place] = Verdict(RefusedRequestError.code, "each resource may stand in a request once")
            continue
        if takes_any_broker and resource.resource_type == BROKER and not _is_meant(node, resource.resource_name):
            continue
        try:
            if _is_done(node, resource, changes_of(resource), is_incremental, validate_only):
                verdicts[place] = GOOD
        except TailraceError as error:
            _log.info("settings of %s %r stay: %s", resource.resource_type, resource.resource_name, error)
            verdicts[place] = Verdict(error.code, str(error))
    return verdicts


def _is_done(node: Node, resource: Resource, changes: list[Change], is_incremental: bool, validate_only: bool) -> bool:
    """Whether nothing is left for the controller. Raises TailraceError for what is refused."""
    if len({change.key for change in changes}) < len(changes):
        raise RefusedRequestError("a key is given twice")
    empty = [change.key for change in changes if change.value is None and change.operation != DELETE]
    if empty:
        raise RefusedRequestError(f"{', '.join(empty)}: a value is needed")
    kind, name = resource.resource_type, resource.resource_name
    if kind == BROKER_LOGGER and is_incremental:
        _check_node_id(node, name)
        Loggers().alter([(each.key, each.operation, each.value) for each in changes], validate_only=validate_only)
        return True
    if kind == BROKER:
        if name:
            _check_node_id(node, name)
        _check_broker_change(node, name, _altered(node, name, changes) if is_incremental else _replaced(changes))
    elif kind not in (TOPIC, CLIENT_METRICS, GROUP):
        raise RefusedRequestError(f"there are no settings of resource type {kind}")
    return False


def _is_meant(node: Node, name: str) -> bool:
    return name in ("", str(node.node_id))


def _check_node_id(node: Node, name: str) -> None:
    digits = name.removeprefix("-").removeprefix("+")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > MAX_ID_DIGITS:
        raise RefusedRequestError(f"a node's id is a whole number, not {name!r}")
    if int(name) != node.node_id:
        raise RefusedRequestError(f"this is node {node.node_id}, not {name}: ask that one")


def _altered(node: Node, name: str, changes: Iterable[Change]) -> Mapping[str, str]:
    present, _ = usable_broker_overrides(node.image.broker_config(name), is_cluster_default=not name)
    operations = [(each.key, each.operation or SET, each.value) for each in changes]
    unknown = [operation for _, operation, _ in operations if not SET <= operation <= SUBTRACT]
    if unknown:
        raise RefusedRequestError(f"there is no operation {unknown[0]} on settings")
    try:
        return incrementally_altered(BROKER, present, operations)
    except ConfigError as error:
        raise InvalidConfigError(str(error)) from None


def _replaced(changes: Iterable[Change]) -> Mapping[str, str]:
    return {each.key: each.value or "" for each in changes}


def _check_broker_change(node: Node, name: str, overrides: Mapping[str, str]) -> None:
    try:
        node.live.validate(overrides, is_cluster_default=not name)
    except ConfigError as error:
        raise RefusedRequestError(str(error)) from None


def alter(
    node: Node,
    context: RequestContext,
    request: Any,
    reply: Callable[[Any], None],
    answer_kind: type[Any],
    changes_of: Callable[[Any], list[Change]],
    *,
    is_incremental: bool,
) -> None:
    """Check what the broker is responsible for, let the controller decide the rest, and respond in the request's order.

    If the request is forwarded, the broker that forwarded it has checked its part. The two requests and their responses
    have the same fields; `answer_kind` is the part of the response for one resource.
    """
    if context.is_forwarded:
        to_controller(node, context, request, reply)
        return
    resources, kind, response_kind = request.resources, type(request), api_of(request.KEY).response
    verdicts = judge(
        node,
        resources,
        changes_of,
        is_incremental=is_incremental,
        validate_only=request.validate_only,
        takes_any_broker=context.is_controller_listener,
    )
    rest = [resource for place, resource in enumerate(resources) if place not in verdicts]

    def answered(response: Any) -> None:
        decided = {
            (each.resource_type, each.resource_name): Verdict(each.error_code, each.error_message)
            for each in response.responses
        }
        parts = []
        for place, resource in enumerate(resources):
            found = verdicts.get(place) or decided.get((resource.resource_type, resource.resource_name))
            code, message = found or Verdict(UNKNOWN_SERVER_ERROR, "the controller did not say")
            parts.append(
                answer_kind(
                    error_code=code,
                    error_message=message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        reply(response_kind(responses=parts))

    if rest:
        to_controller(node, context, kind(resources=rest, validate_only=request.validate_only), answered)
    else:
        answered(response_kind())
