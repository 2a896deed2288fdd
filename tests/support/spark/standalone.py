"""Spark's own masters and workers from its wheel, on the loopback interface, for tests of programs on a cluster."""

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
from typing import IO, Any

HOST = "127.0.0.1"
TIMEOUT_S = 240.0
DEPLOY = "org.apache.spark.deploy"


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


def output_of(program: Path, folder: Path, *arguments: str) -> Any:
    """What a program prints, which is JSON. It runs as a process of its own: one has one Spark session at most."""
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        env={**environment(folder), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    # What Java says at its end is long: the reason stands before it.
    assert done.returncode == 0, done.stderr[:4000] + "\n…\n" + done.stderr[-4000:]
    return json.loads(done.stdout)


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
