"""The checkers of a run with clients see each broken promise."""

from __future__ import annotations

import pytest

from support.universe.endpoints import Idle
from tailrace.sim.event_log import Event, Violation
from tailrace.sim.process import Process
from tailrace.sim.record_checker import LivingSenders, RecordChecker
from tailrace.sim.record_client import Acked, Read
from tailrace.sim.universe import Universe

BROKER = "broker-1"


class Scenario:
    """What one client reports of one broker."""

    def __init__(self) -> None:
        self.checker = RecordChecker()
        self.number = 0

    def _happens(self, machine: str, kind: str, data: object = None) -> None:
        self.number += 1
        self.checker.on_event(Event(self.number, self.number, machine, kind, "", data=data))

    def acked(self, offset: int, *values: bytes) -> None:
        self._happens("client", "acked", Acked(BROKER, offset, list(values)))

    def asking(self) -> int:
        self._happens("client", "asking", self.number)
        return self.number - 1

    def read(self, request: int, offset: int, high_watermark: int, *values: bytes, gap: int = 0) -> None:
        records = [(number + gap, value) for number, value in enumerate(values, offset)]
        self._happens("client", "read", Read(BROKER, request, offset, high_watermark, records))

    def out_of_range(self, request: int, offset: int) -> None:
        self._happens("client", "out-of-range", Read(BROKER, request, offset, -1, []))

    def power_lost(self) -> None:
        self._happens(BROKER, "power-off")


def test_what_may_happen() -> None:
    scenario = Scenario()
    early = scenario.asking()
    scenario.acked(0, b"a", b"b")
    scenario.read(early, 0, 0)  # was sent before the acknowledgement
    scenario.read(scenario.asking(), 0, 4, b"a", b"b", b"not acknowledged", b"neither")
    scenario.acked(2, b"not acknowledged")
    scenario.power_lost()
    scenario.out_of_range(scenario.asking(), 4)
    scenario.read(scenario.asking(), 3, 4, b"another")
    assert scenario.checker.acked_end(BROKER) == 3
    assert (scenario.checker.acked_records, scenario.checker.read_records) == (3, 5)


def broken_twice_acked(scenario: Scenario) -> None:
    scenario.acked(1, b"other")


def broken_changed(scenario: Scenario) -> None:
    scenario.read(scenario.asking(), 0, 2, b"a", b"changed")


def broken_lost(scenario: Scenario) -> None:
    scenario.read(scenario.asking(), 0, 1, b"a")


def broken_gap(scenario: Scenario) -> None:
    scenario.read(scenario.asking(), 1, 5, b"b", gap=1)


def broken_out_of_range(scenario: Scenario) -> None:
    scenario.out_of_range(scenario.asking(), 2)


def broken_unread(scenario: Scenario) -> None:
    scenario.read(scenario.asking(), 2, 3, b"c")
    scenario.read(scenario.asking(), 2, 3, b"changed without a loss of power")


def broken_acked_otherwise(scenario: Scenario) -> None:
    scenario.read(scenario.asking(), 2, 3, b"c")
    scenario.acked(2, b"other")


@pytest.mark.parametrize(
    ("break_promise", "text"),
    [
        (broken_twice_acked, "acknowledged b and other at offset 1"),
        (broken_changed, "returned changed at offset 1, and before b"),
        (broken_lost, "high watermark 1 after it acknowledged up to 2"),
        (broken_gap, "returned offset 2 where 1 was expected"),
        (broken_out_of_range, "has no offset 2, and acknowledged up to 2"),
        (broken_unread, "at offset 2, and before c"),
        (broken_acked_otherwise, "returned c at offset 2, acknowledged other"),
    ],
)
def test_what_must_not_happen(break_promise: object, text: str) -> None:
    scenario = Scenario()
    scenario.acked(0, b"a", b"b")
    assert callable(break_promise)
    with pytest.raises(Violation, match=text):
        break_promise(scenario)


def test_a_message_of_a_process_that_has_ended() -> None:
    universe = Universe(1)
    machine = universe.add_machine(BROKER, Idle)
    machine.start()
    process = machine.process
    assert isinstance(process, Process)
    checker = LivingSenders()
    universe.run_for(5)
    checker.on_event(Event(1, 9_000, "client", "message", "", BROKER, 4_999, process))
    machine.kill()
    checker.on_event(Event(2, 9_000, "client", "message", "", BROKER, 5_000, process))
    with pytest.raises(Violation, match="after the end of its process"):
        checker.on_event(Event(3, 9_000, "client", "message", "", BROKER, 5_001, process))
