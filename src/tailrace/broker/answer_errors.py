"""The error codes that an answer holds, wherever in it they stand: what Kafka's ErrorsPerSec counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.protocol.message import Struct
from tailrace.protocol.schema import ArrayOf

ERROR_CODE = "error_code"

# By class: whether it has an error code, and its arrays of structs that have some within them.
_plans: dict[type[Struct], tuple[bool, tuple[str, ...]]] = {}


def error_codes(struct: Struct) -> Iterator[int]:
    """Those that are not 0."""
    has_code, arrays = _plan(type(struct))
    if has_code:
        code: int = getattr(struct, ERROR_CODE)
        if code:
            yield code
    for name in arrays:
        for element in getattr(struct, name) or ():
            yield from error_codes(element)


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
