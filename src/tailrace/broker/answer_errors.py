"""Error codes of responses: those that a response has at any depth, and the response to a request that failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.model.errors import NotControllerError, NotLeaderOrFollowerError, TailraceError
from tailrace.protocol.message import Response, Struct
from tailrace.protocol.messages.describe_quorum import DescribeQuorumResponse
from tailrace.protocol.schema import ArrayOf

ERROR_CODE = "error_code"
ERROR_MESSAGE = "error_message"

# By class: whether it has an error code, and its arrays of structs that have some within them.
_plans: dict[type[Struct], tuple[bool, tuple[str, ...]]] = {}


def error_codes(struct: Struct) -> Iterator[int]:
    """Those that are not 0, at any depth: what Kafka's ErrorsPerSec counts."""
    has_code, arrays = _plan(type(struct))
    if has_code:
        code: int = getattr(struct, ERROR_CODE)
        if code:
            yield code
    for name in arrays:
        for element in getattr(struct, name) or ():
            yield from error_codes(element)


def names_other_controller(response: Response) -> bool:
    """Whether the sender says that it is not the active controller, at any depth of the response."""
    sign = NotLeaderOrFollowerError if isinstance(response, DescribeQuorumResponse) else NotControllerError
    return sign.code in error_codes(response)


def refusal(kind: type[Response], error: TailraceError) -> Response | None:
    """The response to a request that failed as a whole; None if the response has no field for that."""
    fields = {declared.name for declared in kind.__fields__}
    if ERROR_CODE not in fields:
        return None
    response = kind(error_code=error.code)
    if ERROR_MESSAGE in fields:
        response.error_message = str(error)  # type: ignore[attr-defined]
    return response


def _plan(kind: type[Struct]) -> tuple[bool, tuple[str, ...]]:
    plan = _plans.get(kind)
    if plan is None:
        names = {declared.name for declared in kind.__fields__}
        arrays = ((declared.name, _element(declared.type)) for declared in kind.__fields__)
        kept = tuple(name for name, element in arrays if element is not None and any(_plan(element)))
        plan = _plans[kind] = (ERROR_CODE in names, kept)
    return plan


def _element(field_type: Any) -> type[Struct] | None:
    if isinstance(field_type, ArrayOf) and isinstance(field_type.element, type):
        return field_type.element
    return None
