"""A simulated administrator: topics, configs and features, one operation after the other, through any node.

An operation that is refused or lost is not repeated: another one follows. A client that has waited for its response as
long as its timeout does not know whether the operation was done.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tailrace.sim.admin_operations import Acknowledged, AdminOperation, TopicOwner
from tailrace.sim.committed_log import CommittedLog
from tailrace.sim.kafka_link import KafkaLink
from tailrace.sim.process import Process

REQUEST_TIMEOUT_MS: Final = 5_000

Directory = Callable[[], Sequence[tuple[str, int]]]
"""The present addresses of the nodes that take requests of administrators."""


class AdminLinks:
    """A connection to each address that was used."""

    def __init__(self, process: Process, timeout_ms: int) -> None:
        self._process = process
        self._timeout_ms = timeout_ms
        self._links: dict[tuple[str, int], KafkaLink] = {}

    def to(self, address: tuple[str, int]) -> KafkaLink:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = KafkaLink(self._process, *address, self._timeout_ms)
        return link


class AdminClient:
    def __init__(self, process: Process, nodes: Directory, committed: CommittedLog, mean_pause_ms: int) -> None:
        self.operations = 0
        self.acked = 0
        self.is_working = True
        self._process = process
        self._nodes = nodes
        self._committed = committed
        self._mean_pause_ms = mean_pause_ms
        self._random: random.Random = process.env.random
        self._links = AdminLinks(process, REQUEST_TIMEOUT_MS)
        self._name = process.machine.name
        self._owner = TopicOwner(f"{self._name}-{process.number}", self._random)
        self._later()

    def due_ms(self) -> int | None:
        return None

    def run_due(self, now_ms: int) -> None:
        """It has no deadlines but those of its jobs."""

    def ends_with(self, error: Exception) -> bool:
        return False

    def _later(self) -> None:
        pause_ms = int(self._random.expovariate(1.0) * self._mean_pause_ms)
        self._process.env.jobs.later("client", pause_ms, self._act)

    def _act(self) -> None:
        if not self.is_working:
            return
        self._later()  # whatever comes of the operation: clients do not wait for the cluster
        address = self._random.choice(self._nodes())
        link = self._links.to(address)
        if link.is_busy:
            return
        operation = self._owner.draw()
        self.operations += 1
        self._process.machine.note("operation", f"{operation.name}, through {address[0]}")
        batches = len(self._committed.batches)
        link.ask(operation.request, operation.version, partial(self._done, operation, batches))

    def _done(self, operation: AdminOperation, batches: int, response: Any) -> None:
        promise = operation.done(response) if response is not None else None
        if promise is not None:
            self.acked += 1
            log = self._process.machine.universe.log
            log.add(self._name, "acked", operation.name, data=Acknowledged(promise, batches))
