"""The same program on a local cluster and on a standalone master with two workers: every executor a process of its own.

The program runs as one of its own too, since a process has one Spark session at most.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import pytest
from spark_topics import Topics

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).parents[1] / "support" / "spark_cluster_program.py"
HOST = "127.0.0.1"
ROWS = 1000
TIMEOUT_S = 240.0
DEPLOY = "org.apache.spark.deploy"


def run_program(master: str, topics: Topics, folder: Path) -> None:
    topic, batch_copy, stream_copy = (
        topics.filled(ROWS, partitions=2),
        topics.make("batch", 3),
        topics.make("stream", 3),
    )
    done = subprocess.run(
        [
            *(sys.executable, str(PROGRAM), master, topics.bootstrap_servers),
            *(topic, batch_copy, stream_copy, str(folder)),
        ],
        env={**environment(folder), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert json.loads(done.stdout) == {"count": ROWS, "sum": sum(range(ROWS)), "batches": 2}
    expected = sorted(b"%d" % number for number in range(ROWS))
    assert topics.values(batch_copy) == expected
    assert topics.values(stream_copy) == expected


def test_on_a_local_cluster(topics: Topics, tmp_path: Path) -> None:
    run_program("local-cluster[2,1,1024]", topics, tmp_path)


def test_on_a_standalone_master_with_two_workers(topics: Topics, tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        run_program(master, topics, tmp_path)


def environment(folder: Path) -> dict[str, str]:
    """With a home of Spark's below the folder, where a cluster may leave its work."""
    from pyspark.find_spark_home import _find_spark_home

    from tailrace.spark.java import find_java

    home = folder / "home"
    if not home.exists():
        home.mkdir()
        for entry in Path(_find_spark_home()).iterdir():
            (home / entry.name).symlink_to(entry)
    return {**os.environ, "JAVA_HOME": str(find_java().home), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST}


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    port = free_port()
    master = f"spark://{HOST}:{port}"
    with ExitStack() as running:
        log = running.enter_context((folder / "cluster.log").open("wb"))
        arguments = ("--host", HOST, "--port", str(port), "--webui-port", "0")
        running.enter_context(daemon(f"{DEPLOY}.master.Master", *arguments, folder=folder, log=log))
        wait_for(port, folder / "cluster.log")
        for number in range(2):
            arguments = ("--host", HOST, "--cores", "1", "--memory", "1g", "--webui-port", "0")
            work = ("--work-dir", str(folder / f"worker-{number}"))
            running.enter_context(daemon(f"{DEPLOY}.worker.Worker", *arguments, *work, master, folder=folder, log=log))
        yield master


@contextmanager
def daemon(name: str, *arguments: str, folder: Path, log: IO[bytes]) -> Iterator[None]:
    """One of Spark's daemons; ended with whatever it started."""
    variables = environment(folder)
    process = subprocess.Popen(
        [f"{variables['SPARK_HOME']}/bin/spark-class", name, *arguments],
        env={**variables, "SPARK_DAEMON_MEMORY": "256m"},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def wait_for(port: int, log: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            socket.create_connection((HOST, port), 1).close()
        except OSError:
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
        else:
            return
