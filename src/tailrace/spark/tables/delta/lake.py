"""The package deltalake: needed for Delta tables only. Its errors become ours, without the trace of its own."""

from __future__ import annotations

import os
from pathlib import Path

from tailrace.spark.errors import PipelineError, TableError
from tailrace.spark.tables.delta.log import FOLDER

try:
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
    from deltalake.exceptions import DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction, RemoveAction, Transaction
except ImportError as error:
    raise PipelineError(f"Delta tables need the package deltalake ({error}): pip install 'tailrace[tables]'") from error

__all__ = [
    "AddAction",
    "CommitProperties",
    "DeltaError",
    "DeltaTable",
    "PostCommitHookProperties",
    "RemoveAction",
    "Schema",
    "TableNotFoundError",
    "Transaction",
    "loaded",
    "reason",
]


def loaded(root: Path, version: int | None = None) -> DeltaTable:
    """A handle of its own, of the newest version or of this one. TableError where there is none."""
    while True:
        there = _log_files(root)
        try:
            return DeltaTable(str(root), version=version)
        except TableNotFoundError as error:
            what = "no Delta table" if version is None else f"no version {version} of a Delta table, or not any more,"
            raise TableError(f"there is {what} at {root}") from error
        except (DeltaError, OSError) as error:
            # Who keeps the table tidy may have taken away what was listed and not read yet. The rest is a whole log.
            if there <= _log_files(root):
                raise TableError(f"cannot load the Delta table at {root}: {reason(error)}") from error


def _log_files(root: Path) -> set[str]:
    try:
        return set(os.listdir(root / FOLDER))
    except OSError:
        return set()


def reason(error: BaseException) -> str:
    """The first line: behind it may be the frames of a program that is not ours."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
