"""Options as they were given, taken by name and kind. Names are the same in any case, as everywhere in Spark.

Whatever cannot be understood is an OptionError that names the option in its proper spelling, the value given unless it
may be a secret, and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tailrace.spark.errors import OptionError
from tailrace.spark.options.secrets import shown

MAX_INT: Final = (1 << 31) - 1
MAX_LONG: Final = (1 << 63) - 1

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DURATION: Final = re.compile(r"([0-9]{1,15})\s*([a-z]*)", re.ASCII)
_UNIT_US: Final = {
    "us": 1,
    "": 1_000,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


class Given:
    def __init__(self, given: Mapping[str, object]) -> None:
        """A value of None is the same as no option."""
        self._values = {name.lower(): _text(value) for name, value in given.items() if value is not None}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def names(self) -> list[str]:
        """In lower case, in order."""
        return sorted(self._values)

    def refusal(self, name: str, rule: str) -> OptionError:
        """The error that says why the value of `name` cannot be."""
        return refusal(name, self._values.get(name.lower(), ""), rule)

    def text(self, name: str) -> str | None:
        """Without the space around it. What is given must not be empty."""
        value = self._values.get(name.lower())
        if value is None:
            return None
        if not value.strip():
            raise self.refusal(name, "must not be empty")
        return value.strip()

    def boolean(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise self.refusal(name, "must be true or false")
        return text.lower() == "true"

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in allowed:
            raise self.refusal(name, f"must be {' or '.join(allowed)}")
        return text.lower()

    def whole(self, name: str, *, least: int, greatest: int = MAX_LONG) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if _WHOLE.fullmatch(text) is None or not least <= int(text) <= greatest:
            raise self.refusal(name, f"must be a whole number from {least} to {greatest}")
        return int(text)

    def duration_ms(self, name: str) -> int | None:
        """Such as 30s or 15m; without a unit, milliseconds."""
        text = self.text(name)
        if text is None:
            return None
        found = _DURATION.fullmatch(text.lower())
        if found is None or found[2] not in _UNIT_US:
            raise self.refusal(name, "must be a time with a unit of us, ms, s, m, min, h or d, such as 15m")
        return int(found[1]) * _UNIT_US[found[2]] // 1_000


def refusal(name: str, value: str, rule: str) -> OptionError:
    return OptionError(f"option {name} is {shown(name, value)}: it {rule}")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
