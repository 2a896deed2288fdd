"""A private copy of a tree, with a separate virtual environment, in which tests run against changed sources.

Nothing in the copied tree needs to cooperate. The copy's environment links to every installed package of the tree's
environment except the editable installation of the project, which points at the copy; so every process that the tests
start imports the copy, also those with a clean environment. Compiled kernels are left out: kernels run
interpreted.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PLUGINS = Path(__file__).resolve().parent / "plugins"
LEFT_OUT = (".venv", "*.so", "build", "dist", ".hypothesis", ".spec-results", ".*_cache", "*-pytest-*.pyc")
TAG = "TAILRACE_MUTANT_RUN"
POLL_S = 0.25
FIRST_MTIME = 1_000_000_000


class Workspace:
    """One copy. Changes of its sources are undone by `restore`."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.tree = tree
        self.root = folder / "tree"
        self._scratch = folder / "tmp"
        self._originals: dict[Path, tuple[bytes, int]] = {}
        self._edits = 0
        shutil.copytree(tree, self.root, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        make_environment(environment_of(tree), self.root / ".venv", [self.root / "src", PLUGINS], tree / "src")

    @property
    def source(self) -> Path:
        return self.root / "src"

    def write(self, path: Path, text: str) -> None:
        """Replace a source file. Its time is unique, because Python finds stale bytecode by time and size alone."""
        stat = path.stat()
        self._originals.setdefault(path, (path.read_bytes(), stat.st_mtime_ns))
        path.write_text(text, encoding="utf-8", newline="")
        self._edits += 1
        os.utime(path, (FIRST_MTIME + self._edits,) * 2)

    def restore(self) -> None:
        for path, (content, mtime_ns) in self._originals.items():
            path.write_bytes(content)
            os.utime(path, ns=(mtime_ns, mtime_ns))
        self._originals.clear()

    def run(
        self,
        arguments: Sequence[str],
        *,
        variables: Mapping[str, str],
        output: Path,
        is_over: Callable[[], bool] = lambda: False,
    ) -> int | None:
        """Run pytest and end all that it started; the exit code, None if `is_over` ended it."""
        tag = uuid.uuid4().hex
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        environment = {
            **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
            "CI": "true",
            "TAILRACE_KERNELS": "interpreted",
            "TMPDIR": str(self._scratch),
            TAG: tag,
            **variables,
        }
        command = [str(self.root / ".venv" / "bin" / "python"), "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        with output.open("wb") as sink:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                process_group=0,  # a mutant may make a test kill its whole process group
            )
            try:
                while not is_over():
                    try:
                        return process.wait(POLL_S)
                    except subprocess.TimeoutExpired:
                        continue
                return None
            finally:
                end_all(tag)
                process.wait()
                shutil.rmtree(self._scratch, ignore_errors=True)


@contextmanager
def workspace(tree: Path, parent: Path | None = None) -> Iterator[Workspace]:
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Workspace(tree.resolve(), Path(folder).resolve())


def environment_of(tree: Path) -> Path:
    """The tree's virtual environment, or the one that this program runs in."""
    own = tree / ".venv"
    return own if (own / "pyvenv.cfg").is_file() else Path(sys.prefix)


def make_environment(original: Path, copy: Path, paths: Sequence[Path], source: Path) -> None:
    """A virtual environment with the packages of `original`, except what points at the folder `source`."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages, copied_packages = (root / "lib" / version / "site-packages" for root in (original, copy))
    if not packages.is_dir():
        raise FileNotFoundError(f"{original} is no virtual environment of {version}")
    copied_packages.mkdir(parents=True)
    shutil.copy(original / "pyvenv.cfg", copy)
    for entry in packages.iterdir():
        points_at_source = entry.suffix == ".pth" and str(source) in entry.read_text(errors="replace")
        if not points_at_source and not entry.name.startswith("__editable__"):
            (copied_packages / entry.name).symlink_to(entry)
    (copied_packages / "mutants.pth").write_text("".join(f"{path}\n" for path in paths))
    copy_scripts(original / "bin", copy / "bin")


def copy_scripts(original: Path, copy: Path) -> None:
    """Scripts name their interpreter; in the copies it is the copy's."""
    copy.mkdir()
    for entry in original.iterdir():
        if entry.is_symlink() and entry.name.startswith("python"):
            (copy / entry.name).symlink_to(os.readlink(entry))
        elif entry.is_file():
            content = entry.read_bytes()
            if content.startswith(b"#!"):
                content = content.replace(bytes(original), bytes(copy))
            (copy / entry.name).write_bytes(content)
            shutil.copymode(entry, copy / entry.name)


def end_all(tag: str) -> None:
    """Kill every process that has the tag in its environment, until none is left."""
    deadline_s = time.monotonic() + 10
    while (pids := tagged(tag)) and time.monotonic() < deadline_s:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def tagged(tag: str) -> list[int]:
    wanted = f"{TAG}={tag}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            status = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if status != "Z" and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
