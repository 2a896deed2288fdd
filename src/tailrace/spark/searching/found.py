"""What a search gives back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OPEN: Final = "open"
"""At or behind the start of a transaction that has not ended: readers of committed records do not see it yet."""


@dataclass(frozen=True)
class Found:
    """A record, and where it is."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    """0 is the record's own, 1 that of its arrival."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    state: str = COMMITTED

    @property
    def is_deletion(self) -> bool:
        """Of its key, where the topic is compacted."""
        return self.value is None

    @property
    def size_bytes(self) -> int:
        """Of key, value and headers."""
        own = len(self.key or b"") + len(self.value or b"")
        return own + sum(len(name) + len(value or b"") for name, value in self.headers)

    def to_dict(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "timestamp_type": self.timestamp_type,
            "key": self.key,
            "value": self.value,
            "headers": list(self.headers),
            "state": self.state,
            "is_deletion": self.is_deletion,
        }


@dataclass(frozen=True)
class Matches(Sequence[Found]):
    """In the order of time; records of the same millisecond in that of partition and offset."""

    found: tuple[Found, ...]
    total: int
    """How many there are, with those that the limit left out."""
    offsets: int = 0
    """How many were looked through."""
    seconds: float = 0.0

    @property
    def left_out(self) -> int:
        return self.total - len(self.found)

    @overload
    def __getitem__(self, place: int) -> Found: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Found, ...]: ...

    def __getitem__(self, place: int | slice) -> Found | tuple[Found, ...]:
        return self.found[place]

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Found]:
        return iter(self.found)
