"""The folder of a table's manifests. A version comes to be in one step, and only once.

A manifest is written under a name that nobody looks for, synced, and linked to its number: a link fails where the
number is taken. That the number is free does not prove that it is the next one: a driver that was stopped for days may
find its number free again because the versions since were removed. So whoever has linked a manifest looks whether later
ones are there that do not descend from it, and takes it back then; versions are removed from the oldest on, so that one
below a gap is never part of the history.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tailrace.spark.errors import ChangedMeanwhileError, TableError
from tailrace.spark.tables.durable import make_folder, sync
from tailrace.spark.tables.parquet.manifest import Head, Manifest, head_of, manifest_of

FOLDER: Final = "_tailrace"
_NAME = re.compile(r"(\d{20})\.json")
_UNFINISHED: Final = ".new-"
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


class ManifestFolder:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.path = root / FOLDER

    def versions(self) -> list[int]:
        """In order. Empty where there is no such folder."""
        try:
            names = os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise TableError(f"cannot look into {self.path}: {error}") from error
        return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))

    def newest(self) -> Manifest | None:
        while True:
            versions = self.versions()
            if not versions:
                return None
            found = self.read(versions[-1])
            if found is not None:  # otherwise removed since we looked: a later one is there
                return found

    def read(self, version: int) -> Manifest | None:
        """None where it is not, or not any more."""
        path = self._path(version)
        content = _content(path)
        return None if content is None else manifest_of(content, str(path))

    def head(self, version: int) -> Head | None:
        """Without the files: of a long table these are nearly all of it."""
        path = self._path(version)
        try:
            with path.open("rb") as stream:
                line = stream.readline()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TableError(f"cannot read {path}: {error}") from error
        return head_of(line, str(path))

    def line(self) -> Iterator[Head]:
        """The history: the newest, the one before it, and so on as far as they are kept."""
        child: Head | None = None
        for version in reversed(self.versions()):
            if child is not None and version != child.version - 1:
                return
            found = self.head(version)
            if found is None or (child is not None and found.id != child.parent):
                return
            yield found
            child = found

    def add(self, manifest: Manifest) -> None:
        """ChangedMeanwhileError where its number is taken, or is not the next one any more."""
        version = manifest.head.version
        versions = self.versions()
        if versions and versions[-1] >= version:
            raise self._changed(version)
        try:
            make_folder(self.path)
            self._link(manifest.to_bytes(), version)
            sync(self.path)
        except OSError as error:
            raise TableError(f"cannot commit version {version} to {self.path}: {error}") from error
        self._take_back_unless_newest(manifest.head)

    def remove(self, version: int) -> None:
        """To be called for the oldest first."""
        with contextlib.suppress(FileNotFoundError):
            self._path(version).unlink()

    def unfinished(self) -> list[Path]:
        """Left by those who died while they wrote one, or being written."""
        with contextlib.suppress(FileNotFoundError):
            return [self.path / name for name in os.listdir(self.path) if name.startswith(_UNFINISHED)]
        return []

    def _link(self, content: bytes, version: int) -> None:
        unfinished = self.path / f"{_UNFINISHED}{uuid.uuid4().hex}"
        target = self._path(version)
        try:
            with unfinished.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            try:
                os.link(unfinished, target)
            except FileExistsError:
                if not _is_same(unfinished, target):  # over NFS a repeated call finds what it made itself
                    raise self._changed(version) from None
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise TableError(
                        f"cannot commit to {self.path}: its file system makes no hard links ({error.strerror})"
                    ) from error
                raise
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink()

    def _take_back_unless_newest(self, ours: Head) -> None:
        versions = self.versions()
        if versions and versions[-1] == ours.version:
            return
        child = self.head(ours.version + 1)
        if child is not None and child.parent == ours.id:
            return
        self.remove(ours.version)
        raise self._changed(ours.version)

    def _changed(self, version: int) -> ChangedMeanwhileError:
        return ChangedMeanwhileError(
            f"the table at {self._root} was changed by somebody else: it has version {version} already, or later ones"
        )

    def _path(self, version: int) -> Path:
        return self.path / f"{version:020}.json"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TableError(f"cannot read {path}: {error}") from error


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
