"""Which names a topic may have.

`.` and `_` are the same in the names of metrics, so that two topics may not differ in these alone.
"""

from __future__ import annotations

import re
from typing import Final

from tailrace.model.errors import InvalidTopicError

MAX_NAME_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raises InvalidTopicError."""
    fault = _fault(name)
    if fault is not None:
        raise InvalidTopicError(f"Topic name is invalid: {fault}")


def is_legal_topic_name(name: str) -> bool:
    return _fault(name) is None


def has_collision_characters(name: str) -> bool:
    return "." in name or "_" in name


def unified_name(name: str) -> str:
    """The same for two topics that metrics could not tell apart."""
    return name.replace(".", "_")


def _fault(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
