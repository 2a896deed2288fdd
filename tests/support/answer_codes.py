"""Error codes of an answer, by what they are about."""

from __future__ import annotations

from typing import Any

from tailrace.protocol.message import Struct

NAMING_FIELDS = (
    "name",
    "topic",
    "topic_name",
    "resource_name",
    "feature",
    "resource_type",
    "index",
    "partition_index",
    "partition",
    "partition_id",
)


def codes(value: Any, path: tuple[object, ...] = ()) -> dict[tuple[object, ...], int]:
    """`("topics", "orders", "partitions", 0)` → code, of every struct in `value` that has one.

    What has no error inside lists that are empty or without names is not told apart from what is not there.
    """
    found: dict[tuple[object, ...], int] = {}
    for field in value.__fields__:
        inner = getattr(value, field.name)
        if field.name in ("error_code", "topic_config_error_code"):
            found[*path, field.name] = inner
        elif isinstance(inner, list):
            for item in inner:
                if isinstance(item, Struct):
                    found |= codes(item, (*path, field.name, *_names(item)))
    return found


def _names(item: Struct) -> tuple[object, ...]:
    return tuple(getattr(item, name) for name in NAMING_FIELDS if hasattr(item, name))
