"""Programs that listen, connect and write down what happens to their connections."""

from __future__ import annotations

from functools import partial

from tailrace.env.network import CloseReason
from tailrace.sim.machine import Machine
from tailrace.sim.process import Process
from tailrace.sim.stream import SimStream
from tailrace.sim.universe import Universe

PORT = 9092


class End:
    """One end of a connection, and what was notified of it."""

    def __init__(self, machine: Machine, is_echo: bool = False) -> None:
        self.machine = machine
        self.stream: SimStream
        self.events: list[str] = []
        self.data = bytearray()
        self.arrivals: list[tuple[int, int]] = []
        self._is_echo = is_echo

    def connected(self) -> None:
        self.events.append("connected")

    def received(self, data: memoryview) -> None:
        self.data += data
        self.arrivals.append((self.machine.universe.time.now_us, len(data)))
        if self._is_echo:
            self.stream.send([bytes(data)])

    def closed(self, reason: CloseReason, detail: str) -> None:
        self.events.append(reason.name)


class Server:
    """Listens on PORT, and sends back what it gets if it is an echo."""

    def __init__(self, process: Process, is_echo: bool = True) -> None:
        self.process = process
        self.ends: list[End] = []
        self.listener = process.listen(PORT, self._accept)
        self.listener.open()
        self._is_echo = is_echo

    def due_ms(self) -> int | None:
        return None

    def run_due(self, now_ms: int) -> None:
        raise AssertionError("it has no deadlines")

    def ends_with(self, error: Exception) -> bool:
        return False

    def _accept(self, stream: SimStream) -> End:
        end = End(self.process.machine, self._is_echo)
        end.stream = stream
        self.ends.append(end)
        return end


class Idle:
    """Does nothing; the test uses its process."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def due_ms(self) -> int | None:
        return None

    def run_due(self, now_ms: int) -> None:
        raise AssertionError("it has no deadlines")

    def ends_with(self, error: Exception) -> bool:
        return False


class Pair:
    """A machine with a server and one from which the test connects."""

    def __init__(self, seed: int = 0, *, is_echo: bool = True) -> None:
        self.universe = Universe(seed)
        self.server = self.universe.add_machine("server", partial(Server, is_echo=is_echo))
        self.client = self.universe.add_machine("client", Idle)
        self.server.start()
        self.client.start()

    @property
    def program(self) -> Server:
        assert self.server.process is not None
        program = self.server.process.program
        assert isinstance(program, Server)
        return program

    def connect(self, host: str = "server", port: int = PORT, timeout_ms: int = 10_000) -> End:
        process = self.client.process
        assert process is not None
        end = End(self.client)
        end.stream = process.env.network.connect(host, port, end, timeout_ms)  # type: ignore[assignment]
        return end

    def connected(self) -> tuple[End, End]:
        """An open connection: the ends of the client and of the server."""
        end = self.connect()
        self.universe.run_for(50)
        assert end.events == ["connected"]
        return end, self.program.ends[-1]
