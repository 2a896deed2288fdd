"""Shares the first imports of a whole run among its workers.

pytest rewrites the assertions of every test file that it imports, and keeps the result as bytecode. In a fresh clone
each worker would do that for all files at the same time. Here each worker first imports a share of the files. When it
comes to the other files, their bytecode is there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from _pytest.pathlib import import_path

ROOT = Path(__file__).resolve().parents[2]


def share(files: list[Path], worker: str, workers: int) -> list[Path]:
    """The files of the worker `gw<number>`."""
    return files[int(worker.removeprefix("gw")) :: workers]


@pytest.hookimpl
def pytest_collection(session: pytest.Session) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    files = share(sorted((ROOT / "tests").rglob("test_*.py")), worker, int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    for file in files:
        try:
            import_path(file, mode="prepend", root=ROOT, consider_namespace_packages=False)
        except (Exception, pytest.skip.Exception):
            continue
