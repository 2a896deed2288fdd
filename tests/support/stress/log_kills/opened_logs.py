"""What a process finds in its logs when it has opened them. The process writes it, the test compares it with the model.

A file of one JSON line and, behind it, the bytes that the log hands out: for each partition everything up to the log
end, then everything that a reader of committed records gets. It appears whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass
class Seen:
    """One partition. `aborted` are (producer id, first offset, marker's offset) as the log told the reader."""

    log_start: int
    log_end: int
    last_stable: int
    active_base: int
    cleaner_point: int
    """0 when the log was never cleaned."""
    is_start_kept: bool
    """A read below the log start is refused."""
    aborted: list[tuple[int, int, int]]
    errors: list[str]
    """What a verification of the directory has found."""
    data: bytes = b""
    committed: bytes = b""


@dataclass
class Sighting:
    at_ms: int
    partitions: dict[str, Seen]

    def write(self, path: Path) -> None:
        parts: list[bytes] = []
        told: dict[str, Any] = {"at_ms": self.at_ms, "partitions": {}}
        for name, seen in self.partitions.items():
            values = asdict(seen)
            parts += (values.pop("data"), values.pop("committed"))
            told["partitions"][name] = values | {"sizes": [len(parts[-2]), len(parts[-1])]}
        unfinished = path.with_suffix(".tmp")
        unfinished.write_bytes(b"".join([json.dumps(told).encode(), b"\n", *parts]))
        unfinished.rename(path)

    @classmethod
    def read(cls, path: Path) -> Sighting:
        line, _, rest = path.read_bytes().partition(b"\n")
        told: Mapping[str, Any] = json.loads(line)
        partitions: dict[str, Seen] = {}
        position = 0
        for name, values in told["partitions"].items():
            middle = position + values["sizes"][0]
            end = middle + values.pop("sizes")[1]
            partitions[name] = Seen(**values, data=rest[position:middle], committed=rest[middle:end])
            position = end
        return cls(told["at_ms"], partitions)
