"""Places and keys for the words of a finding."""

from __future__ import annotations

from typing import Final

from tailrace.spark.auditing.job.places import Folder

SHOWN_KEY_BYTES: Final = 32


def file_of(folder: Folder, offset: int) -> str:
    """The log file that holds `offset`, or should; the folder where none can."""
    for segment in reversed(folder.segments):
        if segment.base_offset <= offset:
            return segment.path
    return folder.path


def shown_key(key: bytes) -> str:
    """The beginning of a key for people: text where it is text, else hexadecimal digits."""
    beginning, more = key[:SHOWN_KEY_BYTES], "…" if len(key) > SHOWN_KEY_BYTES else ""
    try:
        text = beginning.decode("utf-8", "ignore" if more else "strict")
    except UnicodeDecodeError:
        text = "\0"
    return f"'{text}{more}'" if text.isprintable() else f"0x{beginning.hex()}{more}"
