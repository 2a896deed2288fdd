"""What a verification has to say about one file of a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

ERROR: Final = "error"
NOTE: Final = "note"


class Finding(NamedTuple):
    """`file` is a name in the verified directory, `position` a byte in it where one can be named.

    An error contradicts the format or another file. A note is worth knowing and harmless: it goes at the next start.
    """

    file: str
    position: int | None
    problem: str
    severity: str = ERROR


Report: TypeAlias = Callable[[Finding], None]
