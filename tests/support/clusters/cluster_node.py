"""A node of a cluster: a `tailrace serve --config` on a host of the cluster's network, and faults of its process.

A paused process cannot notice that its parent is gone. So a guard, a separate process, waits for the end of the pause
or of this process, and then lets the node run again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from support.clusters.cluster_network import ClusterNetwork
from tailrace.testing.child_process import BrokerStartError, ChildProcess

COMMAND: Final = (sys.executable, "-P", "-m", "tailrace", "serve")
START_TIMEOUT_SECONDS: Final = 60.0
SHOWN_LOG_BYTES: Final = 8192


class ClusterNode:
    def __init__(self, network: ClusterNetwork, node_id: int, directory: Path, settings: Mapping[str, str]) -> None:
        """`directory` gets the properties file, the data directory and the log."""
        self.node_id = node_id
        self.settings = dict(settings)
        self.host = host_of(node_id)
        self.data_directory = Path(settings["log.dirs"])
        self.roles = settings["process.roles"].split(",")
        self._is_ready = False
        self._network = network
        self._properties = directory / "server.properties"
        self._log_file = directory / "node.log"
        self._log: IO[bytes] | None = None
        self._child: ChildProcess | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_running(self) -> bool:
        """A paused process counts as running."""
        return self._child is not None and self._child.process.poll() is None

    @property
    def is_paused(self) -> bool:
        return self._guard is not None

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.process.pid

    @property
    def log(self) -> str:
        """Of all starts."""
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    def start(self) -> None:
        """Returns when the node is ready; a broker then serves clients, a controller may have no leader yet."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        assert not self.is_running, f"node {self.node_id} runs already"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        if self._log is None:
            self._log = self._log_file.open("ab")
        command = self._network.command(self.host, [*COMMAND, "--config", str(self._properties)])
        self._child = ChildProcess(command, self._log, None)
        self._network.started(self.host, self._child.process.pid)
        self._is_ready = False

    def wait_until_ready(self, timeout_s: float = START_TIMEOUT_SECONDS) -> None:
        assert self._child is not None
        if self._is_ready:
            return
        try:
            self._child.wait_until_ready(timeout_s)
            self._is_ready = True
        except BrokerStartError as error:
            raise BrokerStartError(f"node {self.node_id}: {error}\n{self.log[-SHOWN_LOG_BYTES:]}") from None

    def kill(self) -> None:
        """With SIGKILL."""
        self._end_guard()
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """With SIGTERM; returns the exit code."""
        self.resume()
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self._child is None:
            return 0
        child, self._child = self._child, None
        child.end(how)
        code: int = child.process.returncode
        return code

    def pause(self) -> None:
        """With SIGSTOP."""
        if self._guard is None:
            self._guard = subprocess.Popen(
                ["sh", "-c", f"read line; kill -CONT {self.pid}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """With SIGCONT, sent by the guard."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.communicate()

    def _end_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.kill()
            guard.communicate()

    def close(self) -> None:
        self.kill()
        if self._log is not None:
            self._log.close()
            self._log = None


def host_of(node_id: int) -> str:
    return f"node-{node_id}"
