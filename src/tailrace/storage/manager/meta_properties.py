"""The file `meta.properties`: whose data directory this is. Java's properties, as Kafka stores them.

    #
    #Sun Nov 15 09:09:15 UTC 2026
    node.id=1
    directory.id=tuacqoTjB3mTQZiJ6MPutw     names the directory in the cluster's metadata, wherever it is mounted
    version=1
    cluster.id=uViM5VGiQUWqVVgvr1gYxQ

Crash rule. Replaced as a whole, durably.

Who may call. The log manager, at start, holding the directory's lock.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Container
from contextlib import suppress
from typing import Final, NamedTuple

from tailrace.env import Files
from tailrace.model.errors import CorruptCheckpointError
from tailrace.model.ids import DirectoryId
from tailrace.storage.checkpoint import parse_number, read_small_file, replace_durably

META_PROPERTIES_FILE: Final = "meta.properties"

_VERSION: Final = "1"
_MAX_BYTES: Final = 64 << 10
_MAX_NODE_ID: Final = 2**31 - 1
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LINE: Final = re.compile(r"\s*((?:\\.|[^\\\s=:])+)\s*[=:\s]\s*(.*)")
_ESCAPED: Final = re.compile(r"\\(.)")


class MetaProperties(NamedTuple):
    """`directory_id` is None in a file from before directories had ids."""

    cluster_id: str
    node_id: int
    directory_id: DirectoryId | None

    @classmethod
    def read(cls, files: Files, path: str) -> MetaProperties | None:
        """None when there is no file; CorruptCheckpointError when it is damaged or of another version."""
        text = read_small_file(files, path, _MAX_BYTES)
        if text is None:
            return None
        found = _parse(text)
        if found.get("version") != _VERSION:
            raise CorruptCheckpointError(f"{path} has version {found.get('version', '0')[:20]!r}, not {_VERSION}")
        cluster_id, node_id = found.get("cluster.id", ""), parse_number(found.get("node.id", ""), _MAX_NODE_ID)
        if not cluster_id or node_id is None:
            raise CorruptCheckpointError(f"{path} lacks cluster.id or node.id")
        return cls(cluster_id, node_id, _parse_id(path, found.get("directory.id")))

    @staticmethod
    def states_other_version(files: Files, path: str) -> bool:
        """Whether that is why a file cannot be read: the past and the future have versions of their own."""
        with suppress(CorruptCheckpointError, OSError):
            found = _parse(read_small_file(files, path, _MAX_BYTES) or "").get("version", "")
            return found != _VERSION and parse_number(found, 2**31 - 1) is not None
        return False

    def write(self, files: Files, path: str, now_ms: int) -> None:
        lines = (
            "#",
            f"#{_java_date(now_ms)}",
            f"node.id={self.node_id}",
            f"directory.id={self.directory_id}",
            f"version={_VERSION}",
            f"cluster.id={_escape(self.cluster_id)}",
            "",
        )
        replace_durably(files, path, "\n".join(lines).encode())


def new_directory_id(dice: random.Random, taken: Container[DirectoryId]) -> DirectoryId:
    """One that no directory has, that is not reserved, and that no command line takes for an option."""
    while True:
        found = DirectoryId(dice.getrandbits(128).to_bytes(16, "big"))
        if not found.is_reserved and not str(found).startswith("-") and found not in taken:
            return found


def _parse(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.lstrip().startswith(("#", "!")):
            continue
        parts = _LINE.fullmatch(line)
        if parts is not None:
            found[_ESCAPED.sub(r"\1", parts[1])] = _ESCAPED.sub(r"\1", parts[2])
    return found


def _parse_id(path: str, text: str | None) -> DirectoryId | None:
    if text is None:
        return None
    try:
        return DirectoryId.parse(text)
    except ValueError as error:
        raise CorruptCheckpointError(f"{path} has the directory.id {text[:60]!r}: {error}") from None


def _escape(value: str) -> str:
    return re.sub(r"([\\=:#!])", r"\\\1", value)


def _java_date(now_ms: int) -> str:
    """As Java prints a date, whatever the locale."""
    now = time.gmtime(now_ms // 1000)
    clock = f"{now.tm_hour:02}:{now.tm_min:02}:{now.tm_sec:02}"
    return f"{_DAYS[now.tm_wday]} {_MONTHS[now.tm_mon - 1]} {now.tm_mday:02} {clock} UTC {now.tm_year}"
