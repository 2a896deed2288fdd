"""What is on the disk, and stays there when the power goes."""

from __future__ import annotations

import errno
import os
import uuid
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


def check_can_be_made(folder: Path) -> None:
    """OSError as `make_folder` would raise it, or who writes into a folder that is there. Nothing is left behind."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    if not missing:
        # Nothing is tried inside: another driver that looks into it just then would see somebody else's data.
        if not os.access(folder, os.W_OK | os.X_OK):
            code = errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
            raise OSError(code, os.strerror(code), str(folder))
        return
    # Tried, because rights do not tell: root has them everywhere, and can make no folder in /proc. Under another name,
    # because a folder that others make at the same time must not be taken away from them.
    trial = missing[-1].with_name(f".tailrace-{uuid.uuid4().hex}")
    try:
        trial.mkdir()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(missing[-1])) from error
    trial.rmdir()
