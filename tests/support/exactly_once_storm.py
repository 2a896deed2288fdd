"""Spark drivers and tasks that write through the exactly-once sink, one effect at a time, in a storm.

Any of them may be killed or stopped between any two effects; an effect may be carried out although nobody waits for its
answer any more, late, or twice. Drivers are started while others run; tasks fail, are doubled and outlive their driver.
What is under test are the very generators that Spark's driver and tasks run (`tailrace.spark.sink.exactly_once`).

nothing twice, nothing lost     what is read committed in the end is what was put in, except what a driver that
                                refused to go on has named as lost, which must have timed out
one writer                      no two tasks write under one identity
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Final

from exactly_once_kafka import AgainError, Coordinator, CoordinatorByFacts

from tailrace.model.errors import TailraceError
from tailrace.spark.sink.exactly_once import driver as driver_steps
from tailrace.spark.sink.exactly_once import task as task_steps
from tailrace.spark.sink.exactly_once.decision import Decision, Epoch, Grant
from tailrace.spark.sink.exactly_once.driver import PartialEpochError, Plan
from tailrace.spark.sink.exactly_once.effects import End, ListOpen, Look, ReadLast, Take, Write
from tailrace.spark.sink.exactly_once.names import driver_id

SINK: Final = "sink"
QUERY: Final = "query"
BATCHES: Final = 5
MOST_PARTITIONS: Final = 4
MARGIN: Final = 40
CALM_STEPS: Final = 20_000


@dataclass(frozen=True)
class Send:
    grant: Grant
    number: int
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """Nothing is asked; something else may happen."""


@dataclass
class Protocol:
    """The steps under test; a fault is planted by replacing one."""

    plan: Callable[..., Any] = driver_steps.plan
    commit: Callable[..., Any] = driver_steps.commit
    abort: Callable[..., Any] = driver_steps.abort
    acquire: Callable[..., Any] = task_steps.acquire
    is_done: Callable[[Plan, Epoch], bool] = Plan.is_done


@dataclass
class Weather:
    """How often what happens, of a thousand steps."""

    kills: int = 6
    second_drivers: int = 3
    task_kills: int = 10
    twins: int = 12
    pauses: int = 12
    longest_pause: int = 300
    lost_answers: int = 30
    late_effects: int = 500
    dies_with_its_driver: int = 500
    hasty_aborts: int = 100
    """Of a thousand commits: Spark aborts the batch while it is still being committed."""
    timeout: int = 3000
    returns: int = 100
    """How soon there is a driver when there is none."""

    @classmethod
    def of(cls, dice: random.Random) -> Weather:
        weather = cls()
        weather.kills = dice.choice((2, 6, 15))
        weather.second_drivers = dice.choice((0, 3, 12, 30))
        weather.pauses = dice.choice((12, 50))
        weather.longest_pause = dice.choice((30, 100, 300, 1500))
        weather.timeout = dice.choice((120, 200, 3000, 100_000))
        weather.returns = dice.choice((6, 100, 100))
        return weather


CALM: Final = Weather(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(eq=False)
class Actor:
    name: str
    steps: Generator[Any, Any, Any]
    done: Callable[[Any, Exception | None], None]
    effect: Any = None
    paused_until: int = 0


@dataclass(eq=False)
class Driver:
    number: int
    accepts: int | None
    partitions: int
    messages: dict[int, Grant | None] = field(default_factory=dict)
    tasks: list[Actor] = field(default_factory=list)
    is_alive: bool = True
    launch: Callable[[int], None] = lambda _: None


class ExactlyOnceStorm:
    def __init__(
        self,
        seed: int,
        make: Callable[[int], Coordinator] = CoordinatorByFacts,
        protocol: Protocol | None = None,
        weather: Weather | None = None,
        batches: int = BATCHES,
    ) -> None:
        self.dice = random.Random(seed)
        self.weather = Weather.of(self.dice) if weather is None else weather
        self.kafka = make(self.weather.timeout)
        self.protocol = Protocol() if protocol is None else protocol
        self.rows = {batch: [f"{batch}:{row}" for row in range(self.dice.randint(0, 6))] for batch in range(batches)}
        self.checkpoint: set[int] = set()
        self.story: list[str] = []
        self.refused: set[str] = set()
        self.accepts: int | None = None
        self.events: Counter[str] = Counter()
        self._actors: list[Actor] = []
        self._late: list[Any] = []
        self._drivers: list[Driver] = []
        self._sent: dict[tuple[str, Any], set[str]] = {}
        self._nonces = 0

    # Running

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._weather()
            self.step()

    def settle(self) -> None:
        """The weather is fine, and one driver brings it to an end; what is left of others may go on meanwhile."""
        for driver in [each for each in self._drivers if each.is_alive]:
            self._kill(driver)
        self.weather = CALM
        for actor in self._actors:
            actor.paused_until = 0
        for _ in range(CALM_STEPS):
            if not any(each.is_alive for each in self._drivers):
                if len(self.checkpoint) == len(self.rows):
                    break
                self._start()
            self.step()
        else:
            raise AssertionError("there is no end")
        while self._actors or self._late or self.kafka.prepared_ids():
            self.step()

    def check(self) -> None:
        found = Counter(what for name, what in self.kafka.written if name != driver_id(SINK))
        wanted = Counter(row for rows in self.rows.values() for row in rows)
        lost = {row for (name, _), rows in self._sent.items() if name in self.refused for row in rows}
        twice = found - wanted
        missing = wanted - found
        assert not twice, f"there twice: {sorted(twice)}"
        unexplained = sorted(set(missing) - lost)
        assert not unexplained, f"lost without a word: {unexplained}"
        aborted = sorted(self.refused - self.kafka.expired)
        assert not aborted, f"decided, and aborted before their time: {aborted}"

    def step(self) -> None:
        kafka = self.kafka
        kafka.now += 1
        kafka.expire()
        prepared = kafka.prepared_ids()
        if prepared and self.dice.random() < 0.4:
            kafka.complete(self.dice.choice(prepared))
        if self._late and self.dice.random() < 0.05:
            effect = self._late.pop(self.dice.randrange(len(self._late)))
            self.story.append(f"{kafka.now}: late {effect}")
            self._carry_out_unheard(effect)
        ready = [actor for actor in self._actors if actor.paused_until <= kafka.now]
        if ready:
            self._advance(self.dice.choice(ready))

    def _happens(self, of_a_thousand: int) -> bool:
        return self.dice.random() * 1000 < of_a_thousand

    def _weather(self) -> None:
        weather, dice = self.weather, self.dice
        alive = [each for each in self._drivers if each.is_alive]
        if not alive and (len(self.checkpoint) < len(self.rows)):
            if self._happens(weather.returns):
                self._start()
        elif alive and self._happens(weather.kills):
            self._kill(dice.choice(alive))
        elif alive and len(alive) < 3 and self._happens(weather.second_drivers):
            self.events["second driver"] += 1
            self._start()
        tasks = [(driver, task) for driver in alive for task in driver.tasks if task in self._actors]
        if tasks and self._happens(weather.task_kills):
            driver, task = dice.choice(tasks)
            self._remove(task)
            self.events["task killed"] += 1
            task.done(None, TailraceError("killed"))
        if tasks and self._happens(weather.twins):
            driver, task = dice.choice(tasks)
            self.events["twin"] += 1
            driver.launch(int(task.name.rpartition("/")[2]))
        if self._actors and self._happens(weather.pauses):
            dice.choice(self._actors).paused_until = self.kafka.now + dice.randint(1, weather.longest_pause)

    # Drivers and tasks

    def _start(self) -> None:
        driver = Driver(len(self._drivers), self.accepts, self.dice.randint(1, MOST_PARTITIONS))
        self._drivers.append(driver)
        self.story.append(f"{self.kafka.now}: driver {driver.number} starts, {driver.partitions} partitions")

        def done(_: Any, error: Exception | None) -> None:
            if error is not None:
                self.story.append(f"{self.kafka.now}: driver {driver.number} fails: {error}")
                self.events[type(error).__name__] += 1
            if isinstance(error, PartialEpochError):
                self.refused.update(error.decision.lost)
                self.accepts = error.decision.epoch.batch_id
            driver.is_alive = False

        self._add(Actor(f"driver {driver.number}", self._life(driver), done))

    def _kill(self, driver: Driver) -> None:
        self.story.append(f"{self.kafka.now}: driver {driver.number} is killed")
        self.events["driver killed"] += 1
        driver.is_alive = False
        for actor in [each for each in self._actors if each.name == f"driver {driver.number}"]:
            self._remove(actor)
        for task in driver.tasks:
            if task in self._actors and self._happens(self.weather.dies_with_its_driver):
                self._remove(task)

    def _remove(self, actor: Actor) -> None:
        self._actors.remove(actor)
        if actor.effect is not None and self._happens(self.weather.late_effects):
            self._late.append(actor.effect)

    def _life(self, driver: Driver) -> Generator[Any, Any, None]:
        batch = len(self.checkpoint)
        while batch < len(self.rows):
            planned: Plan = yield from self.protocol.plan(SINK, driver.accepts)
            epoch = Epoch(QUERY, batch)
            self._launch_all(driver, planned, epoch)
            while len(driver.messages) < driver.partitions:
                yield Turn()
            grants = [each for each in driver.messages.values() if each is not None]
            if self._happens(self.weather.hasty_aborts):
                self.events["hasty abort"] += 1
                self._add(Actor("abort", self.protocol.abort(planned, grants), lambda message, error: None))
            try:
                yield from self.protocol.commit(planned, epoch, grants, MARGIN)
            except TailraceError:
                yield from self.protocol.abort(planned, grants)
                raise
            yield Turn()
            if batch in self.checkpoint and self.dice.random() < 0.5:
                raise TailraceError("the checkpoint has this batch already")
            self.checkpoint.add(batch)
            batch += 1

    def _launch_all(self, driver: Driver, planned: Plan, epoch: Epoch) -> None:
        parts: dict[int, list[str]] = {number: [] for number in range(driver.partitions)}
        for row in self.rows[epoch.batch_id]:
            parts[self.dice.randrange(driver.partitions)].append(row)
        driver.messages, driver.tasks = {}, []
        messages = driver.messages

        def launch(number: int) -> None:
            def done(message: Grant | None, error: Exception | None) -> None:
                if not driver.is_alive or driver.messages is not messages or number in messages:
                    return
                if error is not None:
                    launch(number)
                else:
                    messages[number] = message

            steps = self._task(planned, epoch, number, tuple(parts[number]))
            actor = Actor(f"driver {driver.number} batch {epoch.batch_id}/{number}", steps, done)
            driver.tasks.append(actor)
            self._add(actor)

        driver.launch = launch
        for number in range(driver.partitions):
            launch(number)

    def _task(
        self, planned: Plan, epoch: Epoch, partition: int, rows: tuple[str, ...]
    ) -> Generator[Any, Any, Grant | None]:
        yield Turn()
        if not rows or self.protocol.is_done(planned, epoch):
            return None
        self._nonces += 1
        grant: Grant = yield from self.protocol.acquire(planned, partition, self._nonces.to_bytes(8, "big"))
        half = len(rows) // 2
        for number, some in enumerate((rows[:half], rows[half:])):
            if some:
                yield Send(grant, number, some)
        return grant

    # Effects

    def _add(self, actor: Actor) -> None:
        self._actors.append(actor)
        self._resume(actor, lambda: actor.steps.send(None))

    def _advance(self, actor: Actor) -> None:
        try:
            answer = self._carry_out(actor.effect)
        except AgainError:
            return
        except TailraceError as error:
            refused = error
            self.story.append(f"{self.kafka.now}: {actor.name}: {actor.effect} is refused: {error}")
            self._resume(actor, lambda: actor.steps.throw(refused))
            return
        self.story.append(f"{self.kafka.now}: {actor.name}: {actor.effect} gives {answer}")
        if not isinstance(actor.effect, Turn) and self._happens(self.weather.lost_answers):
            self.events["lost answer"] += 1
            return  # it asks again
        self._resume(actor, lambda: actor.steps.send(answer))

    def _resume(self, actor: Actor, resume: Callable[[], Any]) -> None:
        try:
            actor.effect = resume()
        except StopIteration as end:
            self._actors.remove(actor)
            actor.done(end.value, None)
        except TailraceError as error:
            self._actors.remove(actor)
            actor.done(None, error)

    def _carry_out_unheard(self, effect: Any) -> None:
        try:
            self._carry_out(effect)
        except AgainError:
            self._late.append(effect)
        except TailraceError:
            pass

    def _last(self) -> Decision | None:
        return next((what for name, what in reversed(self.kafka.written) if name == driver_id(SINK)), None)

    def _carry_out(self, effect: Any) -> Any:
        kafka = self.kafka
        if isinstance(effect, Turn):
            return None
        if isinstance(effect, Take):
            return kafka.take(effect.id)
        if isinstance(effect, ReadLast):
            return self._last()
        if isinstance(effect, Write):
            return kafka.send(driver_id(SINK), effect.driver, 0, (effect.decision,))
        if isinstance(effect, End):
            return kafka.end(effect.id, effect.identity, effect.is_commit)
        if isinstance(effect, Look):
            seen = {name: kafka.look(name) for name in effect.ids}
            return {name: each for name, each in seen.items() if each is not None}
        if isinstance(effect, ListOpen):
            return tuple(name for name in kafka.open_ids() if name != driver_id(SINK))
        if isinstance(effect, Send):
            self._sent.setdefault((effect.grant.id, effect.grant.identity), set()).update(effect.rows)
            return kafka.send(effect.grant.id, effect.grant.identity, effect.number, effect.rows)
        raise AssertionError(effect)
