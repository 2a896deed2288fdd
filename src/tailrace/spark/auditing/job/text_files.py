"""What checkpoints have in common when something is wrong with one."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tailrace.env import Files, Mode
from tailrace.storage.checkpoint import parse_number

_MOST_BYTES: Final = 32


def states_newer_version(files: Files, path: str, known: int) -> bool:
    """Whether the first line of a checkpoint is the number of a version that is not known yet."""
    with suppress(OSError):
        file = files.open(path, Mode.READ)
        try:
            first, newline, _ = file.read_at(_MOST_BYTES, 0).partition(b"\n")
        finally:
            file.close()
        version = parse_number(first.decode("ascii", "replace").strip(), 2**31 - 1)
        return bool(newline) and version is not None and version > known
    return False


def without_path(path: str, error: Exception) -> str:
    """Errors of files begin with their path; a finding names the file already."""
    return str(error).removeprefix(path).lstrip(": ")
