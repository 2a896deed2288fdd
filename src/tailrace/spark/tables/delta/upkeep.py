"""What a Delta table need not keep any more.

A version goes when its successor is older than what is retained: until then it was the table. Its commit goes, once a
checkpoint stands where the retained ones begin; then the files that no kept version has. Needed are the files of the
newest version, and all that were removed since the oldest kept one. Versions since the last commit of ours are kept,
and so are all where the table was restored after it: the offsets are found by them.

A crash leaves files that nothing names, which go when they are old enough. Safe beside drivers, readers, and others
that do the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from tailrace.spark.errors import TableError
from tailrace.spark.tables.delta.lake import DeltaError, DeltaTable, loaded, reason
from tailrace.spark.tables.delta.log import Entry, Log, is_commit, path_of
from tailrace.spark.tables.durable import sync
from tailrace.spark.tables.store import Removed

SUFFIX: Final = ".parquet"


def retain(log: Log, since_ms: int, abandoned_before_ms: int, *, dry_run: bool) -> Removed:
    """The newest version stays, whatever is asked."""
    try:
        abandoned = dict(_old_files(log.root, abandoned_before_ms))  # before the log is read: what it names is kept
        table = loaded(log.root)
        versions = log.versions()  # after it: what was removed meanwhile is in the one or in the other
        oldest = _oldest_kept(log, versions, since_ms, table.version())
        expired = _there(log.root, _entries(log, (each for each in versions if each <= oldest)))
        unwanted = {**abandoned, **expired}
        _take_out(unwanted, _paths_in(table))
        for each in _entries(log, (each for each in versions if each > oldest)):
            if not unwanted:
                break
            _take_out(unwanted, each.removed)
        old_log = log.files_before(oldest)
        if not dry_run:
            if old_log:
                _begin_at(log, oldest)
            _delete([*old_log, *_old_of(log.left_behind(), abandoned_before_ms)])
            _delete(log.root / path for path in unwanted)
    except OSError as error:
        raise TableError(f"cannot remove old files of the Delta table at {log.root}: {error}") from error
    return Removed(len(unwanted), sum(unwanted.values()), sum(map(is_commit, old_log)))


def _paths_in(table: DeltaTable) -> set[str]:
    found = pa.table(table.get_add_actions(flatten=False)).column("path").to_pylist()
    return set(map(path_of, found))


def _entries(log: Log, versions: Iterable[int]) -> Iterator[Entry]:
    """One at a time: of a long history they are too much for memory."""
    return (entry for version in versions if (entry := log.entry(version)) is not None)


def _take_out(files: dict[str, int], needed: Iterable[str]) -> None:
    for path in needed:
        files.pop(path, None)


def _oldest_kept(log: Log, versions: list[int], since_ms: int, newest: int) -> int:
    """Of versions, the newest first."""
    for ours in _entries(log, versions):
        if ours.offsets is not None:
            break
        if ours.is_restore:
            return 0
    else:
        return 0
    young = (each.version for each in _entries(log, reversed(versions)) if each.made_ms >= since_ms)
    return max(min(next(young, newest + 1) - 1, ours.version), 0)


def _begin_at(log: Log, version: int) -> None:
    """A checkpoint there, so that nothing before is needed to load it and what follows."""
    try:
        loaded(log.root, version).create_checkpoint()
        for path in log.files_of(version):
            sync(path)
        sync(log.folder)
    except DeltaError as error:
        raise TableError(f"cannot write a checkpoint of the Delta table at {log.root}: {reason(error)}") from error


def _there(root: Path, entries: Iterable[Entry]) -> dict[str, int]:
    """Files that these removed, and that are still on disk."""
    found = {path: size for each in entries for path, size in each.removed.items()}
    return {path: size for path, size in found.items() if _is_below(path) and (root / path).is_file()}


def _is_below(path: str) -> bool:
    return not path.startswith("/") and ":" not in path.partition("/")[0] and ".." not in path.split("/")


def _old_files(root: Path, before_ms: int) -> Iterator[tuple[str, int]]:
    """Data files where tasks write them: beside the log, and in folders of partition values."""
    waiting = [""]
    while waiting:
        above = waiting.pop()
        with os.scandir(root / above) as entries:
            for each in entries:
                path = f"{above}/{each.name}" if above else each.name
                if each.is_dir(follow_symlinks=False):
                    if "=" in each.name:
                        waiting.append(path)
                elif each.name.endswith(SUFFIX) and each.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        seen = each.stat(follow_symlinks=False)
                        if seen.st_mtime_ns // 1_000_000 < before_ms:
                            yield path, seen.st_size


def _old_of(paths: Iterable[Path], before_ms: int) -> Iterator[Path]:
    for path in paths:
        with suppress(FileNotFoundError):
            if path.stat().st_mtime_ns // 1_000_000 < before_ms:
                yield path


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            path.unlink()
