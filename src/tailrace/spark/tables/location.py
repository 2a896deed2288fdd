"""Where a table may lie: a folder that the driver and all executors see under the same path."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from tailrace.spark.errors import OptionError

HINT: Final = "tables lie in a local or shared folder, given as a path or as file:/…"

_SCHEME = re.compile(r"file:|[A-Za-z][A-Za-z0-9+.-]*:/", re.IGNORECASE)
_NOT_IN_URIS: Final = "?#\t\r\n"
"""Whoever takes a URI apart ends the path at some of these, and drops the others: it would be another place."""


def local_folder(place: str) -> Path:
    """The absolute path that a path or a `file:` URI names. OptionError for everything else."""
    if not place.strip():
        raise OptionError(f"a table needs a place: {HINT}")
    path = _path_in_uri(place) if _SCHEME.match(place) else place
    if "\0" in path:
        raise OptionError(f"the place {place!r} has a zero byte in it: {HINT}")
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:  # a ~ with a name that nobody has
        raise OptionError(f"cannot keep a table at {place!r}, in a home directory that is not known: {HINT}") from error


def _path_in_uri(place: str) -> str:
    parts = urlsplit(place)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise OptionError(f"cannot keep a table at {place!r}: {HINT}")
    if any(each in _NOT_IN_URIS for each in place):
        raise OptionError(f"{place!r} has ?, #, a tab or a line break in it, which is %3F, %23, … in a URI: {HINT}")
    path = unquote(parts.path)
    if not path.startswith("/"):
        raise OptionError(f"{place!r} names no absolute path: {HINT}")
    return path
