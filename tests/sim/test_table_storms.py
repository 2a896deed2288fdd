"""Stress tests of tables that follow a topic; `support.stress.simulated.tables` has the faults and invariants.

`TAILRACE_SEEDS=0:1000` runs more seeds, `TAILRACE_SEEDS=17` one alone. A failure shows its log. Faults are
injected into the driver to see that the tests find them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from suite.seeds import seeds
from support.stress.fault_schedule import assert_found
from support.stress.simulated.table_fakes import FakeSnapshot, Record, step
from support.stress.simulated.tables import FaultRates, TableStress
from tailrace.spark.errors import TableError
from tailrace.spark.tables.job import batch, planning
from tailrace.spark.tables.job.batch import Batches, Done
from tailrace.spark.tables.job.planning import Batch
from tailrace.spark.tables.job.tables import Found, Tables, TableSet
from tailrace.spark.tables.store import APPEND, UPSERT, Change
from tailrace.spark.tables.tasks import Reading

STEPS = 500
MANY, MANY_CORE = 60, 20
SEARCHED = 600

MODES = pytest.mark.parametrize("mode", [APPEND, UPSERT])


def run(seed: int, mode: str, rates: FaultRates | None = None, steps: int = STEPS) -> TableStress:
    return TableStress(seed, mode, rates).complete(steps, __file__)


@MODES
def test_each_record_counts_once(mode: str) -> None:
    events: Counter[str] = Counter()
    runs = [run(seed, mode) for seed in seeds(MANY_CORE, MANY - MANY_CORE)]
    for stress in runs:
        events += stress.events
    if len(runs) >= MANY:
        wanted = {"killed", "planned again", f"orders {mode}", "orders schema", "orders_dead_letters append"}
        wanted |= {"orders compact"} if mode == APPEND else {"orders_hidden upsert", "orders_hidden schema"}
        assert wanted <= events.keys()
    print(dict(events))


FEW_KEYS = FaultRates(keys=1, bad=0.0, tombstones=0.2, fields=0, kills=0.01, sleeps=0.15, longest_sleep=120)


def test_late_drivers_beside_few_keys() -> None:
    for seed in seeds(MANY_CORE, MANY - MANY_CORE):
        run(seed, UPSERT, FEW_KEYS)


# Injected faults


def companions_are_loaded_first(patch: pytest.MonkeyPatch) -> None:
    def find(tables: TableSet) -> Found:
        dead = tables.stores.dead.open()
        hidden = tables.stores.hidden.open() if tables.stores.hidden else None
        main = tables.stores.main.open()
        return Found(main, dead, hidden)

    patch.setattr(TableSet, "find", find)


def hidden_rows_are_committed_only_when_they_change(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batch, "_moves", lambda hidden, rows: bool(rows.hidden_adds or rows.hidden_removes))


def dead_letters_are_not_skipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batch, "Reading", lambda **given: Reading(**{**given, "has_letter": {}}))


def a_batch_ends_anywhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planning, "_under_way", lambda at, start, latest, most: None)


def late_commits_are_taken(patch: pytest.MonkeyPatch) -> None:
    real = FakeSnapshot.commit

    def commit(snapshot: FakeSnapshot, change: Change) -> FakeSnapshot:
        step()
        newest = snapshot.world.tables[snapshot.name][-1]
        paths = {each.path for each in newest.files()}
        left = [each for each in change.removes if each.path in paths]
        return real(newest, replace(change, removes=left))

    patch.setattr(FakeSnapshot, "commit", commit)


def the_table_goes_first(patch: pytest.MonkeyPatch) -> None:
    real = Batches._committed

    def committed(batches: Batches, tables: Tables, planned: Batch, done: Done) -> Tables:
        hidden = tables.hidden
        assert hidden is not None
        alone = replace(done.rows, dead_adds=[], hidden_adds=[], hidden_removes=[])
        first = real(batches, replace(tables, hidden=None), planned, replace(done, rows=alone))
        rest = Change(UPSERT, planned.end, done.rows.hidden_adds, done.rows.hidden_removes)
        dead = tables.dead
        if done.rows.dead_adds:
            dead = dead.commit(Change(APPEND, planned.end, done.rows.dead_adds))
        return Tables(first.main, dead, hidden.commit(rest))

    patch.setattr(Batches, "_committed", committed)


FAULTS = [
    (companions_are_loaded_first, UPSERT),
    (dead_letters_are_not_skipped, APPEND),
    (a_batch_ends_anywhere, UPSERT),
    (late_commits_are_taken, APPEND),
    (late_commits_are_taken, UPSERT),
    (the_table_goes_first, UPSERT),
]


@pytest.mark.parametrize(("fault", "mode"), FAULTS)
def test_the_storm_finds(
    fault: Callable[[pytest.MonkeyPatch], None], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    assert_found(
        lambda seed: run(seed, mode, FEW_KEYS if seed % 2 and mode == UPSERT else None),
        SEARCHED,
        (AssertionError, TableError),
    )


# Too rare for random schedules


def late_driver_takes_away_a_row() -> TableStress:
    """Of one key: what a batch leaves among hidden rows, where it was already, a late driver does not find there."""
    stress = TableStress(0, UPSERT)
    log = stress.world.log
    log[2] = []

    def come(partition: int, time: int) -> None:
        log[partition].append(Record(partition, len(log[partition]), "key", time, False, False, "f0"))

    first = stress.driver(10)
    for partition, time in ((0, 10), (1, 20), (1, 5)):
        come(partition, time)
        stress.let_until_at_the_end(first)
    # The row is that of partition 0 now, and among the hidden ones as well: it was there when it became the row.
    come(2, 30)
    come(2, 1)
    late = stress.driver(10)
    stress.let_until_written(late)
    stress.let_until_committed(stress.driver(1), {2: 1})
    stress.let_until_at_the_end(late)
    return stress


def test_a_late_driver_takes_nothing_away() -> None:
    stress = late_driver_takes_away_a_row()
    assert "planned again" in stress.events


def test_a_late_driver_would_take_a_row_away(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden_rows_are_committed_only_when_they_change(monkeypatch)
    with pytest.raises(AssertionError, match="missing"):
        late_driver_takes_away_a_row()
