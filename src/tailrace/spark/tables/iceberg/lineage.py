"""How far a snapshot has the topic: the offsets of its nearest ancestor that has some.

Ancestors can be expired by somebody else while theirs is the current snapshot. Then they are looked up in the metadata
that the table had before, of which it keeps the newest hundred: pyiceberg even cuts the link to an expired parent, so
that the end of the line is not to be taken for the beginning of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from pyiceberg.io import FileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tailrace.spark.errors import ForeignTableError, TableError
from tailrace.spark.tables.store import About, Commit, Offsets

ABOUT: Final = "tailrace.about"
CREATED_MS: Final = "tailrace.created-ms"
OFFSETS: Final = "tailrace.offsets"
"""In a snapshot's summary; those that the table began with are in its properties."""
OPERATION: Final = "tailrace.operation"
FACTS: Final = "tailrace.facts"

CREATED: Final = 0
"""The version of a table that has no snapshot yet."""
_FIRST_SEQUENCE_NUMBER: Final = 1


def about_of(metadata: TableMetadata, name: str) -> About:
    text = metadata.properties.get(ABOUT)
    if text is None:
        raise ForeignTableError(f"the table {name} was not made by Tailrace; nothing there was touched")
    try:
        return About.from_text(text)
    except (ValueError, TypeError, KeyError) as error:
        raise ForeignTableError(f"the table {name} says of itself what is not understood here: {error}") from error


def offsets_text(offsets: Offsets) -> str:
    return json.dumps({str(partition): offset for partition, offset in sorted(offsets.items())}, separators=(",", ":"))


def line(metadata: TableMetadata, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """A snapshot and its ancestors, as far as they are retained."""
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = by_id.get(parent) if parent is not None else None


def line_to_offsets(metadata: TableMetadata, snapshot: Snapshot | None) -> list[Snapshot]:
    """A snapshot and its ancestors up to the first that has offsets."""
    found = []
    for each in line(metadata, snapshot):
        found.append(each)
        if _own(each, OFFSETS) is not None:
            break
    return found


def offsets_at(metadata: TableMetadata, snapshot: Snapshot | None, file_io: FileIO, name: str) -> Offsets:
    found = line_to_offsets(metadata, snapshot)
    if not found:
        return _first(metadata, name)
    last = found[-1]
    if (text := _own(last, OFFSETS)) is not None:
        return _parsed(text, name)
    return _before(metadata, last, file_io, name)


def commits(metadata: TableMetadata, snapshot: Snapshot | None, name: str) -> list[Commit]:
    """The newest first. The last is how the table was made, unless snapshots after that were expired."""
    retained = list(line(metadata, snapshot))
    made = [
        Commit(
            each.snapshot_id,
            each.timestamp_ms,
            _own(each, OPERATION) or _foreign_operation(each),
            None if (text := _own(each, OFFSETS)) is None else _parsed(text, name),
            json.loads(_own(each, FACTS) or "{}"),
        )
        for each in retained
    ]
    if retained and retained[-1].sequence_number != _FIRST_SEQUENCE_NUMBER:
        return made
    return [*made, Commit(CREATED, created_ms(metadata), "create", _first(metadata, name))]


def created_ms(metadata: TableMetadata) -> int:
    return int(metadata.properties.get(CREATED_MS, 0))


def _before(metadata: TableMetadata, oldest: Snapshot, file_io: FileIO, name: str) -> Offsets:
    """Of the ancestors of `oldest`, which itself has none and whose parent is not in the metadata."""
    for entry in reversed(metadata.metadata_log):
        if oldest.sequence_number == _FIRST_SEQUENCE_NUMBER:
            break
        try:
            older = FromInputFile.table_metadata(file_io.new_input(entry.metadata_file))
        except (OSError, ValueError):
            continue
        there = older.snapshot_by_id(oldest.snapshot_id)
        if there is None and older.current_snapshot_id is None:
            return _first(metadata, name)
        if there is None:
            continue
        oldest = line_to_offsets(older, there)[-1]
        if (text := _own(oldest, OFFSETS)) is not None:
            return _parsed(text, name)
    if oldest.sequence_number == _FIRST_SEQUENCE_NUMBER:
        return _first(metadata, name)
    raise TableError(
        f"the table {name} does not say how far it has the topic: the snapshots of ours that said so were expired by "
        "somebody else. Roll it back to one of ours, or make it anew"
    )


def _first(metadata: TableMetadata, name: str) -> Offsets:
    text = metadata.properties.get(OFFSETS)
    if text is None:
        raise ForeignTableError(f"the table {name} has lost the property {OFFSETS}")
    return _parsed(text, name)


def _parsed(text: str, name: str) -> Offsets:
    try:
        return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except (ValueError, AttributeError) as error:
        raise TableError(f"the table {name} has offsets that are none: {text[:100]!r}") from error


def _own(snapshot: Snapshot, key: str) -> str | None:
    summary: Any = snapshot.summary
    return None if summary is None else summary.get(key)


def _foreign_operation(snapshot: Snapshot) -> str:
    return "" if snapshot.summary is None else str(snapshot.summary.operation.value)
