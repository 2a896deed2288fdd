"""The daemon of Python workers, driven over its socket as Spark drives it. No JVM runs."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tailrace.spark.spark_session import WORKER_DAEMON

pytest.importorskip("pyspark")

SECRET = "secret"
TIMEOUT_S = 30
WORKER_MODULE = "pyspark_for_this_test"
WRITES_ROWS = """
    try:
        infile.read()
    except ConnectionResetError:
        outfile.write(b"more rows than Spark needs")
"""
"""The body of a worker that has rows left when Spark closes the connection."""


class Daemon:
    """A running daemon with one worker, whose connection is authenticated."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process = process
        (port,) = struct.unpack("!i", process.stdout.read(4))
        self.connection = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        (pid,) = struct.unpack("!i", self.connection.recv(4, socket.MSG_WAITALL))
        self._worker = os.pidfd_open(pid)
        self.connection.sendall(struct.pack("!i", len(SECRET)) + SECRET.encode())
        assert self.connection.recv(6, socket.MSG_WAITALL) == b"\0\0\0\2ok"

    def reset_connection(self) -> None:
        """Close it so that the next write of the worker fails, as after Spark dropped unread rows."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def errors(self) -> str:
        """What was printed on standard error, when the worker and then the daemon have ended."""
        assert select.select([self._worker], [], [], TIMEOUT_S)[0], "the worker goes on"
        os.close(self._worker)
        return self._process.communicate(timeout=TIMEOUT_S)[1].decode()


@contextmanager
def daemon(folder: Path, worker_body: str) -> Iterator[Daemon]:
    """A daemon whose workers run `worker_body` with `infile` and `outfile`."""
    (folder / f"{WORKER_MODULE}.py").write_text(f"def main(infile, outfile):\n{worker_body}\n")
    process = subprocess.Popen(
        [sys.executable, "-m", WORKER_DAEMON, WORKER_MODULE],
        cwd=folder,
        env={
            **os.environ,
            "PYTHON_WORKER_FACTORY_SECRET": SECRET,
            "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",  # as Spark sets it by default
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        started = Daemon(process)
        try:
            yield started
        finally:
            started.connection.close()
            if process.poll() is None:
                process.kill()


def test_worker_ends_quietly_when_spark_needs_no_more_rows(tmp_path: Path) -> None:
    with daemon(tmp_path, WRITES_ROWS) as running:
        running.reset_connection()
        assert running.errors() == ""


@pytest.mark.parametrize("error", ["ValueError('not a number')", "BrokenPipeError('another connection')"])
def test_other_errors_of_a_worker_are_printed(tmp_path: Path, error: str) -> None:
    with daemon(tmp_path, f"    raise {error}") as running:
        errors = running.errors()
        assert "Traceback" in errors
        assert error.split("'")[1] in errors


def test_worker_answers_through_an_open_connection(tmp_path: Path) -> None:
    with daemon(tmp_path, "    outfile.write(infile.read(4)[::-1])") as running:
        running.connection.sendall(b"rows")
        assert running.connection.recv(4, socket.MSG_WAITALL) == b"swor"
        running.connection.close()
        assert running.errors() == ""
