"""What is on the disk, and stays there when the power goes."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: str | Path) -> None:
    """A file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """With those above it that are not there. Their names last; its own also where somebody else has just made it."""
    made = [each for each in folder.parents if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in (*reversed(made), folder):
        sync(each.parent)
