"""The demo from its first order to its last, with a broker in the test's own process."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from support.brokers.threaded import ThreadedBroker
from tailrace.cli.demo_facts import Facts
from tailrace.cli.demo_run import Demo, Patience, Wishes

WISHES = Wishes(port=0, rate=10_000, most_orders=20, directory=None, as_json=True, counts_with_spark=False)


class LastFacts:
    """A show that keeps what the demo ends with."""

    every_s = 1000.0
    facts: Facts

    def moment(self, facts: Facts) -> None:
        pass

    def end(self, facts: Facts) -> None:
        self.facts = facts

    def close(self) -> None:
        pass


def test_a_demo_whose_broker_never_ended_reports_no_restart(tmp_path: Path) -> None:
    served, show = ThreadedBroker(tmp_path), LastFacts()
    process = SimpleNamespace(bootstrap_servers=f"127.0.0.1:{served.port}", pid=os.getpid(), is_running=True)
    try:
        assert Demo(cast(Any, process), show, WISHES).run() == 0
    finally:
        served.close()
    assert (show.facts.sent, show.facts.returned, show.facts.restarts) == (20, 20, 0)


def test_patience_ends_when_nothing_has_changed_for_the_limit() -> None:
    now_s = 100.0
    patience = Patience(90.0, lambda: now_s)
    assert not patience.is_over(1)
    for progress in (2, 3, 4):
        now_s += 89.9
        assert not patience.is_over(progress)
    now_s += 89.9
    assert not patience.is_over(4)
    now_s += 0.2
    assert patience.is_over(4)
