"""pytest plugin that adds to the warning about an unclosed socket which test created the socket, and where.

A socket that is freed without `close` is a ResourceWarning, which fails the test that runs at that moment. A socket in
a reference cycle is freed by the garbage collector, maybe several tests later and in unrelated code. So the plugin
records the test and the stack of each socket that is created, and writes them into the warning.

FOREIGN names the modules of libraries that do not close all their sockets. Warnings about their sockets are dropped,
and all others reach pytest.

A record is found by the id of its socket: the garbage collector clears weak references before it frees what they refer
to. The next socket with the same id replaces the record.
"""

from __future__ import annotations

import functools
import socket
import sys
from collections.abc import Callable, Mapping
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    Hook = Callable[[sys.UnraisableHookArgs], object]

FOREIGN: Final[Mapping[str, str]] = {
    "kafka.net.inet": "kafka-python 3.0 stops its event loop before a request is sent that was submitted just before"
    " the client is closed, and closes the connection only after it",
}
"""Modules that create sockets, and why some of these are not closed."""

MAX_FRAMES: Final = 12


class Origin(NamedTuple):
    """The test that created a socket, the module that did it, and the frames of the stack, innermost first."""

    test: str
    module: str
    stack: tuple[tuple[str, int, str], ...]

    @property
    def is_foreign(self) -> bool:
        return self.module in FOREIGN

    def __str__(self) -> str:
        frames = [f"  {file}:{line} in {function}" for file, line, function in self.stack]
        return "\n".join([f"a socket that {self.test} created was not closed; it was created by", *frames])


def origin_at(frame: FrameType | None, test: str) -> Origin:
    """The stack from this frame outwards, without the module `socket` and without pytest."""
    while frame is not None and frame.f_globals.get("__name__") == socket.__name__:
        frame = frame.f_back
    module = "" if frame is None else str(frame.f_globals.get("__name__"))
    stack = []
    while frame is not None and len(stack) < MAX_FRAMES and frame.f_globals.get("__name__") != "_pytest.python":
        stack.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return Origin(test, module, tuple(stack))


class SocketOrigins:
    """Records the origin of each socket of this process while the plugin is installed."""

    def __init__(self) -> None:
        self._test = "the collection"
        self._origins: dict[int, Origin] = {}

    def install(self) -> Callable[[], None]:
        """Returns the function that undoes it."""
        create, report = socket.socket.__init__, sys.unraisablehook

        @functools.wraps(create)
        def recorded(created: socket.socket, *args: object, **options: object) -> None:
            self._origins[id(created)] = origin_at(sys._getframe(1), self._test)
            create(created, *args, **options)  # type: ignore[arg-type]

        hook = functools.partial(self.report, report)
        socket.socket.__init__ = recorded  # type: ignore[method-assign]
        sys.unraisablehook = hook

        def undo() -> None:
            socket.socket.__init__ = create  # type: ignore[method-assign]
            if sys.unraisablehook is hook:
                sys.unraisablehook = report

        return undo

    def report(self, report: Hook, unraisable: sys.UnraisableHookArgs) -> None:
        """Pass an unraisable error on to `report`, the warning about a socket with its origin."""
        origin = None
        if isinstance(unraisable.object, socket.socket) and isinstance(unraisable.exc_value, ResourceWarning):
            origin = self._origins.get(id(unraisable.object))
        if origin is None:
            report(unraisable)
        elif not origin.is_foreign:
            report(
                SimpleNamespace(  # type: ignore[arg-type]  # UnraisableHookArgs cannot be created
                    exc_type=unraisable.exc_type,
                    exc_value=unraisable.exc_value,
                    exc_traceback=unraisable.exc_traceback,
                    err_msg=f"{origin}\nException ignored in",
                    object=unraisable.object,
                )
            )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._test = nodeid


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """After pytest has installed its hook for unraisable errors, which does not call the one before it."""
    origins = SocketOrigins()
    config.pluginmanager.register(origins, "socket-origins")
    # pytest collects garbage a last time in pytest_unconfigure, which precedes this.
    config.add_cleanup(origins.install())
