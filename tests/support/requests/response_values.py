"""A whole answer as plain values that can be compared with another server's.

What must differ is replaced by a word: ids that servers choose, addresses, times, sizes. Of texts for people it is
only told whether there is one. A list of structs is sorted by their names, since Kafka's order is often that of a hash
table, unless the answer is one whose order matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tailrace.protocol.message import Struct
from tailrace.protocol.schema import STRING, UUID, Field

Shape = Any

CHOSEN = frozenset(
    {
        *("cluster_id", "host", "port", "log_dir"),
        *(
            "producer_id",
            "producer_id_start",
            "session_id",
            "broker_epoch",
            "total_bytes",
            "usable_bytes",
            "partition_size",
        ),
        *("last_timestamp", "last_fetch_timestamp", "last_caught_up_timestamp", "log_append_time_ms"),
        *("finalized_features_epoch",),
    }
)
"""Fields whose value is the server's own."""
WORDED = frozenset({"error_message", "acknowledge_error_message", "batch_index_error_message", "documentation"})
ORDERED = frozenset({"DescribeTopicPartitionsResponse"})
WORDS = "words"


class Difference(NamedTuple):
    """Field names on the way to a value that is not what it is in Kafka's answer."""

    path: str
    expected: Shape
    found: Shape


def shape(value: Any, declared: Field | None = None, *, is_ordered: bool = False) -> Shape:
    if isinstance(value, Struct):
        is_ordered = is_ordered or type(value).__name__ in ORDERED
        return {each.name: _field(value, each, is_ordered) for each in value.__fields__}
    if isinstance(value, list):
        shapes = [shape(item, declared, is_ordered=is_ordered) for item in value]
        return shapes if is_ordered else sorted(shapes, key=repr)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value


def _field(struct: Struct, declared: Field, is_ordered: bool) -> Shape:
    value, name = getattr(struct, declared.name), declared.name
    if name in WORDED:
        return WORDS if value else None
    if declared.type is UUID:
        return "id" if any(value) else "no id"
    if name in CHOSEN and declared.type is STRING:
        return value and "chosen"
    if name in CHOSEN:
        return value if value <= 0 else "chosen"
    return shape(value, declared, is_ordered=is_ordered)


def differences(expected: Shape, found: Shape, path: str = "") -> Iterator[Difference]:
    """We may explain an error where Kafka does not."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in expected:
            if name in WORDED and expected[name] is None:
                continue
            yield from differences(expected[name], found[name], f"{path}.{name}" if path else name)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for one, other in zip(expected, found, strict=True):
            yield from differences(one, other, path)
    elif expected != found:
        yield Difference(path, expected, found)
