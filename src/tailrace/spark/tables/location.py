"""Where a table may lie: a folder that the driver and all executors see under the same path."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from tailrace.spark.errors import OptionError

HINT: Final = "tables lie in a local or shared folder, given as a path or as file:/…"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def local_folder(place: str) -> Path:
    """The absolute path that a path or a `file:` URI names. OptionError for everything else."""
    if not place.strip():
        raise OptionError(f"a table needs a place: {HINT}")
    if "\0" in place:
        raise OptionError(f"the place {place!r} has a zero byte in it: {HINT}")
    if not _SCHEME.match(place):
        return Path(place).expanduser().absolute()
    parts = urlsplit(place)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise OptionError(f"cannot keep a table at {place!r}: {HINT}")
    path = unquote(parts.path)
    if not path.startswith("/"):
        raise OptionError(f"{place!r} names no absolute path: {HINT}")
    return Path(path)
