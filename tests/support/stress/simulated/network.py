"""A network that loses, doubles and delays requests of simulated clients, to a broker that is killed now and then.

The network sees every request that the broker gets, in order, and every response, also those that it loses. A `Witness`
checks the broker against its own responses.

    post ──▶ lost · delivered now · delivered later · delivered twice
                                  │
    response ◀── received · lost ◀┘ or the broker is killed before: what it did is unknown
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from support.brokers.simulated import SimBroker, SimClient
from tailrace.protocol.message import Request, Response

LONGEST_STEP_MS = 1_000


class Witness(Protocol):
    """Sees every delivery to the broker and every answer of it."""

    def delivered(self, delivery: Delivery) -> None: ...

    def answered(self, delivery: Delivery, response: Any) -> None: ...

    def unanswered(self, delivery: Delivery) -> None:
        """The broker was killed before it answered: it may have done it or not."""


@dataclass(eq=False)
class Delivery:
    """One delivery of a request; a request that is doubled has two."""

    sender: Any
    request: Request
    version: int
    heard: Callable[[Any], None]
    due_ms: int
    connection: SimClient | None = None
    correlation_id: int = 0


@dataclass
class NetworkFaults:
    """Out of a hundred."""

    lost_request: int = 3
    lost_answer: int = 5
    doubled: int = 4
    late: int = 8
    latest_ms: int = 20_000


@dataclass
class FaultyNetwork:
    broker: SimBroker
    random: random.Random
    witness: Witness
    log: list[str]
    faults: NetworkFaults = field(default_factory=NetworkFaults)

    def __post_init__(self) -> None:
        self._waiting: list[Delivery] = []
        self._under_way: list[Delivery] = []
        self.kills = 0
        self.is_reliable = False
        """No more faults."""

    @property
    def now_ms(self) -> int:
        return self.broker.clock.now_ms()

    def note(self, text: str) -> None:
        self.log.append(f"{self.now_ms:>8} {text}")

    def _happens(self, percent: int) -> bool:
        return not self.is_reliable and self.random.randrange(100) < percent

    def post(
        self, sender: Any, request: Request, version: int, heard: Callable[[Any], None], *, is_exact: bool = False
    ) -> None:
        """`heard` gets the answer, if it comes through; never, once or twice.

        An exact one is neither doubled nor late, though it may be lost.
        """
        if self._happens(self.faults.lost_request):
            self.note(f"{sender} sends {_shown(request)}: lost")
            return
        copies = 2 if not is_exact and self._happens(self.faults.doubled) else 1
        for _ in range(copies):
            is_late = not is_exact and self._happens(self.faults.late)
            late_ms = self.random.randrange(self.faults.latest_ms) if is_late else 0
            self._waiting.append(Delivery(sender, request, version, heard, self.now_ms + late_ms))

    def deliver(self) -> None:
        """What is due, in any order; then what has been answered."""
        due = [delivery for delivery in self._waiting if delivery.due_ms <= self.now_ms]
        self._waiting = [delivery for delivery in self._waiting if delivery.due_ms > self.now_ms]
        self.random.shuffle(due)
        for delivery in due:
            self.note(f"{delivery.sender} sends {_shown(delivery.request)}")
            delivery.connection = self.broker.client()
            self.witness.delivered(delivery)
            self._under_way.append(delivery)
            delivery.correlation_id = delivery.connection.post(delivery.request, delivery.version)
            self.broker.run()
            self._collect()
        self._collect()

    def _collect(self) -> None:
        """Answers in the order in which the broker has given them, as far as that can be seen from outside."""
        self.broker.run()
        for delivery in list(self._under_way):
            assert delivery.connection is not None
            answers = delivery.connection.read()
            if delivery.correlation_id not in answers:
                assert not delivery.connection.is_closed, f"the broker hung up on {_shown(delivery.request)}"
                continue
            self._under_way.remove(delivery)
            response: Response = answers.pop(delivery.correlation_id)
            delivery.connection.leave()
            is_lost = self._happens(self.faults.lost_answer)
            self.note(f"{delivery.sender} is answered {_shown(response)}{': lost' if is_lost else ''}")
            self.witness.answered(delivery, response)
            if not is_lost:
                delivery.heard(response)

    # The broker

    def pass_time(self, ms: int) -> None:
        """In steps: the broker has deadlines of its own to keep, towards its controller."""
        while ms > 0:
            step_ms = min(ms, LONGEST_STEP_MS)
            self.broker.pass_time(step_ms)
            ms -= step_ms
        self._collect()

    def kill(self) -> None:
        """The process dies, and another one starts on the same disk."""
        self.note("the broker is killed")
        self.kills += 1
        self.broker.kill()
        self._over()
        self.broker.start()
        self.note("the broker is up again")

    def _over(self) -> None:
        for delivery in self._under_way:
            self.witness.unanswered(delivery)
        self._under_way.clear()

    def ask(self, request: Request, version: int) -> Any:
        """Off the record: a checker's own question."""
        return self.broker.client().ask(request, version)


def _shown(message: Any) -> str:
    text = repr(message)
    return text if len(text) <= 300 else f"{text[:300]}…"
