"""What the commands have in common about talking to a person: error lines, and text that is safe on a terminal."""

from __future__ import annotations

import io
import sys

from tailrace.model.errors import TailraceError


class CommandError(TailraceError):
    """The command cannot do what it was asked; `hint` says what to try."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint  # type: ignore[misc]  # one class, many occasions


def report(error: TailraceError) -> None:
    print(f"error: {printable(str(error)) or error.name}", file=sys.stderr)
    if error.hint:
        print(f"hint: {printable(error.hint)}", file=sys.stderr)


def printable(text: str) -> str:
    """The text with everything escaped that could move a cursor, change a colour or fail to encode."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown_bytes(data: bytes | None) -> str:
    """Bytes for a person: quoted text where they are UTF-8, else escapes; `null` for None."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return repr(data)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'


def prepare_stdout() -> None:
    """A character that the terminal's encoding lacks is escaped: no dump may fail on what a record holds."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
