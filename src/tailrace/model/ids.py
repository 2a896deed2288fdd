"""Names of things: topics, partitions, directories, producers."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from uuid import UUID

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1
NO_TIMESTAMP = -1

_UUID_BYTES: Final = 16
_MAX_UUID_CHARACTERS: Final = 24
_RESERVED_DIRECTORY_IDS: Final = 100
_VERSION_BITS: Final = 0xF000_C000 << 48
_VERSION_4: Final = 0x4000_8000 << 48


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Uuid(bytes):
    """Kafka's Uuid: 16 bytes, written as 22 characters of URL-safe base64 without padding.

    Equal and hashed by value, also to plain bytes: messages and records take it as it is. Its kinds are types of their
    own only for the type checker, so that a topic id cannot take the place of a directory id.
    """

    __slots__ = ()

    def __new__(cls, raw: bytes) -> Self:
        """Raises ValueError unless `raw` has 16 bytes."""
        if len(raw) != _UUID_BYTES:
            raise ValueError(f"an id has {_UUID_BYTES} bytes, not {len(raw)}")
        return super().__new__(cls, raw)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError unless `text` is such a string; padding is allowed."""
        if len(text) > _MAX_UUID_CHARACTERS:
            raise ValueError(f"id {text[:_MAX_UUID_CHARACTERS]!r}… is longer than {_MAX_UUID_CHARACTERS} characters")
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        if len(raw) != _UUID_BYTES:
            raise ValueError(f"id {text!r} holds {len(raw)} bytes, not {_UUID_BYTES}")
        return cls(raw)

    @classmethod
    def of(cls, uuid: UUID) -> Self:
        return cls(uuid.bytes)

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self).rstrip(b"=").decode()

    def __repr__(self) -> str:
        return f"{type(self).__name__}.parse({str(self)!r})"


def version_4(bits: int) -> bytes:
    """128 random bits as a UUID of version 4 (RFC 9562)."""
    return (bits & ~_VERSION_BITS | _VERSION_4).to_bytes(_UUID_BYTES, "big")


class TopicId(Uuid):
    __slots__ = ()


class DirectoryId(Uuid):
    """Names a log directory in the cluster's metadata, wherever it is mounted. See `meta_properties`."""

    __slots__ = ()

    @property
    def is_reserved(self) -> bool:
        """Whether it is one of the lowest 100, which name states of a directory and never a directory."""
        return int.from_bytes(self, "big") < _RESERVED_DIRECTORY_IDS


ZERO_TOPIC_ID: Final = TopicId(bytes(16))
ZERO_DIRECTORY_ID: Final = DirectoryId(bytes(16))
"""No directory is known."""
MIGRATING_DIRECTORY: Final = ZERO_DIRECTORY_ID
"""Of a replica whose broker has not yet reported its directory: it was assigned before directories had ids."""
UNASSIGNED_DIRECTORY: Final = DirectoryId(bytes(15) + b"\x01")
"""Of a new replica: its broker chooses."""
LOST_DIRECTORY: Final = DirectoryId(bytes(15) + b"\x02")
"""Of a replica in a directory that is offline, when it is not known which."""
