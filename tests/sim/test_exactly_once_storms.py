"""Stress tests of the exactly-once sink; `support.stress.simulated.exactly_once_sink` has the faults and invariants.

`TAILRACE_SEEDS=0:1000` runs more seeds, `TAILRACE_SEEDS=17` one alone. A failure shows its log. Faults are
injected into the protocol to see that the tests find them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from suite.seeds import seeds
from support.stress.fault_schedule import assert_found
from support.stress.simulated.delays import shorten_epochs
from support.stress.simulated.exactly_once_sink import SINK, NoEndError, Protocol, SinkStress
from support.stress.simulated.fault_rates import NO_FAULTS
from support.stress.simulated.sink_coordinators import CoordinatorByFacts, CoordinatorOfBroker
from tailrace.model.errors import TailraceError
from tailrace.spark.sink.exactly_once import driver as driver_steps
from tailrace.spark.sink.exactly_once import task as task_steps
from tailrace.spark.sink.exactly_once.decision import Decision
from tailrace.spark.sink.exactly_once.driver import Plan
from tailrace.spark.sink.exactly_once.effects import ListOpen, Look, ReadLast, Take
from tailrace.spark.sink.exactly_once.names import claim_id, driver_id
from tailrace.spark.sink.exactly_once.task import acquire

STEPS = 400
MANY, MANY_CORE = 600, 200
FEW, FEW_CORE = 150, 50
SEARCHED = 600
LAST_EPOCH = 4
PARTIAL_EPOCHS = 20

COORDINATORS = pytest.mark.parametrize("make", [CoordinatorByFacts, CoordinatorOfBroker])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Sweeping fails often here."""
    log = logging.getLogger("tailrace.spark")
    log.disabled = True
    yield
    log.disabled = False


def run(seed: int, make: Any = CoordinatorByFacts, protocol: Protocol | None = None) -> SinkStress:
    return SinkStress(seed, make, protocol).complete(STEPS, __file__)


@COORDINATORS
def test_each_row_comes_once(make: Any) -> None:
    events: Counter[str] = Counter()
    runs = [run(seed, make) for seed in seeds(MANY_CORE, MANY - MANY_CORE)]
    for stress in runs:
        events += stress.events
    if len(runs) >= MANY:
        wanted = {"driver killed", "second driver", "task killed", "twin", "lost answer", "hasty abort"}
        wanted |= {"late request", "unanswered, late", "id forgotten", "TakenOverError", "LateEpochError"}
        assert wanted | {"PartialEpochError"} <= events.keys()
    print(dict(events))


@COORDINATORS
def test_what_is_lost_is_told(make: Any) -> None:
    """Drivers stay away behind decisions until transactions have timed out."""
    rates = {"timeout": 200, "outages": 900, "kills": 2, "second_drivers": 0, "returns": 100, "longest_pause": 30}
    events: Counter[str] = Counter()
    runs = [run(seed, make, Protocol(rates=rates)) for seed in seeds(FEW_CORE, FEW - FEW_CORE)]
    for stress in runs:
        events += stress.events
    if len(runs) >= FEW:
        assert events["PartialEpochError"] >= PARTIAL_EPOCHS


def test_epochs_that_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_epochs(monkeypatch, LAST_EPOCH)
    for seed in seeds(FEW_CORE, FEW - FEW_CORE):
        run(seed, CoordinatorOfBroker)


@COORDINATORS
def test_transactional_ids_are_used_again(make: Any) -> None:
    batches = 200
    stress = SinkStress(1, make, rates=replace(NO_FAULTS, timeout=100_000), batches=batches)
    stress.settle()
    stress.check()
    ids = {name for name, _ in stress.kafka.written}
    assert len(ids) <= 1 + 4, "the driver's, and one of each partition"
    assert len(stress.checkpoint) == batches


# Injected faults


def tasks_do_not_look_whether_it_is_decided(patch: pytest.MonkeyPatch) -> Protocol:
    patch.setattr(Plan, "is_done", lambda planned, epoch: False)
    return Protocol(is_done=lambda planned, epoch: False)


def planning_aborts_what_is_open(patch: pytest.MonkeyPatch) -> Protocol:
    def plan(sink_id: str, accepted: int | None) -> Any:
        for name, seen in (yield Look((yield ListOpen()))).items():
            yield from driver_steps._abort_one(name, seen.identity)
        return (yield from driver_steps.plan(sink_id, accepted))

    return Protocol(plan=plan)


def planning_does_not_finish_what_is_decided(patch: pytest.MonkeyPatch) -> Protocol:
    def plan(sink_id: str, accepted: int | None) -> Any:
        driver = yield Take(driver_id(sink_id))
        last = yield ReadLast()
        return Plan(sink_id, driver, last.epoch if last else None, last.heirs if last else ())

    return Protocol(plan=plan)


def deciding_is_not_fenced(patch: pytest.MonkeyPatch) -> Protocol:
    def commit(planned: Plan, epoch: Any, grants: Any, margin: int) -> Any:
        driver = yield Take(driver_id(SINK))
        last = yield ReadLast()
        anew = replace(planned, driver=driver, decided=last.epoch if last else None)
        patch.setattr(Plan, "is_done", lambda planned, epoch: False)
        return (yield from driver_steps.commit(anew, epoch, grants, margin))

    return Protocol(commit=commit, is_done=REAL_IS_DONE)


def sweeping_does_not_look_who_drives(patch: pytest.MonkeyPatch) -> Protocol:
    def sweep(sink_id: str, driver: Any) -> Any:
        for name, seen in (yield Look((yield ListOpen()))).items():
            if seen.is_open:
                yield from driver_steps._abort_one(name, seen.identity)

    patch.setattr(driver_steps, "sweep", sweep)
    return Protocol()


def heirs_are_not_claimed(patch: pytest.MonkeyPatch) -> Protocol:
    def inherit(planned: Plan, partition: int, nonce: Any) -> Any:
        heir = planned.heir_of(partition)
        return heir if heir is not None else (yield from acquire(planned, partition, nonce))

    return Protocol(acquire=inherit)


def whoever_claims_inherits(patch: pytest.MonkeyPatch) -> Protocol:
    def inherit(planned: Plan, partition: int, nonce: Any) -> Any:
        heir = planned.heir_of(partition)
        if heir is None:
            return (yield from acquire(planned, partition, nonce))
        return heir._replace(claim=(yield Take(claim_id(heir.id))))

    return Protocol(acquire=inherit)


def tasks_have_ids_in_common(patch: pytest.MonkeyPatch) -> Protocol:
    return Protocol(acquire=lambda planned, partition, nonce: acquire(replace(planned, heirs=()), partition, the_same))


def failing_aborts_without_a_look(patch: pytest.MonkeyPatch) -> Protocol:
    return Protocol(abort=lambda planned, grants: driver_steps._abort(grants))


def tasks_look_for_a_decision_and_share_ids(patch: pytest.MonkeyPatch) -> Protocol:
    """Who has looked may be stopped before it takes the id."""

    def look_and_take(planned: Plan, partition: int, nonce: Any) -> Any:
        last = yield ReadLast()
        if (last.epoch if last else None) != planned.decided:
            raise TailraceError("decided meanwhile")
        return (yield from acquire(replace(planned, heirs=()), partition, the_same))

    return Protocol(acquire=look_and_take)


def the_same() -> bytes:
    return bytes(8)


def fresh_ids_are_asked_for_twice(patch: pytest.MonkeyPatch) -> Protocol:
    patch.setattr(task_steps, "Take", lambda name, is_once=False: Take(name))
    return Protocol(rates={"late_requests": 200, "kills": 2, "second_drivers": 0})


def deciding_without_looking(patch: pytest.MonkeyPatch) -> Protocol:
    patch.setattr(driver_steps, "_why_not", lambda *_: None)
    return Protocol(rates={"timeout": 120})


def time_for_the_decision_does_not_count(patch: pytest.MonkeyPatch) -> Protocol:
    def why_not(name: str, driver: Any, decision: Any, seen: Any, margin: int) -> str | None:
        hasty = {**seen, name: seen[name]._replace(timeout_ms=0)}
        return real_why_not(name, driver, decision, hasty, margin)

    real_why_not = driver_steps._why_not
    patch.setattr(driver_steps, "_why_not", why_not)
    return Protocol(rates={"timeout": 160, "hesitations": 800, "kills": 2, "second_drivers": 0})


def only_the_last_query_is_remembered(patch: pytest.MonkeyPatch) -> Protocol:
    patch.setattr(Decision, "before", lambda decision, epoch: ())
    return Protocol()


def forgotten_ids_are_told_as_lost(patch: pytest.MonkeyPatch) -> Protocol:
    patch.setattr(driver_steps, "INVALID_PRODUCER_ID_MAPPING", None)
    return Protocol()


def loss_is_not_told(patch: pytest.MonkeyPatch) -> Protocol:
    patch.setattr(Decision, "partly_ended", lambda decision, lost, unknown: decision.ended(()))
    return Protocol()


REAL_IS_DONE = Plan.is_done
FAULTS: list[Callable[[pytest.MonkeyPatch], Protocol]] = [
    tasks_do_not_look_whether_it_is_decided,
    planning_aborts_what_is_open,
    planning_does_not_finish_what_is_decided,
    deciding_is_not_fenced,
    sweeping_does_not_look_who_drives,
    heirs_are_not_claimed,
    whoever_claims_inherits,
    tasks_have_ids_in_common,
    tasks_look_for_a_decision_and_share_ids,
    failing_aborts_without_a_look,
    fresh_ids_are_asked_for_twice,
    deciding_without_looking,
    time_for_the_decision_does_not_count,
    only_the_last_query_is_remembered,
    forgotten_ids_are_told_as_lost,
    loss_is_not_told,
]


@pytest.mark.parametrize("inject", FAULTS, ids=lambda inject: inject.__name__)
def test_a_planted_fault_is_found(inject: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = inject(monkeypatch)
    # No end is wrong, too, but the rows must show it.
    assert_found(lambda seed: run(seed, protocol=protocol), SEARCHED, ignored=(NoEndError,))
