"""The loads: `peers/wireload.c` with prepared requests, `peers/rdload.c` with librdkafka; both report in JSON.

Neither is Python while it measures. Groups and transactions are driven by `coordinator_load.py`, in which librdkafka
does the work and Python waits.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import json
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from peer_sides import Side, receive_frame, wait_until
from peers import frames

PEERS = Path(__file__).with_name("peers")
PARTITIONS = 4
CONNECTIONS = 4
IN_FLIGHT = 5
BATCHES = {"1k": (1, 930), "64k": (680, 70)}  # records, and bytes of each value
ROUND_BYTES = 1_500_000_000  # beyond that the disk's bursts are over
LONGEST_RUN_S = 180

API_VERSIONS = struct.pack(">ihhih", 18, 18, 0, 1, 8) + b"wireload"


class Loads:
    """Compiled once into `folder`, where the requests are kept too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._wireload = compiled("wireload", folder)
        self._rdload = compiled("rdload", folder, "-ldl", "-lpthread")
        self.librdkafka = librdkafka_path()

    def produce(
        self, side: Side, topic: str, kind: str, seconds: float, most_bytes: int = ROUND_BYTES
    ) -> dict[str, Any]:
        """`kind` is 1k or 64k."""
        batches = [frames.batch(*BATCHES[kind]) for _ in range(PARTITIONS)]
        requests = [frames.produce(topic.encode(), p, batch) for p, batch in enumerate(batches)]
        limit = f"{seconds:g},{most_bytes}"
        return self._wire(side, requests, CONNECTIONS, IN_FLIGHT, limit, f"{16 + len(topic)}", 0)

    def produce_idempotently(
        self, side: Side, topic: str, kind: str, seconds: float, most_bytes: int = ROUND_BYTES
    ) -> dict[str, Any]:
        """The same with a producer id for each connection, and sequences that go on."""
        requests = []
        for partition in range(CONNECTIONS):
            batch = frames.batch(*BATCHES[kind], (*new_producer(side), 0))
            requests.append(frames.produce(topic.encode(), partition, batch))
        depth = f"{IN_FLIGHT},{requests[0].index(batch[:12])}"
        limit = f"{seconds:g},{most_bytes}"
        return self._wire(side, requests, CONNECTIONS, depth, limit, f"{16 + len(topic)}", 0)

    def fetch(self, side: Side, topic: str, seconds: float) -> dict[str, Any]:
        """The topic has 1 MB or more in each partition."""
        requests = [frames.fetch(topic.encode(), p, 1 << 20) for p in range(PARTITIONS)]
        return self._wire(side, requests, CONNECTIONS, 1, f"{seconds:g}", f"13,{26 + len(topic)}", 900_000)

    def commit(self, side: Side, topic: str, seconds: float) -> dict[str, Any]:
        """Offsets of as many groups as there are connections."""
        requests = [frames.commit(b"group-%d" % p, topic.encode(), p) for p in range(PARTITIONS)]
        return self._wire(side, requests, CONNECTIONS, IN_FLIGHT, f"{seconds:g}", f"{20 + len(topic)}", 0)

    def confluent(self, side: Side, kind: str, *words: str) -> dict[str, Any]:
        """`coordinator_load.py`, as a process of its own."""
        return run([sys.executable, str(PEERS.with_name("coordinator_load.py")), kind, str(side.port), *words], side)

    def _wire(
        self,
        side: Side,
        requests: list[bytes],
        connections: int,
        depth: int | str,
        limit: str,
        error_at: str,
        least: int,
    ) -> dict[str, Any]:
        paths = []
        for place, request in enumerate(requests):
            paths.append(self._folder / f"request.{place}")
            paths[-1].write_bytes(request)
        numbers = [side.port, connections, depth, limit, error_at, least]
        return run([self._wireload, *map(str, numbers), *map(str, paths)], side)

    def rdkafka(self, side: Side, kind: str, topic: str, *numbers: float) -> dict[str, Any]:
        if self.librdkafka is None:
            raise RuntimeError("no librdkafka: pip install confluent-kafka, or install librdkafka1")
        words = [
            self.librdkafka,
            str(side.port),
            kind,
            topic,
            str(PARTITIONS),
            *(f"{number:.12g}" for number in numbers),
        ]
        return run([self._rdload, *words], side)


def new_producer(side: Side) -> tuple[int, int]:
    """Its id and epoch. A broker that has just begun may have no ids to give for a moment."""
    found: list[tuple[int, int]] = []

    def is_given() -> bool:
        with socket.create_connection(("127.0.0.1", side.port), 10) as connection:
            connection.sendall(frames.init_producer_id())
            error, producer_id, epoch = struct.unpack_from(">hqh", receive_frame(connection), 12)
        found.append((producer_id, epoch))
        return not error

    wait_until(is_given, f"a producer id of {side.name}", 30)
    return found[-1]


def compiled(name: str, folder: Path, *libraries: str) -> str:
    target = folder / name
    subprocess.run(["cc", "-O2", "-o", str(target), str(PEERS / f"{name}.c"), *libraries], check=True)
    return str(target)


def run(command: list[str], side: Side) -> dict[str, Any]:
    """The load's JSON, with the broker's CPU seconds over the whole run, warm-up included."""
    cpu = side.cpu_s()
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_RUN_S)
    if done.returncode:
        side.check()
        raise RuntimeError(f"{side.name}: {' '.join(command[:1])} failed: {done.stderr.strip()[-500:]}")
    return {**json.loads(done.stdout), "broker_cpu_s": side.cpu_s() - cpu}


def librdkafka_path() -> str | None:
    """The one inside confluent-kafka, else the system's."""
    found = importlib.util.find_spec("confluent_kafka")
    for place in found.submodule_search_locations or () if found else ():
        for library in sorted(Path(place).with_name("confluent_kafka.libs").glob("librdkafka*.so*")):
            return str(library)
    return ctypes.util.find_library("rdkafka")


def first_acknowledged(side: Side, topic: str) -> float:
    """Launch the broker; seconds until a produce request is acknowledged."""
    request = frames.produce(topic.encode(), 0, frames.batch(1, 930))
    error_at = 16 + len(topic)
    start = time.monotonic()
    side.launch()
    deadline = start + LONGEST_RUN_S
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", side.port), 1) as connection:
            connection.settimeout(30)
            connection.sendall(request)
            answer = receive_frame(connection)
            if answer[error_at : error_at + 2] == b"\0\0":
                return time.monotonic() - start
        side.check()
        time.sleep(0.002)
    raise TimeoutError(f"{side.name} acknowledged nothing within {LONGEST_RUN_S} s")


class IdleClients:
    """So many connections that have asked one thing and are silent since. Leaving the `with` block closes them."""

    def __init__(self, side: Side, count: int) -> None:
        self._side = side
        self._count = count
        self._connections = ExitStack()

    def __enter__(self) -> IdleClients:
        with self._connections:
            for _ in range(self._count):
                connection = socket.create_connection(("127.0.0.1", self._side.port), 10)
                self._connections.enter_context(connection)
                connection.sendall(API_VERSIONS)
                receive_frame(connection)
            self._connections = self._connections.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._connections.close()


def settle(side: Side, idle_s: float = 0.5, longest_s: float = 20.0) -> None:
    """Wait until the broker does nothing: no more than 5 % of a core over `idle_s`."""

    def is_idle() -> bool:
        cpu = side.cpu_s()
        time.sleep(idle_s)
        return side.cpu_s() - cpu <= 0.05 * idle_s

    with suppress(TimeoutError):
        wait_until(is_idle, "", longest_s)
