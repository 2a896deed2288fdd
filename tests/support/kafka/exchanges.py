"""A request to a server and its response, in a form that is the same for all servers that behave alike.

`shape` replaces the values that a server chooses in a response. Requests repeat such values from earlier responses;
`fingerprint` leaves them out.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NamedTuple

from support.requests.response_values import Shape, shape
from tailrace.protocol.message import Request

MAX_TEXT_CHARACTERS = 200
MAX_LIST_ITEMS = 1000
CHOSEN = "chosen"
ASSIGNED = frozenset({"topic_partitions", "active_tasks", "standby_tasks", "warmup_tasks"})
IDS_OF_ASSIGNED = {"topic_id", "subtopology_id"}
"""Partitions that a member of a group owns. Assignments may depend on the order of ids, so only their number counts."""
NOWHERE = "/nowhere"
"""A directory that no server has. All other directories are the server's."""
MADE_ID = re.compile(r"\A(.*-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[-\w]{22})\Z")
"""Member ids that a server generates, with or without the client id in front."""
TOPIC_ID_IN_TEXT = re.compile(r"(?<=:)[-\w]{22}(?=:)")
"""In the key of a share coordinator: `group:topic id:partition`."""

MAGIC_AT, PRODUCER_ID_AT, BATCH_HEADER_BYTES = 16, 43, 61
CRC = slice(17, 21)
TIMESTAMPS = slice(27, 43)
PRODUCER_ID = slice(43, 51)
CORRELATION_ID = slice(8, 12)


class Exchange(NamedTuple):
    """`request` is a fingerprint; `response` is a brief shape, or tells how the connection ended."""

    name: str
    request: str
    response: Shape


def fingerprint(*requests: tuple[Request, int]) -> str:
    """Hash of requests with their versions. Values that the server chose do not change it."""
    rows = [[request.KEY, version, _normalized(shape(request, is_ordered=True))] for request, version in requests]
    return _digest(json.dumps(rows).encode())


def fingerprint_of_frame(frame: bytes) -> str:
    """Hash of a request's bytes, which begin with the size. Only the correlation id is left out."""
    masked = bytearray(frame)
    masked[CORRELATION_ID] = bytes(len(masked[CORRELATION_ID]))
    return _digest(masked)


def brief(value: Shape) -> Shape:
    """The shape with a digest for long texts and long lists."""
    if isinstance(value, dict):
        return {name: brief(each) for name, each in value.items()}
    if isinstance(value, list):
        items = [brief(each) for each in value]
        if len(items) > MAX_LIST_ITEMS:
            return [f"{len(items)} items, sha256 {_digest(json.dumps(items).encode())}"]
        return items
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS:
        return f"{value[:20]}… {len(value)} characters, sha256 {_digest(value.encode())}"
    return value


def _digest(data: bytes | bytearray) -> str:
    return hashlib.sha256(data).hexdigest()[:10]


def _normalized(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _normalized(each, key) for key, each in value.items()}
    if isinstance(value, list) and name in ASSIGNED and all(each.keys() & IDS_OF_ASSIGNED for each in value):
        ids = {each.get("topic_id", "") for each in value}
        return [*sorted(ids), sum(len(each["partitions"]) for each in value)]
    if isinstance(value, list):
        return [_normalized(each, name) for each in value]
    if name == "records" and value:
        return _without_producer(bytes.fromhex(value)).hex()
    if name.endswith(("producer_id", "producer_id_filters")) and isinstance(value, int):
        return min(value, 0) or CHOSEN
    if name.endswith("broker_epoch") and isinstance(value, int):
        return min(value, 0) or CHOSEN
    if name == "path":
        return value if value == NOWHERE else CHOSEN
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS:
        return brief(value)
    if isinstance(value, str):
        return TOPIC_ID_IN_TEXT.sub(CHOSEN, MADE_ID.sub(CHOSEN, value))
    return value


def _without_producer(records: bytes) -> bytes:
    """A producer's batch without the producer id, the timestamps and the checksum, which depend on the server."""
    if len(records) < BATCH_HEADER_BYTES or records[MAGIC_AT] != 2 or records[PRODUCER_ID_AT] & 0x80:
        return records
    masked = bytearray(records)
    for part in (CRC, TIMESTAMPS, PRODUCER_ID):
        masked[part] = bytes(part.stop - part.start)
    return bytes(masked)
