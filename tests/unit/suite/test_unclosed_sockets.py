"""The warning about an unclosed socket says which test created it, and where."""

from __future__ import annotations

import importlib
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from suite import unclosed_sockets

TESTS = Path(__file__).resolve().parents[2]

FORGETFUL = """
    import gc
    import socket
    from {module} import connect

    def forget(create):
        cycle = [create()]
        cycle.append(cycle)

    def test_that_forgets():
        gc.disable()
        forget(socket.socket)

    def test_that_finds_the_socket():
        gc.collect()

    def test_that_forgets_a_foreign_socket():
        forget(connect)

    def test_that_finds_the_foreign_socket():
        gc.collect()

    def test_that_closes():
        with socket.socket() as sock:
            assert sock.fileno() >= 0
"""
CONNECT = "import socket\n\n\ndef connect():\n    return socket.socket()\n"


@pytest.mark.parametrize("module", unclosed_sockets.FOREIGN)
def test_the_warning_names_the_test_and_the_line_that_created_the_socket(
    module: str, pytester: pytest.Pytester
) -> None:
    file = pytester.makepyfile(test_it=FORGETFUL.format(module=module))
    foreign = pytester.path.joinpath(*module.split(".")).with_suffix(".py")
    foreign.parent.mkdir(parents=True)
    foreign.write_text(CONNECT)
    for folder in foreign.relative_to(pytester.path).parents[:-1]:
        (pytester.path / folder / "__init__.py").touch()
    pytester.makeconftest('pytest_plugins = ["suite.unclosed_sockets"]')
    pytester.makeini(f"[pytest]\npythonpath = {TESTS}\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    output = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, check=False).stdout
    assert "1 failed, 4 passed" in output
    assert "FAILED test_it.py::test_that_finds_the_socket" in output
    assert "a socket that test_it.py::test_that_forgets created was not closed; it was created by" in output
    assert f"{file}:6 in forget" in output
    assert f"{file}:11 in test_that_forgets" in output


def test_foreign_modules_exist_and_create_sockets() -> None:
    """A library that is replaced or rewritten takes its exception along."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in unclosed_sockets.FOREIGN:
            assert importlib.import_module(name).socket is socket


def test_the_whole_suite_records_its_sockets(request: pytest.FixtureRequest) -> None:
    origins = request.config.pluginmanager.get_plugin("socket-origins")
    assert isinstance(origins, unclosed_sockets.SocketOrigins)
    with socket.create_server(("127.0.0.1", 0)) as server:
        origin = origins._origins[id(server)]
    assert origin.test == request.node.nodeid
    assert origin.module == __name__
    assert origin.stack[0][2] == request.node.name
