"""What a case is: a request in a version, made for the server that it goes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tailrace.protocol.apis import api_of
from tailrace.protocol.message import Request

DATA, COMPACTED = "data", "compacted"
"""Topics that are there: three partitions, with ten records in the first; one partition, compacted."""
NO_ID = bytes(16)
UNKNOWN_ID = b"no topic has this"[:16]
UNUSUAL_NAMES = ("nope", "bad/name", "", ".", "..", "x" * 249, "x" * 250, "ünicode", "with space")


@dataclass
class ServerFacts:
    """What the requests need to know of a server."""

    log_dir: str
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    broker_epoch: int = -1
    directory_id: bytes = NO_ID


class Case(NamedTuple):
    name: str
    request: Request
    version: int


def label(name: str) -> str:
    return repr(name) if len(name) < 20 else f"{name[:3]!r}*{len(name)}"


def versions(kind: type[Request], first: int = 0, last: int = 99) -> range:
    api = api_of(kind.KEY)
    return range(max(api.first_version, first), min(api.last_stable_version, last) + 1)
