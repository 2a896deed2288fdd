"""What `tailrace serve` reports when it cannot listen on an address."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.broker.bind_error import BindError

NOT_LOCAL = "192.0.2.1"  # reserved for documentation: no machine has it


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (errno.EADDRINUSE, "stop the process that uses it, or set another port in here"),
        (errno.EADDRNOTAVAIL, "set an address of this machine in here: none of its network interfaces has this one"),
        (errno.EACCES, "set a port above 1023 in here, or run as a user who may use this one"),
        (errno.EAFNOSUPPORT, "set another address in here"),
    ],
    ids=errno.errorcode.get,
)
def test_the_hint_depends_on_the_reason(code: int, hint: str) -> None:
    detailed = OSError(code, f"{os.strerror(code)} (while attempting to bind on address ('a', 1))")
    error = BindError("here", "a:1", detailed)
    assert (str(error), error.hint) == (f"cannot listen on a:1: {os.strerror(code)}", hint)


def test_a_host_name_that_is_not_resolved_has_its_own_hint() -> None:
    error = BindError("here", "a:1", socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    assert str(error) == "cannot listen on a:1: Name or service not known"
    assert error.hint.startswith("set a host name that can be resolved")


def served(folder: Path, listen: str, metrics: str) -> tuple[int, list[str]]:
    """Exit code, and the last two lines on standard error."""
    command = [sys.executable, "-m", "tailrace", "serve", "--data", str(folder / "data"), "--listen", listen]
    done = subprocess.run(
        [*command, "--set", f"metrics.listener={metrics}"], capture_output=True, text=True, check=False, timeout=30
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.splitlines()[-2:]


def test_a_taken_port_for_metrics_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, lines = served(tmp_path, "127.0.0.1:0", address)
    assert code == 1
    assert lines == [
        f"error: cannot listen on {address}: Address already in use",
        "hint: stop the process that uses it, or set another port in metrics.listener",
    ]


def test_an_address_of_another_machine_is_an_error_with_a_hint(tmp_path: Path) -> None:
    code, lines = served(tmp_path, f"{NOT_LOCAL}:9092", "127.0.0.1:0")
    assert code == 1
    assert lines[0] == f"error: cannot listen on PLAINTEXT://{NOT_LOCAL}:9092: Cannot assign requested address"
    assert lines[1].startswith("hint: set an address of this machine in listeners (--listen)")
    code, lines = served(tmp_path, "127.0.0.1:0", f"{NOT_LOCAL}:9404")
    assert code == 1
    assert lines[0] == f"error: cannot listen on {NOT_LOCAL}:9404: Cannot assign requested address"
