"""The callback for an event that needs no reaction."""

from __future__ import annotations


def noop(*_: object) -> None:
    """Do nothing."""
