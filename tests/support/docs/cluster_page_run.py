"""Runs the code blocks of a page about clusters: each `tailrace serve --config FILE` is a process of its cluster.

What differs from `PageRun`:

- Addresses 127.0.0.1:PORT are mapped to free ports, in files and in commands.
- The comments `# Stop NAME` and `# Kill NAME` end the node with the file `NAME.properties`; a stop must be clean.
- Nodes start side by side. The next command waits until all of them are ready.
- A command of `tailrace cluster` that fails is repeated, as a reader does who waits for a change of the cluster.
"""

from __future__ import annotations

import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final

from support.docs.page_blocks import Command
from support.docs.page_run import PageRun, is_tailrace
from tailrace.testing.child_process import BrokerStartError, ChildProcess

COMMAND: Final = (sys.executable, "-P", "-m", "tailrace", "serve")
BOOTSTRAP: Final = "127.0.0.1:9092"
READY_SECONDS: Final = 60.0
PATIENCE_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 0.5

_ADDRESS = re.compile(r"\b127\.0\.0\.1:(\d+)\b")
_ENDING = re.compile(r"# (?P<how>Stop|Kill) (?P<name>[\w-]+)(?:: .*)?")


class ClusterPageRun(PageRun):
    def __init__(self, page: Path, folder: Path, fixture: Callable[[str], Any]) -> None:
        super().__init__(page, folder, fixture)
        self._ports: dict[str, int] = {}
        self._nodes: dict[str, ChildProcess] = {}
        self._starting: list[str] = []
        self._logs: dict[str, IO[bytes]] = {}

    def __exit__(self, *details: object) -> None:
        with ExitStack() as stack:
            stack.callback(super().__exit__, *details)
            for log in self._logs.values():
                stack.callback(log.close)
            for node in self._nodes.values():
                stack.callback(node.end, signal.SIGKILL)

    # Addresses

    def file_text(self, text: str) -> str:
        return self.with_address(text)

    def with_address(self, text: str) -> str:
        return _ADDRESS.sub(lambda found: f"127.0.0.1:{self._port(found[1])}", text)

    def address(self) -> str:
        return self.with_address(BOOTSTRAP)

    def _port(self, named: str) -> int:
        if named not in self._ports:
            with socket.create_server(("127.0.0.1", 0)) as found:
                self._ports[named] = found.getsockname()[1]
        return self._ports[named]

    # Nodes

    def serve(self, options: Sequence[str]) -> None:
        option, file = options
        assert option == "--config", f"a node of a cluster has a properties file, not {option}"
        name = file.removesuffix(".properties")
        assert name not in self._nodes, f"{name} runs already"
        if name not in self._logs:
            self._logs[name] = (self.folder / f"{name}.log").open("ab")
        self._nodes[name] = ChildProcess([*COMMAND, *options], self._logs[name], None)
        self._starting.append(name)

    def _wait_until_ready(self) -> None:
        while self._starting:
            name = self._starting.pop()
            try:
                self._nodes[name].wait_until_ready(READY_SECONDS)
            except BrokerStartError as error:
                raise AssertionError(f"{name}: {error}\n{self._log(name)}") from None

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def comment(self, command: Command) -> None:
        found = _ENDING.fullmatch(command.text)
        if found is None:
            return
        self._wait_until_ready()
        node = self._nodes.pop(found["name"])
        node.end(signal.SIGTERM if found["how"] == "Stop" else signal.SIGKILL)
        code = node.process.returncode
        assert found["how"] == "Kill" or code == 0, f"{command.where}: exit code {code}\n{self._log(found['name'])}"

    # Commands

    def command(self, command: Command) -> None:
        if command.programs and not (is_tailrace(command.words) and command.words[1] == "serve"):
            self._wait_until_ready()
        super().command(command)

    def program(self, where: str, words: Sequence[str], given: bytes) -> bytes:
        is_repeated = is_tailrace(words) and words[1] == "cluster"
        end_s = time.monotonic() + (PATIENCE_SECONDS if is_repeated else 0)
        while True:
            try:
                return super().program(where, words, given)
            except AssertionError:
                if time.monotonic() >= end_s:
                    raise
            time.sleep(PAUSE_SECONDS)
