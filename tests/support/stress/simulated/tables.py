"""Drivers of one table under faults: killed between any two effects, several at once, some asleep for long.

What must hold at each commit of the table, not only at the end: its rows are those that the records below its offsets
make, each once; the dead letters below these offsets are there, and none is there twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from support.stress.fault_schedule import FaultSchedule
from support.stress.simulated.table_fakes import (
    Actor,
    FakeSnapshot,
    FakeStore,
    FakeTopic,
    FakeValues,
    FakeWork,
    Record,
    World,
    newest,
    step,
)
from tailrace.spark.errors import ChangedMeanwhileError
from tailrace.spark.tables.job.batch import Batches
from tailrace.spark.tables.job.places import Stores
from tailrace.spark.tables.job.planning import Limits
from tailrace.spark.tables.job.settings import table_settings
from tailrace.spark.tables.job.tables import TableSet
from tailrace.spark.tables.job.upkeep import Upkeep
from tailrace.spark.tables.store import UPSERT, Offsets

NAME = "orders"
DEAD = f"{NAME}_dead_letters"
HIDDEN = f"{NAME}_hidden"
SETTLING_STEPS = 20_000


class NoEndError(AssertionError):
    """The last driver, alone, does not get to the end."""


@dataclass(frozen=True)
class FaultRates:
    drivers: int = 3
    kills: float = 0.02
    sleeps: float = 0.05
    """How likely it is that a driver that was let go stays where it is for long."""
    longest_sleep: int = 60
    comes: float = 0.3
    keys: int = 5
    bad: float = 0.1
    tombstones: float = 0.3
    fields: int = 3
    most_records: int = 120


@dataclass
class Driver:
    actor: Actor
    work: FakeWork
    asleep: int = 0


class TableStress(FaultSchedule):
    def __init__(self, seed: int, mode: str, rates: FaultRates | None = None) -> None:
        super().__init__(seed)
        self.mode = mode
        self.rates = rates or FaultRates()
        self.world = World({0: [], 1: []}, committed=self._committed)
        self._drivers: list[Driver] = []
        self._count = 0
        self._now = ""
        self._records = 0

    # Drivers

    def driver(self, most: int | None = None) -> Driver:
        """That takes at most so many records at once. It does not run before it is let."""
        self._count += 1
        work, limit = FakeWork(self.world), most or self.random.choice((1, 3, 7, 20))
        driver = Driver(Actor(f"driver {self._count}", lambda: self._drive(work, limit)), work)
        self._drivers.append(driver)
        return driver

    def _drive(self, work: FakeWork, most: int) -> None:
        made = table_settings(NAME, to=NAME, brokers="broker:9092", mode=self.mode, buckets=None)
        values: Any = FakeValues()
        settings = replace(made, values=values, buckets=2 if self.mode == UPSERT else None)
        topic, main = FakeTopic(self.world), FakeStore(self.world, NAME)
        stores = Stores(main, main.beside("_dead_letters"), main.beside("_hidden") if self.mode == UPSERT else None)
        batches = Batches(settings, TableSet(settings, stores, topic), topic, work)
        upkeep = Upkeep(settings, stores, batches, work)
        while True:
            try:
                batch = batches.next(Limits(most))
            except ChangedMeanwhileError:
                self.events["planned again"] += 1
                batches.forget()
                continue
            if batch is None:
                step()
            upkeep.compact()

    def step(self) -> None:
        rates, chance = self.rates, self.random
        if self._records < rates.most_records and chance.random() < rates.comes:
            self._come()
        if len(self._drivers) < rates.drivers and chance.random() < 0.2:
            self.driver()
        awake = [each for each in self._drivers if each.asleep <= 0]
        for each in self._drivers:
            each.asleep -= 1
        if awake:
            self._let(chance.choice(awake))

    def _let(self, driver: Driver) -> None:
        self._now = driver.actor.name
        if self.random.random() < self.rates.kills:
            self.log.append(f"{self._now} is killed")
            self.events["killed"] += 1
            self._drivers.remove(driver)
            driver.actor.kill()
        else:
            driver.actor.go()
            if self.random.random() < self.rates.sleeps:
                driver.asleep = self.random.randrange(self.rates.longest_sleep)
        self._raise(driver)

    def _raise(self, driver: Driver) -> None:
        if driver.actor.error is not None:
            raise driver.actor.error

    def _come(self) -> None:
        rates, chance = self.rates, self.random
        if len(self.world.log) < 4 and chance.random() < 0.02:
            self.world.log[len(self.world.log)] = []
        log = self.world.log[chance.choice(list(self.world.log))]
        partition = next(each for each, found in self.world.log.items() if found is log)
        for _ in range(chance.randrange(1, 4)):
            is_bad = chance.random() < rates.bad
            record = Record(
                partition,
                len(log),
                str(chance.randrange(rates.keys)),
                chance.randrange(50),
                self.mode == UPSERT and not is_bad and chance.random() < rates.tombstones,
                is_bad,
                f"f{chance.randrange(1 + rates.fields * len(log) // 30)}",
            )
            log.append(record)
            self._records += 1

    def settle(self) -> None:
        """All are killed, and one more has peace."""
        for each in self._drivers:
            each.actor.kill()
            self._raise(each)
        self._drivers.clear()
        last = self.driver()
        self.let_until_at_the_end(last)
        last.actor.kill()

    def let_until_at_the_end(self, driver: Driver) -> None:
        self.let_until_committed(driver, {each: len(log) for each, log in self.world.log.items()})

    def let_until_committed(self, driver: Driver, offsets: Offsets) -> None:
        def is_there() -> bool:
            main = self.world.tables.get(NAME)
            return bool(main) and all(main[-1].offsets.get(each, 0) >= at for each, at in offsets.items())

        self._let_until(driver, is_there)

    def let_until_written(self, driver: Driver) -> None:
        """To before the first commit of its next batch."""
        written = driver.work.batches_written
        self._let_until(driver, lambda: driver.work.batches_written > written)

    def _let_until(self, driver: Driver, is_so: Callable[[], bool]) -> None:
        for _ in range(SETTLING_STEPS):
            if is_so():
                return
            self._now = driver.actor.name
            driver.actor.go()
            self._raise(driver)
        raise NoEndError(f"the tables are at {[(name, of[-1].offsets) for name, of in self.world.tables.items()]}")

    # What must hold

    def check(self) -> None:
        """That of the last commit, too."""
        self._check_rows(self.world.tables[NAME][-1])

    def _committed(self, name: str, made: FakeSnapshot) -> None:
        self.log.append(f"{self._now}: {name} {made.operation} {made.version} at {dict(made.offsets)}")
        self.events[f"{name} {made.operation}"] += 1
        if name == DEAD:
            rows = self.world.rows(made.files())
            assert len(rows) == len(set(rows)), f"dead letters twice: {rows}"
        if name == NAME:
            self._check_schema(made)
            self._check_rows(made)
            self._check_dead(made.offsets)

    def _check_rows(self, made: FakeSnapshot) -> None:
        found = Counter(self.world.rows(made.files()))
        wanted = Counter(self._model(made.offsets))
        assert found == wanted, f"too many: {found - wanted}, missing: {wanted - found}"

    def _check_schema(self, made: FakeSnapshot) -> None:
        used = {row.field for row in self.world.rows(made.files())}
        assert used <= set(made.schema.names), "a row has a field that the table does not have"
        before = self.world.tables[NAME][-2:-1]
        for last in before:
            assert all(made.offsets.get(each, -1) >= at for each, at in last.offsets.items()), "offsets go back"

    def _check_dead(self, offsets: Offsets) -> None:
        dead = self.world.tables.get(DEAD)
        found = set() if dead is None else set(self.world.rows(dead[-1].files()))
        wanted = {row for row in self._below(offsets) if row.is_bad}
        assert wanted <= found, f"dead letters are missing: {wanted - found}"
        below = {row for row in found if row.offset < offsets.get(row.partition, 0)}
        assert below == wanted

    def _below(self, offsets: Offsets) -> list[Record]:
        return [row for each, at in offsets.items() for row in self.world.log.get(each, [])[:at]]

    def _model(self, offsets: Offsets) -> list[Record]:
        good = [row for row in self._below(offsets) if not row.is_bad]
        if self.mode != UPSERT:
            return good
        first: dict[str | None, Record] = {}
        for row in newest(good):
            if row.key not in first or row.order > first[row.key].order:
                first[row.key] = row
        return [row for row in first.values() if not row.is_tombstone]
