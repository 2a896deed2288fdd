"""The harness of stress tests in the simulator: a seed is a schedule of work and faults.

    step     something happens, and what holds at any time is checked
    settle   no more faults: everything that is pending comes to its end
    check    what must hold then

Every random choice comes from the seed, so that the same seed gives the same run. What happens goes into `log`. A
failure shows the end of the log, the step, and the command that repeats the run. To test a stress test, a fault is
injected into the code, and some schedule must find it (`assert_found`).
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

import pytest

from suite.seeds import reproducible
from support.brokers.simulated import SimBroker
from support.stress.simulated.network import FaultyNetwork, Witness


class FaultSchedule(ABC):
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.log: list[str] = []
        self.events: Counter[str] = Counter()
        """How often things happened that a schedule is meant to contain."""

    def complete(self, steps: int, path: str) -> Self:
        """`path` is the file of the test that runs it."""
        with reproducible(self.seed, self.log, path):
            self.run(steps)
            self.settle()
            self.check()
        return self

    def run(self, steps: int) -> None:
        for number in range(steps):
            try:
                self.step()
            except Exception as error:
                error.add_note(f"step {number} of {steps}, seed {self.seed}")
                raise

    @abstractmethod
    def step(self) -> None: ...

    @abstractmethod
    def settle(self) -> None: ...

    @abstractmethod
    def check(self) -> None: ...


class BrokerSchedule(FaultSchedule):
    """Clients of a simulated broker, over a network with faults. The broker is killed, and clients are replaced."""

    clients: list[Any]
    """Each has `act`."""
    pauses_ms: tuple[int, ...]
    max_active: int | None = None
    """Clients that act in a step; None: all of them may."""

    def connect(self, witness: Witness, topic: str, partitions: int, **settings: str) -> None:
        """Start the broker, with a topic."""
        broker = SimBroker(self.seed, **settings).start()
        self.net = FaultyNetwork(broker, self.random, witness, log=self.log)
        broker.client().create_topic(topic, partitions)

    def step(self) -> None:
        net, chance = self.net, self.random
        net.pass_time(chance.choice(self.pauses_ms))
        active = chance.randrange(1, 1 + (self.max_active or len(self.clients)))
        for client in chance.sample(self.clients, min(active, len(self.clients))):
            client.act()
        net.deliver()
        if chance.randrange(100) < 2:
            net.kill()
        if chance.randrange(100) < 4:
            self.replace_client()
        self.check_step()

    @abstractmethod
    def replace_client(self) -> None: ...

    @abstractmethod
    def check_step(self) -> None: ...


def assert_found(
    run: Callable[[int], object],
    schedules: int,
    found: tuple[type[Exception], ...] = (AssertionError,),
    ignored: tuple[type[Exception], ...] = (),
) -> None:
    """Fails unless one of the schedules, by seed, fails with an error of a type in `found`, none in `ignored`."""
    for seed in range(schedules):
        try:
            run(seed)
        except ignored:
            continue
        except found as error:
            print(f"seed {seed}: {str(error)[:200]}")
            return
    pytest.fail(f"{schedules} schedules have not found it")
