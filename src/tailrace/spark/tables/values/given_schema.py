"""A schema that the user gave: its text, or the path of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tailrace.spark.errors import OptionError

_MAX_BYTES: Final = 16 * 1024 * 1024


def is_json_text(given: str) -> bool:
    """Whether it is a schema in JSON, not a path."""
    return given.lstrip()[:1] in ("{", "[", '"')


def bytes_of_file(given: str) -> bytes:
    path = Path(given.removeprefix("file://").removeprefix("file:"))
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise OptionError(f"schema {given}: larger than {_MAX_BYTES} bytes")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise OptionError(f"schema {given!r}: neither a schema nor a file that can be read: {error}") from error


def text_of_file(given: str) -> str:
    try:
        return bytes_of_file(given).decode("utf-8")
    except UnicodeDecodeError as error:
        raise OptionError(f"schema {given}: not UTF-8") from error
