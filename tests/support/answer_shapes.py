"""A whole answer as a plain value that can be compared with another server's.

What must differ is replaced by a word: ids that servers choose, addresses, times, sizes, wording. Texts are only told
apart as null, empty and not empty. Lists keep their order, but for those whose order means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.protocol.message import Message, Struct
from tailrace.protocol.schema import STRING, UUID, Field

Shape = Any

CHOSEN = frozenset(
    {
        *("cluster_id", "host", "port", "broker_id_host", "log_dir", "high_watermark_of_quorum"),
        *("producer_id", "session_id", "broker_epoch", "total_bytes", "usable_bytes", "size"),
        *("last_timestamp", "last_fetch_timestamp", "last_caught_up_timestamp", "log_append_time_ms"),
        *("finalized_features_epoch", "metadata_offset"),
    }
)
"""Fields whose value is the server's own."""
WORDED = frozenset({"error_message", "batch_index_error_message", "documentation"})
UNORDERED = frozenset({"brokers", "node_endpoints", "nodes"})


def shape(value: Any, declared: Field | None = None) -> Shape:
    if isinstance(value, Struct):
        return {each.name: _field(value, each) for each in value.__fields__}
    if isinstance(value, list):
        shapes = [shape(item, declared) for item in value]
        return sorted(shapes, key=repr) if declared is not None and declared.name in UNORDERED else shapes
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value


def _field(struct: Struct, declared: Field) -> Shape:
    value = getattr(struct, declared.name)
    if declared.name in WORDED or (declared.name in CHOSEN and declared.type is STRING):
        return value if not value else "text"
    if declared.type is UUID:
        return "id" if any(value) else "no id"
    if declared.name in CHOSEN and isinstance(value, int):
        return value if value <= 0 else "some"
    return shape(value, declared)
