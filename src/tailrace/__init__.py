"""Tailrace: a distributed log that speaks Kafka's wire protocol and writes Kafka's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.testing.broker import Broker

__version__ = "0.1.0.dev0"

__all__ = ["Broker", "__version__"]


def __getattr__(name: str) -> object:
    """`tailrace.Broker` is loaded when it is asked for: whoever reads a log file needs no part of it."""
    if name == "Broker":
        from tailrace.testing.broker import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
