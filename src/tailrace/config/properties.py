"""Java properties files, as Kafka's servers read them.

    # a comment, also with !
    log.dirs = /a,/b          key and value stand apart by =, : or white space
    listeners=PLAINTEXT://:9092,\\
        CONTROLLER://:9093    a line that ends in a backslash goes on, without the next one's leading white space
    caf\\u00e9=\\t1             escapes: \\t \\n \\r \\f \\uXXXX; any other character stands for itself

The bytes are ISO 8859-1 by the format's own rule; a file that is UTF-8 is read as such. Of two lines with the same key
the last counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tailrace.config.table import ConfigError

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(data: bytes) -> dict[str, str]:
    """ConfigError, with the line's number, for an escape that is none."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    settings = {}
    for number, line in _logical_lines(text):
        end = _end_of_key(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        try:
            settings[_unescaped(line[:end])] = _unescaped(rest)
        except ValueError as error:
            raise ConfigError(f"line {number}: {error}") from None
    return settings


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations, without blank ones and comments; numbered from 1."""
    begun, started_at = "", 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANKS)
        if not started_at:
            if not line or line[0] in "#!":
                continue
            started_at = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            begun += line[:-1]
            continue
        yield started_at, begun + line
        begun, started_at = "", 0
    if started_at:
        yield started_at, begun


def _end_of_key(line: str) -> int:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    return min(position, len(line))


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    parts, position = [], 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\" and position < len(text):
            char = text[position]
            position += 1
            if char == "u":
                digits = text[position : position + 4]
                if len(digits) < 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                    raise ValueError(f"\\u{digits} must have four hexadecimal digits")
                char = chr(int(digits, 16))
                position += 4
            else:
                char = _ESCAPES.get(char, char)
        elif char == "\\":
            break  # at the end of the file: there is nothing that it could mean
        parts.append(char)
    return _joined("".join(parts))


def _joined(text: str) -> str:
    """Two escapes may be the halves of one character; a half alone is not text."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
