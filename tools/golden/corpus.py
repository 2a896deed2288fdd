"""The golden directories under `tests/golden`, for tests to read; only `make_golden.py` changes them.

    for golden in cases():
        for name, batches in golden.expected["logs"].items():
            data = golden.file(name).read_bytes()

Tests that open a directory for writing, or let anything recover it, work on a `copy_to`.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "kafka-4.3.1"
LOG_DIRS = ROOT / "log-dirs"  # the files that Kafka keeps beside the partitions, by ending: clean, killed


class Golden(NamedTuple):
    """One partition directory that Kafka wrote, and what Kafka says of it (`expected.json`)."""

    name: str
    expected: dict[str, Any]

    @property
    def folder(self) -> Path:
        return ROOT / self.name / f"{self.name}-0"

    @property
    def was_killed(self) -> bool:
        return bool(self.expected["shutdown"] == "killed")

    def file(self, name: str) -> Path:
        return self.folder / name

    def copy_to(self, log_dir: Path) -> Path:
        """A copy of the partition directory in `log_dir`."""
        return Path(shutil.copytree(self.folder, log_dir / self.folder.name))


@cache
def load(name: str) -> Golden:
    return Golden(name, json.loads((ROOT / name / "expected.json").read_text()))


def case_names() -> list[str]:
    return sorted(file.parent.name for file in ROOT.glob("*/expected.json"))


def cases() -> list[Golden]:
    return [load(name) for name in case_names()]
