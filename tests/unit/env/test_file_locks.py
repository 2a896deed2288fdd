"""Locks on files, real and simulated, and canonical paths."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.env.files import Files
from tailrace.env.real import RealFiles
from tailrace.sim import SimDisk

POSIX_LOCKER = """
import fcntl, sys
file = open(sys.argv[1], "r+")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("refused", flush=True)
else:
    print("taken", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(params=["real", "sim"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    if request.param == "real":
        return RealFiles(), str(tmp_path)
    disk = SimDisk()
    disk.make_dir("/data")
    return disk, "/data"


@pytest.mark.spec("LM-01")
def test_one_holder_at_a_time(place: tuple[Files, str]) -> None:
    files, directory = place
    path = f"{directory}/.lock"
    first = files.lock(path)
    for _ in range(2):  # a refused attempt must not weaken the first
        with pytest.raises(BlockingIOError) as refused:
            files.lock(path)
        assert refused.value.filename == path
    other = files.lock(path + "2")
    first.release()
    first.release()
    second = files.lock(path)
    with pytest.raises(BlockingIOError):
        files.lock(path)
    second.release()
    other.release()
    assert files.size(path) == 0


def test_a_lock_where_no_file_can_be(place: tuple[Files, str]) -> None:
    files, directory = place
    with pytest.raises(FileNotFoundError):
        files.lock(f"{directory}/missing/.lock")
    with pytest.raises(IsADirectoryError):
        files.lock(directory)


@pytest.mark.spec("LM-01")
def test_the_locks_that_java_takes_exclude_ours(tmp_path: Path) -> None:
    """Kafka's are POSIX record locks."""
    path = tmp_path / ".lock"
    ours = RealFiles().lock(str(path))
    command = [sys.executable, "-c", POSIX_LOCKER, str(path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "refused\n"
    ours.release()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as kafka:
        assert kafka.stdout is not None
        assert kafka.stdout.readline() == "taken\n"
        with pytest.raises(BlockingIOError):
            RealFiles().lock(str(path))
        kafka.kill()
        kafka.wait()
    RealFiles().lock(str(path)).release()


def test_a_simulated_lock_ends_with_the_process() -> None:
    disk = SimDisk()
    disk.lock("/.lock")
    disk.kill()
    disk.lock("/.lock")
    disk.sync_all()
    disk.restart()
    disk.lock("/.lock")


def test_canonical_paths(place: tuple[Files, str]) -> None:
    files, directory = place
    base = files.canonical(directory)
    assert files.canonical(f"{directory}/./") == base
    with pytest.raises(FileNotFoundError):
        files.canonical(f"{directory}/missing")


def test_canonical_paths_follow_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    files = RealFiles()
    assert files.canonical(str(tmp_path / "link")) == files.canonical(str(tmp_path / "real"))
    monkeypatch.chdir(tmp_path)
    assert files.canonical("link") == files.canonical(str(tmp_path / "real"))
