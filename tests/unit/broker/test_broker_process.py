"""The process around a node: its standard output and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 30
SERVE = "from tailrace.cli.main import main; import sys; sys.exit(main({arguments!r}))"
STUCK_DISK = """
import threading
from tailrace.env.real.files import RealFile
from tailrace.broker.node import Node

shutdown = Node.shutdown

def stuck(*_):
    print("stuck", flush=True)
    threading.Event().wait()

def shutting_down(self, done):
    RealFile.sync = stuck
    shutdown(self, done)

Node.shutdown = shutting_down
"""


def started(folder: Path, stdout: int, before: str = "") -> subprocess.Popen[str]:
    arguments = ["serve", "--data", str(folder / "data"), "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-c", before + SERVE.format(arguments=arguments)]
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True)


def test_a_closed_standard_output_is_no_reason_to_end(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with started(tmp_path, writing) as broker:
        os.close(writing)
        assert broker.stderr is not None
        while "ready line cannot be written" not in (line := broker.stderr.readline()):
            assert line, "it ended"
        broker.terminate()
        assert broker.wait(TIMEOUT_S) == 0


def test_a_second_signal_ends_it_whatever_the_disk_does(tmp_path: Path) -> None:
    with started(tmp_path, subprocess.PIPE, STUCK_DISK) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith("ready: PLAINTEXT://127.0.0.1:")
        broker.send_signal(signal.SIGTERM)
        assert broker.stdout.readline() == "stuck\n"
        broker.send_signal(signal.SIGTERM)
        try:
            assert broker.wait(TIMEOUT_S) == 1
        finally:
            broker.kill()
