"""Regular expressions of subscriptions, in RE2's syntax, matched by RE2 itself.

They come from the network and are matched on the thread that serves everybody: RE2 takes time and memory in
proportion to pattern and name, whatever the pattern. A pattern has to match a topic's whole name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import re2  # type: ignore[import-untyped,unused-ignore]

from tailrace.model.errors import InvalidRegularExpressionError

MAX_LENGTH: Final = 0x7FFF
"""In bytes: a group's records have no place for longer ones."""
MAX_BYTES: Final = 8 << 20
"""Of memory, that a pattern may take: RE2's own default."""

SHOWN: Final = 200
"""Characters of a pattern, in an error's message."""

Matcher = Callable[[str], Any]
"""Gives something true for a name that matches."""


def compiled(pattern: str) -> Matcher:
    """Raises InvalidRegularExpressionError for what RE2 does not accept."""
    if len(pattern.encode(errors="replace")) > MAX_LENGTH:
        raise InvalidRegularExpressionError(f"a regular expression has more than {MAX_LENGTH} bytes")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_BYTES
    try:
        matcher: Matcher = re2.compile(pattern, options).fullmatch
    except re2.error as error:
        raise InvalidRegularExpressionError(
            f"{pattern[:SHOWN]!r} is not a regular expression in RE2's syntax: {_reason(error)[:SHOWN]}"
        ) from None
    except UnicodeEncodeError:
        raise InvalidRegularExpressionError("a regular expression has to be Unicode") from None
    finally:
        re2.purge()  # or the last 128 are remembered, with all their memory
    return matcher


def _reason(error: Exception) -> str:
    cause = error.args[0] if error.args else ""
    return cause.decode(errors="replace") if isinstance(cause, bytes) else str(cause)
