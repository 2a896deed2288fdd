"""What of an option's value may be shown: nothing of a secret, and of anything else not more than a line."""

from __future__ import annotations

import re
from typing import Final

_SHOWN_CHARACTERS: Final = 200
_SECRET: Final = re.compile(r"passw|secret|token|credential|jaas|(?:access|private|api|secret)[._-]?key|sasl\.|ssl\.")
_USER_IN_ADDRESS: Final = re.compile(r"[^/,@\s]+(?=@)")


def is_secret(name: str) -> bool:
    """Whether an option of this name may hold one: rather too often than once too seldom."""
    return _SECRET.search(name.lower()) is not None


def shown(name: str, value: str) -> str:
    """`value` as a message may quote it."""
    if is_secret(name):
        return "(not shown)"
    plain = _USER_IN_ADDRESS.sub("…", value)
    return repr(plain if len(plain) <= _SHOWN_CHARACTERS else plain[:_SHOWN_CHARACTERS] + "…")
