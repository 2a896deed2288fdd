"""Files of metadata that are on the disk when they are closed, names and all.

pyiceberg leaves what it writes to the operating system. The catalog's commit is on the disk at once, so after a power
cut it could name metadata that is not there.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from tailrace.spark.tables.durable import make_folder, sync


class DurableFileIO(PyArrowFileIO):
    """Named to catalogs by its path (`py-io-impl`)."""

    def new_output(self, location: str) -> PyArrowFile:
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme != "file":
            return super().new_output(location)
        return _DurableFile(location=location, path=path, fs=self.fs_by_scheme(scheme, netloc))


class _DurableFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> OutputStream:
        path = Path(self._path)
        make_folder(path.parent)
        return _DurableStream(path, overwrite)


class _DurableStream(io.BufferedWriter):
    def __init__(self, path: Path, overwrite: bool) -> None:
        self._folder = path.parent
        super().__init__(io.FileIO(path, "w" if overwrite else "x"))

    def close(self) -> None:
        if self.closed:
            return
        try:
            self.flush()
            os.fsync(self.fileno())
        finally:
            super().close()
        sync(self._folder)

    def __exit__(self, *_: Any) -> None:
        self.close()
