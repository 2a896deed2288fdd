"""The process around a node: its standard output and its end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.broker.main import resume_full_collections, suspend_full_collections
from tailrace.broker.stop_signals import SAME_REQUEST_S, StopSignals
from tailrace.record.kernels import COMPILED

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

SIGNAL_AT_EXIT = """
import atexit, gc, os, signal

class AtExit:
    def __del__(self, os=os, number=signal.SIGTERM):  # when modules are cleared: Python's handlers are gone by then
        os.write(1, b"exiting\\n")
        os.kill(os.getpid(), number)

at_exit = AtExit()
atexit.register(gc.unfreeze)  # modules that are frozen are not cleared
"""

NEW_MODULES_AT_EXIT = """
import atexit, sys

before = set(sys.modules)
atexit.register(lambda: print(*(set(sys.modules) - before), sep="\\n", flush=True))
"""

COMMAND_MODULES = {"command", "log_lines", "main", "output", "serve", "serve_settings"}
NOT_OF_A_NODE = {"client", "console", "sim", "spark", "testing"}
LOADED_ON_USE = {
    *(
        "asyncio",
        "bz2",
        "concurrent",
        "cramjam",
        "datetime",
        "encodings.idna",
        "gzip",
        "hashlib",
        "http",
        "isal",
        "lz4",
    ),
    *("lzma", "numpy", "platform", "pyarrow", "re2", "rich", "shutil", "ssl", "subprocess", "tempfile", "unittest"),
    *("urllib", "uuid", "xml", "zstandard"),
    *("tailrace.broker.forwarded_request", "tailrace.record.rejected", "tailrace.storage.compaction.log_compaction"),
    *(f"tailrace.record.kernels.{kernel}" for kernel in ("bytewise", "columns", "offset_map", "plain_run", "rows")),
}


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


@pytest.mark.skipif(not COMPILED, reason="interpreted kernels are all loaded, and Cython with them")
def test_an_idle_node_loads_no_module_that_it_does_not_use(tmp_path: Path) -> None:
    with started(tmp_path, subprocess.PIPE, NEW_MODULES_AT_EXIT) as node:
        assert node.stdout is not None
        assert node.stdout.readline().startswith("ready: ")
        node.send_signal(signal.SIGTERM)
        loaded = set(node.stdout.read().split())
        assert node.wait(TIMEOUT_S) == 0
    assert "tailrace.broker.node" in loaded
    packages = {name.split(".")[1] for name in loaded if name.startswith("tailrace.")}
    assert packages & NOT_OF_A_NODE == set()
    assert {name.rpartition(".")[2] for name in loaded if name.startswith("tailrace.cli.")} <= COMMAND_MODULES
    assert loaded & LOADED_ON_USE == set()


def test_a_later_second_signal_ends_it_whatever_the_disk_does(tmp_path: Path) -> None:
    with started(tmp_path, subprocess.PIPE, STUCK_DISK) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith("ready: PLAINTEXT://127.0.0.1:")
        broker.send_signal(signal.SIGTERM)
        assert broker.stdout.readline() == "stuck\n"
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                broker.wait(SAME_REQUEST_S + 0.1)
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(TIMEOUT_S) == 1
        finally:
            broker.kill()


def test_two_signals_together_stop_it_cleanly(tmp_path: Path) -> None:
    with started(tmp_path, subprocess.PIPE) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith("ready: ")
        broker.send_signal(signal.SIGTERM)
        broker.send_signal(signal.SIGINT)  # two of one kind may arrive as one
        assert broker.wait(TIMEOUT_S) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_signal_while_the_stopped_process_exits_does_not_change_its_exit_code(tmp_path: Path) -> None:
    with started(tmp_path, subprocess.PIPE, SIGNAL_AT_EXIT) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith("ready: ")
        broker.send_signal(signal.SIGTERM)
        assert broker.stdout.read() == "exiting\n"
        assert broker.wait(TIMEOUT_S) == 0


def test_signals_within_a_second_are_one_request_to_stop() -> None:
    now_s = [0.0]
    stops: list[float] = []
    signals = StopSignals(lambda: stops.append(now_s[0]), lambda: now_s[0])
    for now_s[0] in (5.0, 5.001, 5.9, 6.0, 6.1):
        signals.received()
    assert stops == [5.0, 6.0, 6.1]


def test_no_full_collection_runs_while_a_snapshot_is_prepared() -> None:
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        suspend_full_collections()
        assert gc.get_threshold()[:2] == thresholds[:2]
        assert gc.get_threshold()[2] > 1 << 20
        resume_full_collections()
        assert gc.get_threshold() == thresholds
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
