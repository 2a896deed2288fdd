"""Runs programs on a terminal of their own, 24 lines high."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

LINES = 24
CHUNK_BYTES = 65_536


def run_on_terminal(
    command: Sequence[str | Path],
    *,
    columns: int = 80,
    stderr: int | None = None,
    variables: dict[str, str] | None = None,
) -> tuple[int, str]:
    """The exit code and all that the program wrote, escape sequences included. `stderr` as for `subprocess.Popen`."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", LINES, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    environment |= {"TERM": "xterm-256color", **(variables or {})}
    errors = theirs if stderr is None else stderr
    try:
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=errors, env=environment) as process:
            os.close(theirs)
            written = b""
            with suppress(OSError):  # the end of a terminal is an error on Linux
                while piece := os.read(ours, CHUNK_BYTES):
                    written += piece
    finally:
        os.close(ours)
    return process.returncode, written.decode()
