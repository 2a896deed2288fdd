"""Which seeds storms are run with, and what is told of one that fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USUAL = 50
SHOWN = 120


def seeds(usual: int = USUAL) -> list[int]:
    """`TAILRACE_STORM_SEEDS` says which, as `17` for one alone or `0:1000` for many; `usual` is how many, if not."""
    first, _, end = os.environ.get("TAILRACE_STORM_SEEDS", f"0:{usual}").partition(":")
    return list(range(int(first), int(end) if end else int(first) + 1))


@contextmanager
def told(seed: int, story: list[str], path: str) -> Iterator[None]:
    """Whatever goes wrong is told with the end of the story, and how to see it again."""
    try:
        yield
    except Exception as error:
        shown = "\n".join(story[-SHOWN:])
        name = Path(path).name
        error.add_note(f"{shown}\nrepeat with: TAILRACE_STORM_SEEDS={seed} python -m pytest tests/sim/{name}")
        raise
