"""A broker as a child process, with a directory and a port of its own.

    with tailrace.Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

The child is `tailrace serve`. It ends with this process in any case (`env.real.parent` tells how), and a directory
that was made for it is removed with it. `kill` and `start` again, on the same directory and port, is what a crash
looks like.

The port is reserved here, by a socket that is bound and never listens: with SO_REUSEADDR on both sides the child may
bind it too. So it stays the same over restarts, and while the broker is down nobody gets it, not even as the source
port of a client's own attempt to connect, which would then talk to itself.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Final

from tailrace.testing.child_process import BrokerStartError as BrokerStartError
from tailrace.testing.child_process import ChildProcess

HOST: Final = "127.0.0.1"
START_TIMEOUT_SECONDS: Final = 60.0
SHOWN_LOG_BYTES: Final = 8192

# A test does not want to wait for members that never come.
SETTINGS_FOR_TESTS: Final = {"group.initial.rebalance.delay.ms": "0"}


class PortTakenError(BrokerStartError):
    hint = "stop whoever listens there, or let the broker take any port that is free"


class Broker:
    """One broker. Making the object starts nothing: `start` or the `with` block does.

    `settings` are Kafka's (`{"num.partitions": 3}`). With `data_dir` the data is kept there and stays; without, it is
    in a temporary directory that `close` removes. `port` 0 is any that is free. Leaving the `with` block closes. Use it
    from one thread.
    """

    COMMAND: ClassVar[tuple[str, ...]] = (sys.executable, "-P", "-m", "tailrace", "serve")

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        port: int = 0,
        start_timeout_s: float = START_TIMEOUT_SECONDS,
    ) -> None:
        self.settings = {**SETTINGS_FOR_TESTS, **{key: _text(value) for key, value in (settings or {}).items()}}
        self._given_data_dir = None if data_dir is None else Path(data_dir).absolute()
        self._wanted_port = port
        self._start_timeout_s = start_timeout_s
        self._own_data_dir: Path | None = None
        self._log: IO[bytes] | None = None
        self._reservation: socket.socket | None = None
        self._child: ChildProcess | None = None

    def __enter__(self) -> Broker:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # What it is

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, as clients want it. The same over restarts."""
        return f"{HOST}:{self.port}"

    @property
    def port(self) -> int:
        if self._reservation is None:
            raise RuntimeError("the broker has no port before it was started")
        port: int = self._reservation.getsockname()[1]
        return port

    @property
    def data_dir(self) -> Path:
        if self._given_data_dir is not None:
            return self._given_data_dir
        if self._own_data_dir is None:
            self._own_data_dir = Path(tempfile.mkdtemp(prefix="tailrace-"))
        return self._own_data_dir

    @property
    def pid(self) -> int | None:
        """None when it is not running."""
        return self._child.process.pid if self.is_running and self._child is not None else None

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.process.poll() is None

    @property
    def log(self) -> str:
        """What the broker has written to its standard error since the last start."""
        if self._log is None:
            return ""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")

    # What it does

    def start(self) -> None:
        """Returns when the broker takes requests. Raises `BrokerStartError`, with what the broker said."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Only the first half of `start`: returns at once."""
        if self.is_running:
            raise RuntimeError("the broker is running already")
        self.kill()  # closes what is left of one that ended by itself
        if self._reservation is None:
            self._reservation = reserved_port(self._wanted_port)
        if self._log is not None:
            self._log.close()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it has no name, and goes with the last who has it open
        command = [*self.COMMAND, "--listen", self.bootstrap_servers, "--data", str(self.data_dir)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        self._child = ChildProcess(command, self._log, self._own_data_dir)

    def wait_until_ready(self) -> None:
        """The other half of `start`."""
        if self._child is None:
            raise RuntimeError("the broker was not launched")
        try:
            self._child.wait_until_ready(self._start_timeout_s)
        except BrokerStartError as error:
            self.kill()
            raise BrokerStartError(f"{error}\n{self.log[-SHOWN_LOG_BYTES:]}".rstrip()) from None

    def stop(self) -> None:
        """A clean shutdown. The directory stays, for another `start`."""
        if self._child is not None:
            self._child.end(signal.SIGTERM)
            self._child = None

    def kill(self) -> None:
        """With SIGKILL. The directory stays, for another `start`."""
        if self._child is not None:
            self._child.end(signal.SIGKILL)
            self._child = None

    def close(self) -> None:
        """End the broker, give its port back and remove what was made for it."""
        if self._own_data_dir is None:
            self.stop()
        else:
            self.kill()  # what a clean shutdown would write is removed in a moment
            shutil.rmtree(self._own_data_dir, ignore_errors=True)
            self._own_data_dir = None
        for each in (self._reservation, self._log):
            if each is not None:
                each.close()
        self._reservation = self._log = None

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> str:
        """Make a topic and return its name when it can be written. Settings have `_` for `.`: `retention_ms=60_000`.

        The client is loaded here, so that those who bring their own need not wait for it.
        """
        from tailrace.client.admin import Admin
        from tailrace.client.cluster import Cluster

        settings = {key.replace("_", "."): _text(value) for key, value in configs.items()}
        with Cluster(self.bootstrap_servers) as cluster:
            return Admin(cluster).create_topic(name, partitions=partitions, configs=settings).name


def reserved_port(wanted: int) -> socket.socket:
    reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        reservation.bind((HOST, wanted))
    except OSError as error:
        reservation.close()
        raise PortTakenError(f"cannot listen on {HOST}:{wanted}: {error.strerror}") from error
    return reservation


def _text(value: object) -> str:
    """As a properties file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
