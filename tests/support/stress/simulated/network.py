"""A network that loses, doubles and delays, between simulated clients and a broker that is killed now and then.

What happens is drawn from one seed. The network sees everything: what the broker was given, in which order, and what it
answered, whether or not the client ever hears of it. A checker (`Witness`) sits there and holds the broker to what it
has said itself.

    post ──▶ lost on the way · delivered now · delivered later · delivered twice
                                  │
    answer ◀── heard · lost ◀─────┘ or the broker is killed before: what it did is unknown
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

    def delivered(self, letter: Letter) -> None: ...

    def answered(self, letter: Letter, response: Any) -> None: ...

    def unanswered(self, letter: Letter) -> None:
        """The broker was killed before it answered: it may have done it or not."""


@dataclass(eq=False)
class Letter:
    """One delivery of a request; a request that is doubled has two."""

    sender: Any
    request: Request
    version: int
    heard: Callable[[Any], None]
    due_ms: int
    connection: SimClient | None = None
    correlation_id: int = 0


@dataclass
class Odds:
    """Out of a hundred."""

    lost_request: int = 3
    lost_answer: int = 5
    doubled: int = 4
    late: int = 8
    latest_ms: int = 20_000


@dataclass
class StormNetwork:
    broker: SimBroker
    random: random.Random
    witness: Witness
    odds: Odds = field(default_factory=Odds)
    story: list[str] = field(default_factory=list)
    """What has happened, for whoever has to find out why a check failed."""

    def __post_init__(self) -> None:
        self._waiting: list[Letter] = []
        self._under_way: list[Letter] = []
        self.kills = 0
        self.is_kind = False
        """Nothing goes wrong any more."""

    @property
    def now_ms(self) -> int:
        return self.broker.world.clock.now_ms()

    def tell(self, text: str) -> None:
        self.story.append(f"{self.now_ms:>8} {text}")

    def _happens(self, percent: int) -> bool:
        return not self.is_kind and self.random.randrange(100) < percent

    # Letters

    def post(
        self, sender: Any, request: Request, version: int, heard: Callable[[Any], None], *, is_exact: bool = False
    ) -> None:
        """`heard` gets the answer, if it comes through; never, once or twice.

        An exact one is neither doubled nor late, though it may be lost.
        """
        if self._happens(self.odds.lost_request):
            self.tell(f"{sender} sends {_shown(request)}: lost")
            return
        copies = 2 if not is_exact and self._happens(self.odds.doubled) else 1
        for _ in range(copies):
            is_late = not is_exact and self._happens(self.odds.late)
            late_ms = self.random.randrange(self.odds.latest_ms) if is_late else 0
            self._waiting.append(Letter(sender, request, version, heard, self.now_ms + late_ms))

    def deliver(self) -> None:
        """What is due, in any order; then what has been answered."""
        due = [letter for letter in self._waiting if letter.due_ms <= self.now_ms]
        self._waiting = [letter for letter in self._waiting if letter.due_ms > self.now_ms]
        self.random.shuffle(due)
        for letter in due:
            self.tell(f"{letter.sender} sends {_shown(letter.request)}")
            letter.connection = self.broker.client()
            self.witness.delivered(letter)
            self._under_way.append(letter)
            letter.correlation_id = letter.connection.post(letter.request, letter.version)
            self.broker.run()
            self._collect()
        self._collect()

    def _collect(self) -> None:
        """Answers in the order in which the broker has given them, as far as that can be seen from outside."""
        self.broker.run()
        for letter in list(self._under_way):
            assert letter.connection is not None
            answers = letter.connection.read()
            if letter.correlation_id not in answers:
                assert not letter.connection.is_closed, f"the broker hung up on {_shown(letter.request)}"
                continue
            self._under_way.remove(letter)
            response: Response = answers.pop(letter.correlation_id)
            letter.connection.leave()
            is_lost = self._happens(self.odds.lost_answer)
            self.tell(f"{letter.sender} is answered {_shown(response)}{': lost' if is_lost else ''}")
            self.witness.answered(letter, response)
            if not is_lost:
                letter.heard(response)

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
        self.tell("the broker is killed")
        self.kills += 1
        self.broker.kill()
        self._over()
        self.broker.start()
        self.tell("the broker is up again")

    def _over(self) -> None:
        for letter in self._under_way:
            self.witness.unanswered(letter)
        self._under_way.clear()

    def ask(self, request: Request, version: int) -> Any:
        """Off the record: a checker's own question."""
        return self.broker.client().ask(request, version)


def _shown(message: Any) -> str:
    text = repr(message)
    return text if len(text) <= 300 else f"{text[:300]}…"
