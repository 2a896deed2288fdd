"""The name that somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str:
    """`; did you mean NAME?`, or nothing where no known name is like it."""
    folded = {each.lower(): each for each in sorted(known)}
    found = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f"; did you mean {folded[found[0]]}?" if found else ""
