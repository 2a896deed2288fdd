"""The scenarios of simulated runs, by name, and the parameters that all of them take.

A seed, the name of a scenario and its parameters repeat a run. A parameter with its default value need not be given:
changing a default changes what a seed means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tailrace.sim.event_log import DEFAULT_KEPT_EVENTS
from tailrace.sim.fault_schedule import FaultRules, FaultSchedule
from tailrace.sim.node_run import NodeRun, NodeRunParameters
from tailrace.sim.quorum_run import QuorumRun, QuorumRunParameters
from tailrace.sim.record_client import RecordLoad
from tailrace.sim.run import Run, RunParameters

NODES_RATE: Final = 10.0
QUORUM_RATE: Final = 1.0


@dataclass(frozen=True, slots=True)
class ScenarioParameters:
    brokers: int = 3
    clients: int = 1
    """Clients for each broker."""
    rate: float | None = None
    """Requests per second that a client sends at most, on average. None: as is usual for the scenario."""
    faults_per_minute: float = 20.0
    seconds: int = 60
    """Simulated time with faults."""
    schedule: FaultSchedule | None = None
    """Instead of one that is drawn from the seed."""
    until_event: int | None = None
    kept_events: int = DEFAULT_KEPT_EVENTS

    @property
    def fault_rules(self) -> FaultRules:
        usual = RunParameters().faults
        if not self.faults_per_minute:
            return replace(usual, weights={})
        return replace(usual, mean_gap_ms=round(60_000 / self.faults_per_minute))


@dataclass(frozen=True, slots=True)
class Scenario:
    summary: str
    build: Callable[[int, ScenarioParameters], Run]


def _nodes(seed: int, parameters: ScenarioParameters) -> NodeRun:
    return NodeRun(
        seed,
        NodeRunParameters(
            faulty_ms=parameters.seconds * 1000,
            faults=parameters.fault_rules,
            schedule=parameters.schedule,
            until_event=parameters.until_event,
            kept_events=parameters.kept_events,
            nodes=parameters.brokers,
            clients_per_node=parameters.clients,
            load=RecordLoad(mean_pause_ms=round(1000 / (parameters.rate or NODES_RATE))),
        ),
    )


def _quorum(seed: int, parameters: ScenarioParameters) -> QuorumRun:
    usual = QuorumRunParameters()
    gap_ms = round(60_000 / parameters.faults_per_minute) if parameters.faults_per_minute else 0
    return QuorumRun(
        seed,
        replace(
            usual,
            faulty_ms=parameters.seconds * 1000,
            faults=replace(usual.faults, mean_gap_ms=gap_ms) if gap_ms else replace(usual.faults, weights={}),
            schedule=parameters.schedule,
            until_event=parameters.until_event,
            kept_events=parameters.kept_events,
            brokers=parameters.brokers,
            administrators=parameters.brokers * parameters.clients,
            mean_pause_ms=round(1000 / (parameters.rate or QUORUM_RATE)),
        ),
    )


NODES: Final = "nodes"
QUORUM: Final = "quorum"
SCENARIOS: Final[dict[str, Scenario]] = {
    NODES: Scenario("independent nodes, each its own controller, with clients that produce and read", _nodes),
    QUORUM: Scenario("a quorum of 3 or 5 controllers with brokers, administrators and an operator", _quorum),
}


def build_run(scenario: str, seed: int, parameters: ScenarioParameters) -> Run:
    """Raises `InvalidConfigError` if the given schedule does not fit the machines of the scenario."""
    run = SCENARIOS[scenario].build(seed, parameters)
    if parameters.schedule is not None:
        for fault in parameters.schedule.faults:
            fault.check(run.universe.machines)
    return run
