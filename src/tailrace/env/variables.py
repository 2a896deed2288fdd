"""Environment variables, for the few switches that must be known while modules are imported.

Everything else is configuration and is handed in.
"""

from __future__ import annotations

import os


def variable(name: str) -> str:
    """Its value, empty when it is not set."""
    return os.environ.get(name, "")
