"""Lets the programs that tests start receive SIGINT.

A shell without job control ignores SIGINT for what it starts in the background, and children inherit that: a test that
interrupts a program would wait for it without end.
"""

from __future__ import annotations

import signal

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """A handler, unlike SIG_IGN, does not outlive exec."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
