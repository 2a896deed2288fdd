"""The package builds with and without a C compiler, and what was built runs from its wheel.

Everything happens in a copy of the sources, without build isolation and without installing: no network is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNELS = "tailrace/record/kernels"
KERNEL_SOURCES = sorted(path.name for path in (ROOT / "src" / KERNELS).glob("*.py"))
KERNEL_MODULES = [name.removesuffix(".py") for name in KERNEL_SOURCES if name != "__init__.py"]
FOR_SPARK = {"pyspark_tailrace/__init__.py", "pyspark_tailrace/py.typed", "tailrace/spark/log4j2.properties"}
EXTENSION_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")

needs_compiler = pytest.mark.skipif(
    shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is None, reason="no C compiler here"
)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of what the package is built from, without anything built before."""
    copy = tmp_path / "sources"
    built = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", copy / "src", ignore=built)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, copy / name)
    return copy


def build(sources: Path, *options: str, **variables: str) -> Path:
    """Build in `sources` and return the one archive that came out."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", *options, "."]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=sources, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = (sources / "dist").iterdir()
    return archive


def version_of_unpacked(wheel: Path) -> str:
    """What `tailrace --version` says when the package is imported from the wheel's files."""
    unpacked = wheel.parent / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    command = [sys.executable, "-c", "import sys; from tailrace.cli.main import main; sys.exit(main(['--version']))"]
    environment = {**os.environ, "PYTHONPATH": str(unpacked), "TAILRACE_KERNELS": ""}
    done = subprocess.run(command, cwd=unpacked, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@needs_compiler
def test_wheel_holds_every_kernel_compiled_and_as_source(sources: Path) -> None:
    wheel = build(sources, "--wheel")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{KERNELS}/{name}" for name in KERNEL_SOURCES} <= names
    assert {f"{KERNELS}/{name}{EXTENSION_SUFFIX}" for name in KERNEL_MODULES} <= names
    assert {"tailrace/py.typed", *FOR_SPARK} <= names
    assert not [name for name in names if name.endswith(".c")]
    assert version_of_unpacked(wheel).endswith("kernels: compiled\n")


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["false", "no-such-compiler-anywhere"], ids=["fails", "missing"])
def test_wheel_without_a_compiler_runs_interpreted(sources: Path, compiler: str) -> None:
    wheel = build(sources, "--wheel", CC=compiler)
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{KERNELS}/{name}" for name in KERNEL_SOURCES} <= names
    assert not [name for name in names if name.endswith((".so", ".c"))]
    assert version_of_unpacked(wheel).endswith("kernels: interpreted\n")


@pytest.mark.long
def test_source_archive_holds_sources_only(sources: Path) -> None:
    archive = build(sources, "--sdist")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert {f"src/{KERNELS}/{name}" for name in KERNEL_SOURCES} | {"setup.py", "LICENSE", "README.md"} <= names
    assert {f"src/{name}" for name in FOR_SPARK} <= names
    assert not [name for name in names if name.startswith("build/") or name.endswith((".so", ".c"))]
