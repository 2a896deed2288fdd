"""Modules of this package as programs in a process of their own: they are found by `PYTHONPATH` wherever they start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def command(module: str, *arguments: str) -> list[str]:
    """What starts `support.stress.log_kills.process` with these arguments; needs `environment`."""
    return [sys.executable, "-m", module, *arguments]


def environment() -> dict[str, str]:
    """The environment of this process, with this package and the tools on the path."""
    paths = (str(ROOT / "tools"), str(ROOT / "tests"), os.environ.get("PYTHONPATH"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
