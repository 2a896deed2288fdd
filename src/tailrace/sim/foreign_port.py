"""Another program on a machine that has taken a port: it accepts connections that were meant for ours."""

from __future__ import annotations

from enum import Enum

from tailrace.env.network import CloseReason
from tailrace.sim.machine import Machine
from tailrace.sim.process import Process
from tailrace.sim.stream import SimStream

NOT_KAFKA = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"


class Manners(Enum):
    SILENT = "silent"  # a proxy whose backend is gone: accepts, reads nothing, answers nothing
    CLOSING = "closing"  # accepts and closes
    GARBAGE = "garbage"  # answers what is not Kafka's protocol


class ForeignPort:
    """OSError when the port is taken already. It is the program's until `release`, or until power is lost."""

    def __init__(self, machine: Machine, port: int, manners: Manners) -> None:
        self._machine = machine
        self._manners = manners
        self._process = Process(machine, 0)
        self._process.listen(port, self._accept).open()
        machine.others.append(self._process)

    def release(self) -> None:
        if self._process in self._machine.others:
            self._machine.others.remove(self._process)
            self._process.end(is_power_lost=False)

    def _accept(self, stream: SimStream) -> _ForeignEnd:
        if self._manners is Manners.SILENT:
            stream.set_reading(False)
        elif self._manners is Manners.CLOSING:
            self._process.after(0, stream.close)
        return _ForeignEnd(stream)


class _ForeignEnd:
    def __init__(self, stream: SimStream) -> None:
        self._stream = stream

    def connected(self) -> None:
        """Never called on the side that listens."""

    def received(self, data: memoryview) -> None:
        self._stream.send([NOT_KAFKA])

    def closed(self, reason: CloseReason, detail: str) -> None:
        """The other program does not care."""
