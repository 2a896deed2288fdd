"""The commits of a Delta table as they are on disk: `_delta_log/<20 digits>.json`, an action a line.

Only what deltalake does not tell is read here: who made a commit, what it removed, which versions there are. A commit's
file is never changed once it is there. It may be gone: whoever keeps a table deletes those before a checkpoint.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from tailrace.spark.errors import TableError
from tailrace.spark.tables.store import Commit

FOLDER: Final = "_delta_log"
APP_ID: Final = "tailrace:"
"""And the number of the partition: the transaction whose version is the offset."""
COMMIT: Final = "tailrace.commit"
OPERATION: Final = "tailrace.operation"
OFFSETS: Final = "tailrace.offsets"
FACTS: Final = "tailrace.facts"
RESTORE: Final = "RESTORE"

_COMMIT_NAME = re.compile(r"(\d{20})\.json")
_VERSION_NAME = re.compile(r"(\d{20})\.(?:json|crc|compacted\.json|checkpoint\.(?:.*\.)?(?:parquet|json))")
_OF_VERSIONS = re.compile(r"(\d{20})\.(?:json|checkpoint\.(?:.*\.)?(?:parquet|json))")
_LEFT_BEHIND = re.compile(r"_commit_.*\.json\.tmp|.*#\d+")
_ADD: Final = '{"add":'


@dataclass(frozen=True)
class Entry:
    """One commit."""

    version: int
    info: Mapping[str, Any]
    transactions: Mapping[int, int]
    """Partition → offset. Empty where somebody else committed."""
    removed: Mapping[str, int] = field(default_factory=dict)
    """Path below the table's root → bytes."""

    @property
    def made_ms(self) -> int:
        found = self.info.get("inCommitTimestamp", self.info.get("timestamp"))
        return found if isinstance(found, int) else 0

    @property
    def is_restore(self) -> bool:
        return self.info.get("operation") == RESTORE

    @cached_property
    def offsets(self) -> dict[int, int] | None:
        """None where somebody else committed."""
        return {part: offset for part, offset in self.transactions.items() if offset >= 0} or None

    def commit(self) -> Commit:
        if self.offsets is None:
            return Commit(self.version, self.made_ms, str(self.info.get("operation", "")).lower() or "unknown", None)
        try:
            facts = json.loads(str(self.info.get(FACTS, "{}")))
        except ValueError:
            facts = {}
        operation = str(self.info.get(OPERATION, "unknown"))
        return Commit(self.version, self.made_ms, operation, self.offsets, facts if isinstance(facts, dict) else {})


class Log:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / FOLDER

    def is_there(self) -> bool:
        """A commit or a checkpoint: not only what is left of a table that was never made."""
        return any(_OF_VERSIONS.fullmatch(name) for name in self._names())

    def versions(self) -> list[int]:
        """Whose commits are retained, the newest first."""
        found = (_COMMIT_NAME.fullmatch(name) for name in self._names())
        return sorted((int(each[1]) for each in found if each is not None), reverse=True)

    def newest(self) -> int:
        """Of commits and checkpoints; -1 where none is."""
        return max((number for _, number in self._numbered()), default=-1)

    def has(self, version: int) -> bool:
        return self._path(version).exists()

    def entry(self, version: int) -> Entry | None:
        """None where it is not retained."""
        try:
            text = self._path(version).read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise TableError(f"cannot read {self._path(version)}: {error}") from error
        try:
            return _parsed(version, text)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TableError(f"{self._path(version)} is not a commit of a Delta table: {error}") from error

    def entries(self, most: int | None = None) -> list[Entry]:
        """All that are retained, or so many of them, the newest first."""
        found = (self.entry(version) for version in self.versions()[:most])
        return [each for each in found if each is not None]

    def files_of(self, version: int) -> list[Path]:
        """Its commit, and its checkpoint where it has one."""
        return [self.folder / name for name, number in self._numbered() if number == version]

    def files_before(self, version: int) -> list[Path]:
        """Commits and checkpoints, the oldest first."""
        found = sorted((number, name) for name, number in self._numbered() if number < version)
        return [self.folder / name for _, name in found]

    def left_behind(self) -> list[Path]:
        """What writers of commits that died have left."""
        return [self.folder / name for name in self._names() if _LEFT_BEHIND.fullmatch(name)]

    def _numbered(self) -> list[tuple[str, int]]:
        found = ((name, _VERSION_NAME.fullmatch(name)) for name in self._names())
        return [(name, int(match[1])) for name, match in found if match is not None]

    def _path(self, version: int) -> Path:
        return self.folder / f"{version:020d}.json"

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise TableError(f"cannot look into {self.folder}: {error}") from error


def is_commit(path: Path) -> bool:
    return _COMMIT_NAME.fullmatch(path.name) is not None


def path_of(text: str) -> str:
    """As a log has it, which quotes what a URI would take for its own."""
    return unquote(text)


def _parsed(version: int, text: str) -> Entry:
    info: Mapping[str, Any] = {}
    transactions: dict[int, int] = {}
    removed: dict[str, int] = {}
    for line in text.split("\n"):
        if not line.strip() or line.startswith(_ADD):  # most lines, and nothing in them is wanted
            continue
        action = json.loads(line)
        if (found := action.get("commitInfo")) is not None:
            info = dict(found)
        elif (found := action.get("remove")) is not None:
            removed[path_of(found["path"])] = int(found.get("size") or 0)
        elif (found := action.get("txn")) is not None and str(found["appId"]).startswith(APP_ID):
            transactions[int(found["appId"].removeprefix(APP_ID))] = int(found["version"])
    return Entry(version, info, transactions, removed)
