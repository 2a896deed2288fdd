"""What the readers and writers of the examples share; see `format_codecs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tailrace.env import Mode
from tailrace.sim import World

Fields = dict[str, Any]
Attributes = dict[str, str]

DIRECTORY = "/data"
MAX_BYTES = 1 << 20

HEADER_FIELDS = (
    "baseOffset",
    "batchLength",
    "partitionLeaderEpoch",
    "magic",
    "crc",
    "attributes",
    "lastOffsetDelta",
    "baseTimestamp",
    "maxTimestamp",
    "producerId",
    "producerEpoch",
    "baseSequence",
    "recordCount",
)


class Codec(NamedTuple):
    decode: Callable[[bytes, Attributes], Fields]
    encode: Callable[[Fields, Attributes], bytes]


def numbered(fields: Fields, prefix: str) -> list[Fields]:
    """The fields of `prefix[0]`, `prefix[1]` … as a list."""
    found: list[Fields] = []
    for name, value in fields.items():
        head, dot, rest = name.partition("].")
        if dot and head.startswith(prefix + "["):
            place = int(head[len(prefix) + 1 :])
            found.extend({} for _ in range(place + 1 - len(found)))
            found[place][rest] = value
    return found


class Shelf:
    """A simulated disk with one file to read, or to be written."""

    def __init__(self, name: str, data: bytes | None = None) -> None:
        self.env = World().env
        self.path = f"{DIRECTORY}/{name}"
        if data is not None:
            self.env.files.open(self.path, Mode.REPLACE).write_at([data], 0)

    @property
    def content(self) -> bytes:
        return self.env.files.open(self.path, Mode.READ).read_at(MAX_BYTES, 0)
