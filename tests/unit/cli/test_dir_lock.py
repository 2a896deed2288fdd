from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tailrace.cli.dir_lock import LockHolder, lock_holder
from tailrace.env.real import RealFiles

AS_JAVA_LOCKS = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_nobody(tmp_path: Path) -> None:
    assert lock_holder(str(tmp_path / ".lock")) is None
    (tmp_path / ".lock").write_bytes(b"")
    assert lock_holder(str(tmp_path / ".lock")) is None


def test_a_tailrace_broker(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = RealFiles().lock(path)
    assert lock_holder(path) == LockHolder(None)
    lock.release()
    assert lock_holder(path) is None


def test_a_process_that_locks_as_java_does(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.write_bytes(b"")
    command = [sys.executable, "-c", AS_JAVA_LOCKS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert lock_holder(str(path)) == LockHolder(process.pid)
        process.communicate()
    assert lock_holder(str(path)) is None


def test_asking_takes_no_lock(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    RealFiles().lock(path).release()
    assert lock_holder(path) is None
    RealFiles().lock(path).release()
    assert [entry.name for entry in tmp_path.iterdir()] == [".lock"]
