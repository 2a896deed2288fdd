"""A manifest: all that there is to say of one version of a Parquet table, as JSON.

The first line is everything but the files, and lacks only a bracket to be JSON by itself; so a history is read without
reading the files of each version. A line for each file follows. The whole is one JSON object:

    {"format": 1, "version": 7, "id": "…", "parent": "…", "made_ms": …, "operation": "append", "offsets": {"0": 100},
     "facts": {…}, "about": {…}, "columns": {"_topic": "string", …}, "schema": "…", "files": [
    {"path": "_day=2026-11-16/….parquet", "partition": {"_day": "2026-11-16"}, "rows": 100, "bytes": 2048},
    …
    ]}

`schema` is Arrow's own form of the columns in base64; `columns` says the same to people. `id` is drawn anew for each
manifest, and `parent` is that of the version before: a number alone does not tell who came before whom, since those of
removed versions are free again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa

from tailrace.spark.errors import ForeignTableError, TableError
from tailrace.spark.tables.store import About, Commit, DataFile, Offsets

FORMAT: Final = 1
_BEFORE_FILES: Final = ', "files": ['


@dataclass(frozen=True)
class Head:
    """A manifest without its files."""

    version: int
    id: str
    parent: str | None
    made_ms: int
    operation: str
    offsets: Offsets
    facts: Mapping[str, int | str]
    about: About
    schema: pa.Schema

    def commit(self) -> Commit:
        return Commit(self.version, self.made_ms, self.operation, self.offsets, self.facts)


@dataclass(frozen=True)
class Manifest:
    head: Head
    files: Sequence[DataFile]

    def to_bytes(self) -> bytes:
        head = json.dumps(_head_content(self.head), ensure_ascii=False)
        files = ",\n".join(json.dumps(_file_content(each), ensure_ascii=False) for each in self.files)
        return f"{head[:-1]}{_BEFORE_FILES}\n{files}\n]}}\n".encode(errors="surrogatepass")


def manifest_of(content: bytes, name: str) -> Manifest:
    """TableError for what is not a manifest; `name` says in it which file was read."""
    found = _parsed(content, name)
    head = _head_of(found, name)
    try:
        files = [_file_of(each) for each in found["files"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(name, error) from error
    return Manifest(head, files)


def head_of(first_line: bytes, name: str) -> Head:
    """Of a manifest's first line. TableError for what is none."""
    return _head_of(_parsed(first_line.rstrip() + b"]}", name), name)


def _head_content(head: Head) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": head.version,
        "id": head.id,
        "parent": head.parent,
        "made_ms": head.made_ms,
        "operation": head.operation,
        "offsets": {str(partition): offset for partition, offset in sorted(head.offsets.items())},
        "facts": dict(head.facts),
        "about": json.loads(head.about.to_text()),
        "columns": {each.name: str(each.type) for each in head.schema},
        "schema": base64.b64encode(head.schema.serialize().to_pybytes()).decode(),
    }


def _file_content(file: DataFile) -> dict[str, Any]:
    return {"path": file.path, "partition": dict(file.partition), "rows": file.rows, "bytes": file.size_bytes}


def _file_of(content: Any) -> DataFile:
    path = PurePosixPath(content["path"])
    if path.is_absolute() or ".." in path.parts or not path.name:
        raise ValueError(f"{content['path']!r} is no path below the table")
    partition = {str(name): None if value is None else str(value) for name, value in content["partition"].items()}
    return DataFile(content["path"], partition, int(content["rows"]), int(content["bytes"]))


def _head_of(content: dict[str, Any], name: str) -> Head:
    if content.get("format") != FORMAT:
        raise ForeignTableError(
            f"{name} is a manifest of format {content.get('format')!r}; this version of Tailrace knows format {FORMAT}"
        )
    try:
        return Head(
            version=int(content["version"]),
            id=str(content["id"]),
            parent=None if content["parent"] is None else str(content["parent"]),
            made_ms=int(content["made_ms"]),
            operation=str(content["operation"]),
            offsets={int(partition): int(offset) for partition, offset in content["offsets"].items()},
            facts=dict(content["facts"]),
            about=About.from_text(json.dumps(content["about"])),
            schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["schema"], validate=True))),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:  # ArrowInvalid is a ValueError
        raise _damaged(name, error) from error


def _parsed(content: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(content.decode(errors="surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise _damaged(name, error) from error
    if not isinstance(found, dict):
        raise TableError(f"{name} is not a manifest of a table: it is no JSON object")
    return found


def _damaged(name: str, error: Exception) -> TableError:
    return TableError(f"{name} is not a manifest of a table: {type(error).__name__}: {error}")
