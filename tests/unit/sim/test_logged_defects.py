"""What a node logs becomes events, and errors that it did not expect end the run."""

from __future__ import annotations

import logging

import pytest

from support.universe.endpoints import Pair
from tailrace.sim.event_log import Violation
from tailrace.sim.logged_defects import logged_defects

LOGGER = logging.getLogger("tailrace.broker.channel")


def logs(error: Exception) -> Pair:
    pair = Pair()

    def act() -> None:
        try:
            raise error
        except Exception:
            LOGGER.exception("request %d failed", 7)
        LOGGER.warning("a warning")
        LOGGER.info("too much")

    assert pair.client.process is not None
    pair.client.process.after(10, act)
    return pair


def test_log_lines_are_events_of_their_machine(caplog: pytest.LogCaptureFixture) -> None:
    pair = logs(OSError(5, "broken"))
    with logged_defects(pair.universe):
        pair.universe.run_for(1)
    found = [(event.machine, event.kind, event.text) for event in pair.universe.log.last(2)]
    assert found == [("client", "log", "ERROR request 7 failed"), ("client", "log", "WARNING a warning")]
    assert caplog.records == []
    LOGGER.warning("afterwards")
    assert len(caplog.records) == 1
    assert pair.universe.log.last(1)[0].text == "WARNING a warning"


def test_an_unexpected_error_is_a_violation() -> None:
    pair = logs(ValueError("a defect"))
    with (
        logged_defects(pair.universe),
        pytest.raises(Violation, match="client logged a defect: ERROR request 7") as raised,
    ):
        pair.universe.run_for(1)
    assert isinstance(raised.value.__cause__, ValueError)
