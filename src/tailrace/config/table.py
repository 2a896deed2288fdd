"""How a settings table is written: a frozen dataclass whose fields are keys with dots turned into underscores.

Each field has a default, a parser that refuses what the setting cannot be (ValueError), and a line of documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any, Final

MAX_LONG: Final = 2**63 - 1
MIN_LONG: Final = -(2**63)
MAX_INT: Final = 2**31 - 1


class ConfigError(ValueError):
    """A setting is unknown or has a value that it cannot have; the text names the key."""


def key(default: Any, parse: Callable[[str], Any], doc: str) -> Any:
    return field(default=default, metadata={"parse": parse, "doc": doc})


def whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return parse


def fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("must be from 0 to 1")
    return value


def choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("must be true or false")
    return lowered == "true"


def text_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parsed(table: type, settings: Mapping[str, str], what: str) -> dict[str, Any]:
    """Field values for `table`; ConfigError for a key that it does not have or a value that is refused."""
    known = {each.name.replace("_", "."): each for each in fields(table) if "parse" in each.metadata}
    values: dict[str, Any] = {}
    for name, text in settings.items():
        if name not in known:
            raise ConfigError(f"{name}: no such {what} setting")
        try:
            values[known[name].name] = known[name].metadata["parse"](text)
        except ValueError as error:
            raise ConfigError(f"{name}={text}: {error}") from None
    return values
