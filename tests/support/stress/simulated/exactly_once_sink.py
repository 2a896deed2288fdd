"""Spark drivers and tasks that write through the exactly-once sink, one effect at a time, under faults.

Any of them may be killed or stopped between any two effects; an effect may be carried out although nobody waits for its
answer any more, late, or twice, also while who asked for it lives and has asked again, or given up. Drivers are started
while others run, of several queries in turn; tasks fail, are doubled and outlive their driver; ids are forgotten.
What is under test are the very generators that Spark's driver and tasks run (`tailrace.spark.sink.exactly_once`).

nothing twice, nothing lost     what is read committed in the end is what was put in, except what a driver that
                                refused to go on has named as lost, which must have timed out and is not there, or
                                as not known any more, which the cluster must have forgotten
nothing late                    what is decided is open at that moment
one writer                      no two tasks write under one identity
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from support.stress.fault_schedule import FaultSchedule
from support.stress.simulated.fault_rates import NO_FAULTS, FaultRates
from support.stress.simulated.sink_coordinators import AgainError, Coordinator, CoordinatorByFacts
from tailrace.client.errors import NoAnswerError
from tailrace.client.outgoing import Identity
from tailrace.client.transaction_end import AnswerLostError
from tailrace.model.errors import TailraceError
from tailrace.spark.sink.exactly_once import driver as driver_steps
from tailrace.spark.sink.exactly_once import task as task_steps
from tailrace.spark.sink.exactly_once.decision import DECIDED, PARTIAL, Decision, Epoch, Grant
from tailrace.spark.sink.exactly_once.driver import PartialEpochError, Plan
from tailrace.spark.sink.exactly_once.effects import End, ListOpen, Look, ReadLast, Take, Write
from tailrace.spark.sink.exactly_once.names import driver_id

SINK: Final = "sink"
BATCHES: Final = 6
MOST_PARTITIONS: Final = 4
MARGIN: Final = 20
DECISION_PART: Final = 4
LATEST_OUTAGE: Final = 10
LONGEST_OUTAGE: Final = 300
SETTLING_STEPS: Final = 10_000


class NoEndError(AssertionError):
    """No driver brings it to an end, although there are no faults."""


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
    """The steps under test; a test injects a fault by replacing one."""

    plan: Callable[..., Any] = driver_steps.plan
    commit: Callable[..., Any] = driver_steps.commit
    abort: Callable[..., Any] = driver_steps.abort
    acquire: Callable[..., Any] = task_steps.acquire
    is_done: Callable[[Plan, Epoch], bool] = Plan.is_done
    rates: dict[str, int] = field(default_factory=dict)
    """With which an injected fault shows."""


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
    query: str
    accepts: int | None
    partitions: int
    messages: dict[int, Grant | None] = field(default_factory=dict)
    tasks: list[Actor] = field(default_factory=list)
    is_alive: bool = True
    launch: Callable[[int], None] = lambda _: None


class SinkStress(FaultSchedule):
    def __init__(
        self,
        seed: int,
        make: Callable[[], Coordinator] = CoordinatorByFacts,
        protocol: Protocol | None = None,
        rates: FaultRates | None = None,
        batches: int = BATCHES,
    ) -> None:
        super().__init__(seed)
        self.protocol = Protocol() if protocol is None else protocol
        self.rates = replace(FaultRates.of(self.random), **self.protocol.rates) if rates is None else rates
        self.kafka = make()
        self.timeout = self.rates.timeout
        self.rows = {
            Epoch(query, batch): [f"{query}:{batch}:{row}" for row in range(self.random.randint(0, 6))]
            for query in "abc"[: self.rates.queries]
            for batch in range(batches // self.rates.queries)
        }
        self.checkpoint: set[Epoch] = set()
        self.accepts: int | None = None
        self._actors: list[Actor] = []
        self._late: list[Any] = []
        self._drivers: list[Driver] = []
        self._sent: dict[tuple[str, Any], set[str]] = {}
        self._undecided: dict[Identity, Decision] = {}
        self._outage = (0, 0)
        self._nonces = 0

    # Running

    def step(self) -> None:
        self._inject_faults()
        self._advance()

    def settle(self) -> None:
        """One driver brings it to an end, while what is left of others may continue."""
        for driver in [each for each in self._drivers if each.is_alive]:
            self._kill(driver)
        self.rates = NO_FAULTS
        for actor in self._actors:
            actor.paused_until = 0
        for _ in range(SETTLING_STEPS):
            if not any(each.is_alive for each in self._drivers):
                if not self._unfinished():
                    break
                self._start()
            self._advance()
        else:
            raise NoEndError("there is no end")
        while self._actors or self._late or self.kafka.prepared_ids():
            self._advance()

    def check(self) -> None:
        found = Counter(what for name, what in self.kafka.written if name != driver_id(SINK))
        wanted = Counter(row for rows in self.rows.values() for row in rows)
        partial = [what for name, what in self.kafka.written if name == driver_id(SINK) and what.state == PARTIAL]
        lost = {(each.id, each.identity) for what in partial for each in what.transactions if each.id in what.lost}
        unknown = {
            (each.id, each.identity) for what in partial for each in what.transactions if each.id in what.unknown
        }
        twice = found - wanted
        missing = wanted - found
        assert not twice, f"there twice: {sorted(twice)}"
        unexplained = sorted(set(missing) - self._rows_of(lost | unknown))
        assert not unexplained, f"lost without a word: {unexplained}"
        aborted = sorted(lost - self.kafka.expired)
        assert not aborted, f"decided, and aborted before their time: {aborted}"
        there = sorted(self._rows_of(lost) & found.keys())
        assert not there, f"told as lost, and there: {there}"
        remembered = sorted(name for name, _ in unknown if name not in self.kafka.forgotten)
        assert not remembered, f"told as not known: {remembered}"

    def _rows_of(self, transactions: set[tuple[str, Identity]]) -> set[str]:
        return {row for each in transactions for row in self._sent.get(each, ())}

    def _unfinished(self) -> list[str]:
        return sorted({epoch.query_id for epoch in self.rows.keys() - self.checkpoint})

    def _advance(self) -> None:
        kafka = self.kafka
        kafka.now += 1
        kafka.expire()
        prepared = kafka.prepared_ids()
        if prepared and self.random.random() < 0.4:
            kafka.complete(self.random.choice(prepared))
        if self._late and self.random.random() < 0.05:
            effect = self._late.pop(self.random.randrange(len(self._late)))
            self.log.append(f"{kafka.now}: late {effect}")
            self._carry_out_unheard(effect)
        ready = [actor for actor in self._actors if actor.paused_until <= kafka.now]
        if ready:
            self._advance_actor(self.random.choice(ready))

    def _happens(self, of_a_thousand: int) -> bool:
        return self.random.random() * 1000 < of_a_thousand

    def _inject_faults(self) -> None:
        rates, chance = self.rates, self.random
        alive = [each for each in self._drivers if each.is_alive]
        idle = self.kafka.idle_ids()
        if idle and self._happens(rates.forgets):
            name = chance.choice(idle)
            self.log.append(f"{self.kafka.now}: {name} is forgotten")
            self.events["id forgotten"] += 1
            self.kafka.forget(name)
        begins, ends = self._outage
        if begins <= self.kafka.now < ends:
            for driver in alive:
                self._kill(driver)
            alive = []
        elif not alive and self._unfinished():
            if self._happens(rates.returns):
                self._start()
        elif alive and self._happens(rates.kills):
            self._kill(chance.choice(alive))
        elif alive and len(alive) < 3 and self._happens(rates.second_drivers):
            self.events["second driver"] += 1
            self._start()
        tasks = [(driver, task) for driver in alive for task in driver.tasks if task in self._actors]
        if tasks and self._happens(rates.task_kills):
            driver, task = chance.choice(tasks)
            self._remove(task)
            self.events["task killed"] += 1
            task.done(None, TailraceError("killed"))
        if tasks and self._happens(rates.twins):
            driver, task = chance.choice(tasks)
            self.events["twin"] += 1
            driver.launch(int(task.name.rpartition("/")[2]))
        if self._actors and self._happens(rates.pauses):
            chance.choice(self._actors).paused_until = self.kafka.now + chance.randint(1, rates.longest_pause)

    # Drivers and tasks

    def _start(self) -> None:
        query = self.random.choice(self._unfinished() or ["a"])
        driver = Driver(len(self._drivers), query, self.accepts, self.random.randint(1, MOST_PARTITIONS))
        self._drivers.append(driver)
        self.log.append(f"{self.kafka.now}: driver {driver.number} of {query}: {driver.partitions} partitions")

        def done(_: Any, error: Exception | None) -> None:
            if error is not None:
                self.log.append(f"{self.kafka.now}: driver {driver.number} fails: {error}")
                self.events[type(error).__name__] += 1
            if isinstance(error, PartialEpochError):
                self.accepts = error.decision.epoch.batch_id
            driver.is_alive = False

        self._add(Actor(f"driver {driver.number}", self._life(driver), done))

    def _kill(self, driver: Driver) -> None:
        self.log.append(f"{self.kafka.now}: driver {driver.number} is killed")
        self.events["driver killed"] += 1
        driver.is_alive = False
        for actor in [each for each in self._actors if each.name == f"driver {driver.number}"]:
            self._remove(actor)
        for task in driver.tasks:
            if task in self._actors and self._happens(self.rates.dies_with_its_driver):
                self._remove(task)

    def _remove(self, actor: Actor) -> None:
        self._actors.remove(actor)
        if actor.effect is not None and self._happens(self.rates.late_effects):
            self._late.append(actor.effect)

    def _life(self, driver: Driver) -> Generator[Any, Any, None]:
        batch = sum(each.query_id == driver.query for each in self.checkpoint)
        while (epoch := Epoch(driver.query, batch)) in self.rows:
            planned: Plan = yield from self.protocol.plan(SINK, driver.accepts)
            self._launch_all(driver, planned, epoch)
            while len(driver.messages) < driver.partitions:
                yield Turn()
            grants = [each for each in driver.messages.values() if each is not None]
            if self._happens(self.rates.hasty_aborts):
                self.events["hasty abort"] += 1
                self._add(Actor("abort", self.protocol.abort(planned, grants), lambda message, error: None))
            try:
                yield from self.protocol.commit(planned, epoch, grants, MARGIN)
            except TailraceError:
                yield from self.protocol.abort(planned, grants)
                raise
            yield Turn()
            if epoch in self.checkpoint and self.random.random() < 0.5:
                raise TailraceError("the checkpoint has this batch already")
            self.checkpoint.add(epoch)
            batch += 1

    def _launch_all(self, driver: Driver, planned: Plan, epoch: Epoch) -> None:
        parts: dict[int, list[str]] = {number: [] for number in range(driver.partitions)}
        for row in self.rows[epoch]:
            parts[self.random.randrange(driver.partitions)].append(row)
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
        grant: Grant = yield from self.protocol.acquire(planned, partition, self._nonce)
        half = len(rows) // 2
        for number, some in enumerate((rows[:half], rows[half:])):
            if some:
                yield Send(grant, number, some)
        return grant

    def _nonce(self) -> bytes:
        self._nonces += 1
        return self._nonces.to_bytes(8, "big")

    # Effects

    def _add(self, actor: Actor) -> None:
        self._actors.append(actor)
        self._resume(actor, lambda: actor.steps.send(None))

    def _advance_actor(self, actor: Actor) -> None:
        if not isinstance(actor.effect, Turn) and self._goes_astray(actor):
            return
        try:
            answer = self._carry_out(actor.effect)
        except AgainError:
            return
        except TailraceError as error:
            refused = error
            self.log.append(f"{self.kafka.now}: {actor.name}: {actor.effect} is refused: {error}")
            self._resume(actor, lambda: actor.steps.throw(refused))
            return
        self.log.append(f"{self.kafka.now}: {actor.name}: {actor.effect} gives {answer}")
        if not isinstance(actor.effect, Turn) and self._happens(self.rates.lost_answers):
            self.events["lost answer"] += 1
            self._ask_again(actor)
            return
        self._resume(actor, lambda: actor.steps.send(answer))

    def _goes_astray(self, actor: Actor) -> bool:
        if self._happens(self.rates.late_requests):
            self.log.append(f"{self.kafka.now}: {actor.name}: {actor.effect} is on its way, and asked again")
            self.events["late request"] += 1
            self._late.append(actor.effect)
            self._ask_again(actor)
            return True
        if self._happens(self.rates.unanswered):
            how = self.random.choice(("done", "late", "never"))
            self.log.append(f"{self.kafka.now}: {actor.name}: {actor.effect} is not answered ({how})")
            self.events[f"unanswered, {how}"] += 1
            if how == "done":
                self._carry_out_unheard(actor.effect)
            elif how == "late":
                self._late.append(actor.effect)
            is_once = isinstance(actor.effect, Take) and actor.effect.is_once
            error = AnswerLostError("lost") if is_once else NoAnswerError("not answered")
            self._resume(actor, lambda: actor.steps.throw(error))
            return True
        return False

    def _ask_again(self, actor: Actor) -> None:
        """The same, unless it must not."""
        if isinstance(actor.effect, Take) and actor.effect.is_once:
            self._resume(actor, lambda: actor.steps.throw(AnswerLostError("lost")))

    def _resume(self, actor: Actor, resume: Callable[[], Any]) -> None:
        try:
            actor.effect = resume()
            match actor.effect:
                case End(name, _, True) if name == driver_id(SINK) and self._happens(self.rates.hesitations):
                    actor.paused_until = self.kafka.now + self.random.randint(1, self.timeout // DECISION_PART)
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
            return kafka.take(effect.id, self.timeout // (DECISION_PART if effect.id == driver_id(SINK) else 1))
        if isinstance(effect, ReadLast):
            return self._last()
        if isinstance(effect, Write):
            kafka.send(driver_id(SINK), effect.driver, 0, (effect.decision,))
            self._undecided[effect.driver] = effect.decision
            return None
        if isinstance(effect, End):
            return self._end(effect)
        if isinstance(effect, Look):
            seen = {name: kafka.look(name) for name in effect.ids}
            return {name: each for name, each in seen.items() if each is not None}
        if isinstance(effect, ListOpen):
            return tuple(name for name in kafka.open_ids() if name != driver_id(SINK))
        if isinstance(effect, Send):
            self._sent.setdefault((effect.grant.id, effect.grant.identity), set()).update(effect.rows)
            return kafka.send(effect.grant.id, effect.grant.identity, effect.number, effect.rows)
        raise AssertionError(effect)

    def _end(self, end: End) -> Identity:
        before = self.kafka.look(end.id)
        answer = self.kafka.end(end.id, end.identity, end.is_commit)
        is_new = before is not None and before.is_open and before.identity == end.identity
        if end.id == driver_id(SINK) and end.is_commit and is_new:
            decision = self._undecided[end.identity]
            if decision.state == DECIDED:
                for each in decision.transactions:
                    seen = self.kafka.look(each.id)
                    is_open = seen is not None and seen.is_open and seen.identity == each.identity
                    assert is_open, f"decided when it was over: {each}, which is {seen}"
                if self.timeout <= LONGEST_OUTAGE and self._happens(self.rates.outages):
                    begins = self.kafka.now + self.random.randint(1, LATEST_OUTAGE)
                    self._outage = (begins, begins + self.timeout)
        return answer
