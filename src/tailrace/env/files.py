"""Files, as the storage engine sees them: explicit positions, explicit syncs, read-only maps.

Every failure is an OSError. Nothing is durable before `File.sync` (bytes and size of that file) and `Files.sync_dir`
(names in that directory) have returned; a crash may keep any part of what was not synced and lose the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview

MAX_PARTS = 1024  # IOV_MAX: what one gathering write takes


class Mode(Enum):
    READ = "read"  # must exist; writes are refused
    WRITE = "write"  # must exist; read and write
    CREATE = "create"  # read and write; made when missing, kept as it is when not
    REPLACE = "replace"  # read and write; made when missing, emptied when not


class Entry(NamedTuple):
    name: str
    is_dir: bool


class Space(NamedTuple):
    """Of the disk that holds a directory; `usable_bytes` is what this process may still write."""

    total_bytes: int
    usable_bytes: int


class Mapping(Protocol):
    """A read-only view of a file that sees later writes to it. Slices copy: a close can never fault a reader."""

    def __getitem__(self, key: slice, /) -> bytes:
        """Raises ValueError once closed."""

    def __len__(self) -> int: ...

    def close(self) -> None: ...


class File(Protocol):
    """One open file. Reads and writes name their position; there is no cursor.

    The handle stays good across a rename or unlink of its path. It is closed by `close`, or when the last
    reference goes: a reader that holds it can never read another file's bytes through a reused descriptor.
    """

    @property
    def path(self) -> str: ...

    def fileno(self) -> int: ...

    def size(self) -> int: ...

    def read_at(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer`; returns the count, less than its length only at the end of the file."""

    def write_at(self, parts: Sequence[Buffer], position: int) -> int:
        """Write the parts one behind the other in one call; returns the bytes written, which may be fewer."""

    def truncate(self, size: int) -> None:
        """Cut or extend (with zeros) to exactly `size` bytes."""

    def sync(self) -> None: ...

    def map(self) -> Mapping:
        """Map the whole file as it is now; an empty one is refused (EINVAL).

        Reading behind the end of a file that was truncated later ends the process.
        """

    def close(self) -> None: ...


class Lock(Protocol):
    """An exclusive hold on a file. It ends with `release` or with the process, however that dies."""

    def release(self) -> None:
        """Again is fine."""


class Files(Protocol):
    def open(self, path: str, mode: Mode) -> File: ...

    def list(self, path: str) -> list[Entry]:
        """The entries of a directory, sorted by name."""

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Give a file another time of modification; durable once the file is synced."""

    def make_dir(self, path: str) -> None:
        """Make one directory; one that exists already is fine."""

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a file that `target` names."""

    def unlink(self, path: str) -> None: ...

    def remove_dir(self, path: str) -> None:
        """The directory must be empty."""

    def sync_dir(self, path: str) -> None: ...

    def lock(self, path: str) -> Lock:
        """Take hold of a file, made when missing. BlockingIOError when another process, or this one, holds it."""

    def canonical(self, path: str) -> str:
        """The one absolute path, without links, of something that exists."""

    def space(self, path: str) -> Space:
        """How large the disk that holds `path` is, and what is left of it."""


def write_fully(file: File, parts: Sequence[Buffer], position: int) -> None:
    """Write every byte of `parts` or raise; after an OSError any prefix may have been written."""
    views = [memoryview(part).cast("B") for part in parts]
    while views:
        written = file.write_at(views[:MAX_PARTS], position)
        position += written
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if written:
            views[0] = views[0][written:]
