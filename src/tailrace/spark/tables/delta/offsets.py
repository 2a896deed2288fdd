"""How far a version of a Delta table has its topic.

Each commit of ours writes a transaction for every partition. A version has those of the newest commit of ours up to it;
what somebody else commits between changes nothing about them. But who restores the table to an older version takes its
rows back and leaves the transactions: then those of that older version count, until the next commit of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tailrace.spark.errors import TableError
from tailrace.spark.tables.delta.lake import DeltaTable, Transaction, loaded
from tailrace.spark.tables.delta.log import APP_ID, Entry, Log
from tailrace.spark.tables.store import Offsets

NOT_THERE: Final = -1
"""The offset of a partition that the table knows nothing of, below one that it does: so that all can be found."""


def transactions(offsets: Offsets) -> list[Transaction]:
    known = range(max(offsets, default=-1) + 1)
    return [Transaction(f"{APP_ID}{partition}", offsets.get(partition, NOT_THERE)) for partition in known]


def offsets_at(log: Log, version: int) -> dict[int, int]:
    """TableError where the table was restored to a version that is not there any more."""
    at = version
    while at >= 0:
        entry = log.entry(at)
        if entry is None:  # only its checkpoint is left, which has all transactions
            break
        if entry.offsets is not None:
            return entry.offsets
        if entry.is_restore:
            at = version = restored_version(log, entry)
        else:
            at -= 1
    return _in_checkpoint(loaded(log.root, version))


def restored_version(log: Log, entry: Entry) -> int:
    """That a RESTORE went back to. One that names a time is known by the files it left."""
    parameters: Mapping[str, Any] = entry.info.get("operationParameters") or {}
    told = parameters.get("version")
    try:
        if told is not None:
            return _older(int(told), entry, log.root)
    except ValueError:
        pass
    files = set(loaded(log.root, entry.version).file_uris())
    for version in log.versions():
        # Of versions with the same files the oldest: records behind it have left none, and are read once more.
        if version < entry.version and set(loaded(log.root, version).file_uris()) == files:
            return _oldest_with(log, version, files)
    raise TableError(
        f"the Delta table at {log.root} was restored by its version {entry.version}, to one that is not there any "
        "more: nobody knows up to which offsets it has the topic now"
    )


def _oldest_with(log: Log, version: int, files: set[str]) -> int:
    while log.has(version - 1) and set(loaded(log.root, version - 1).file_uris()) == files:
        version -= 1
    return version


def _older(version: int, entry: Entry, root: Path) -> int:
    if not 0 <= version < entry.version:
        raise TableError(f"version {entry.version} of the Delta table at {root} says that it restored {version}")
    return version


def _in_checkpoint(table: DeltaTable) -> dict[int, int]:
    found: dict[int, int] = {}
    partition = 0
    while (offset := table.transaction_version(f"{APP_ID}{partition}")) is not None:
        if offset != NOT_THERE:
            found[partition] = offset
        partition += 1
    return found
