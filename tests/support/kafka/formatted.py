"""What two formatted directories have in common: their bytes without times and ids that are drawn at random."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tailrace.env.real import RealFiles
from tailrace.model.ids import DirectoryId
from tailrace.raft.snapshot import SnapshotReader
from tailrace.record.batch import HEADER_BYTES
from tailrace.record.shallow import batches
from tailrace.storage.manager.meta_properties import MetaProperties


def content(root: Path, known_ids: str = "") -> dict[str, Any]:
    """By relative path, without lock files. `known_ids` is a text with the directory ids that the command named."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_dir():
            found[name] = "directory"
        elif path.name == "meta.properties":
            found[name] = [_without_random_id(line, known_ids) for line in _without_date(path)]
        elif path.name != ".lock":
            found[name] = _batches(path, _random_ids(root, known_ids))
    return found


def _without_date(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    assert re.fullmatch(r"#[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d [A-Z]+ \d{4}", lines[1])
    return [lines[0], *lines[2:]]


def _without_random_id(line: str, known_ids: str) -> str:
    key, _, value = line.partition("=")
    return line if key != "directory.id" or value in known_ids else "directory.id=random"


def _random_ids(root: Path, known_ids: str) -> list[DirectoryId]:
    found = []
    for path in root.rglob("meta.properties"):
        meta = MetaProperties.read(RealFiles(), str(path))
        assert meta is not None
        assert meta.directory_id is not None
        if str(meta.directory_id) not in known_ids:
            found.append(meta.directory_id)
    return found


def _batches(path: Path, random_ids: list[DirectoryId]) -> list[Any]:
    """Every field of the batch headers except times and the CRC, and the bytes of the records."""
    data = path.read_bytes()
    time = SnapshotReader(RealFiles(), str(path)).head().timestamp_ms.to_bytes(8, "big")
    found = []
    for batch in batches(data):
        records = data[batch.position + HEADER_BYTES : batch.position + batch.size].replace(time, b"<  time>")
        for directory_id in random_ids:
            records = records.replace(directory_id, b"<a directory id>")
        found.append((batch._replace(crc=0, base_timestamp=0, max_timestamp=0), records))
    return found
