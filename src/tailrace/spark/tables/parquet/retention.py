"""What a Parquet table need not keep any more.

A version goes when its successor is older than what is retained: until then it was the table. Its manifest goes first,
from the oldest on, then the files that no kept version names. A crash between the two leaves files without a name,
which go when they are old enough.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from tailrace.spark.errors import TableError
from tailrace.spark.tables.durable import sync
from tailrace.spark.tables.parquet.manifest_folder import ManifestFolder
from tailrace.spark.tables.store import Removed

SUFFIX: Final = ".parquet"


def retain(root: Path, staging: str, since_ms: int, abandoned_before_ms: int, *, dry_run: bool) -> Removed:
    """The newest version stays, whatever is asked. Safe beside drivers, readers, and others that do the same."""
    folder = ManifestFolder(root)
    try:
        abandoned = dict(_old_files(root, staging, folder, abandoned_before_ms))  # before any manifest is read
        kept = _kept(folder, since_ms)
        begins_with = _names_in(folder, kept[0]) if kept else None
        if begins_with is None:  # no table, or somebody else is doing the same
            return Removed()
        removed = [version for version in folder.versions() if version < kept[0]]
        # A file that is not in a version any more is in none after it: nobody writes under a name that was used.
        expired: set[str] = set()
        for version in removed:
            expired |= (_names_in(folder, version) or set()) - begins_with
        unwanted = {name: _size(root / name) for name in expired}
        nameless = {name: size for name, size in abandoned.items() if name not in expired}
        unwanted |= _without_needed(folder, kept, nameless)
        if not dry_run:
            _remove(root, folder, removed, unwanted)
    except OSError as error:
        raise TableError(f"cannot remove old files of the table at {root}: {error}") from error
    return Removed(len(unwanted), sum(unwanted.values()), len(removed))


def _kept(folder: ManifestFolder, since_ms: int) -> list[int]:
    """The versions of the history that were the table at that time or later, the oldest first. Only those that go are
    looked into: there may be tens of thousands of others."""
    versions = folder.versions()
    first = max(len(versions) - 1, 0)
    while first and versions[first - 1] == versions[first] - 1:
        first -= 1
    line = versions[first:]
    for number, (version, next_version) in enumerate(pairwise(line)):
        head, successor = folder.head(version), folder.head(next_version)
        if head is None or successor is None or successor.parent != head.id:
            continue
        if successor.made_ms >= since_ms:
            return line[number:]
    return line[-1:]


def _without_needed(folder: ManifestFolder, kept: Sequence[int], files: dict[str, int]) -> dict[str, int]:
    """Nearly all that is needed is in the newest version or in the oldest. What is left then is looked for in all."""
    for version in (kept[-1], *kept):
        if not files:
            break
        needed = _names_in(folder, version) or set()
        files = {name: size for name, size in files.items() if name not in needed}
    return files


def _names_in(folder: ManifestFolder, version: int) -> set[str] | None:
    manifest = folder.read(version)
    return None if manifest is None else {each.path for each in manifest.files}


def _old_files(root: Path, staging: str, folder: ManifestFolder, before_ms: int) -> Iterator[tuple[str, int]]:
    """Path below the root and size of data files, and of unfinished ones, that nobody wrote to since then. Only where
    tasks write them: what other folders hold, as another table, is not ours."""
    for place, folders, names in os.walk(root):
        where = Path(place).relative_to(root)
        is_staging = where.parts[:1] == (staging,)
        if not is_staging:
            folders[:] = [each for each in folders if "=" in each or (where == Path() and each == staging)]
        for name in names:
            if is_staging or name.endswith(SUFFIX):
                yield from _if_old(root, where / name, before_ms)
    for path in folder.unfinished():
        yield from _if_old(root, path.relative_to(root), before_ms)


def _if_old(root: Path, path: Path, before_ms: int) -> Iterator[tuple[str, int]]:
    try:
        found = (root / path).lstat()
    except FileNotFoundError:
        return
    if found.st_mtime_ns < before_ms * 1_000_000:
        yield path.as_posix(), found.st_size


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _remove(root: Path, folder: ManifestFolder, versions: Sequence[int], names: Iterable[str]) -> None:
    for version in versions:
        folder.remove(version)
    if versions:
        sync(folder.path)
    for name in names:
        (root / name).unlink(missing_ok=True)
