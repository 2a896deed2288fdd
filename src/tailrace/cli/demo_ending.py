"""How the demo ends: Spark reads the topic no more, the broker is stopped, what it wrote is audited.

A second Ctrl-C skips it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from tailrace.cli.demo_counting import Counter
from tailrace.cli.demo_facts import NOT_AUDITED, Audited, Auditing, Counting, Facts
from tailrace.cli.demo_shows import Show

LONGEST_HALT_S: Final = 90.0
"""Spark may still have to start."""
LONGEST_AUDIT_S: Final = 300.0
STEP_S: Final = 0.05
OVER: Final = (Auditing.DONE, Auditing.FAILED)


class Stoppable(Protocol):
    """As much of a broker as there is to do with it here."""

    @property
    def data_dir(self) -> os.PathLike[str]: ...

    def stop(self) -> None: ...


class DemoAudit:
    def __init__(self, broker: Stoppable, counter: Counter, show: Show, report: str | None) -> None:
        self._broker = broker
        self._counter = counter
        self._show = show
        self._report = report

    def run(self, facts: Facts) -> Audited:
        """Nothing where there is no Spark. One that is only starting is waited for."""
        if self._counter.now().state not in (Counting.STARTING, Counting.COUNTING):
            return NOT_AUDITED
        page = self._report or new_page()
        try:
            found = self._audited(facts, page)
        except KeyboardInterrupt:
            found = Audited(Auditing.SKIPPED)
        if found.state is not Auditing.DONE and self._report is None:
            with suppress(OSError):
                os.unlink(page)
        return found

    def _audited(self, facts: Facts, page: str) -> Audited:
        self._show.moment(facts._replace(audited=Audited(Auditing.RUNNING)))
        self._counter.halt()
        if not self._wait(facts, LONGEST_HALT_S, lambda state: state is Auditing.READY or state in OVER):
            return Audited(Auditing.FAILED, trouble="Spark did not end its query in time")
        if self._counter.audited().state in OVER:
            return self._counter.audited()
        self._broker.stop()
        self._counter.audit(os.fspath(self._broker.data_dir), os.path.abspath(page))
        if not self._wait(facts, LONGEST_AUDIT_S, lambda state: state in OVER):
            return Audited(Auditing.FAILED, trouble="it took too long")
        return self._counter.audited()

    def _wait(self, facts: Facts, longest_s: float, is_done: Callable[[Auditing], bool]) -> bool:
        gives_up_s = time.monotonic() + longest_s
        next_show_s = time.monotonic() + self._show.every_s
        while True:
            has_failed = self._counter.now().state is Counting.FAILED
            if is_done(self._counter.audited().state):
                return True
            if has_failed or time.monotonic() >= gives_up_s:
                return False
            time.sleep(STEP_S)
            if time.monotonic() >= next_show_s:
                self._show.moment(facts._replace(audited=Audited(Auditing.RUNNING)))
                next_show_s = time.monotonic() + self._show.every_s


def new_page() -> str:
    """A file of its own, which stays."""
    handle, path = tempfile.mkstemp(prefix="tailrace-audit-", suffix=".html")
    os.close(handle)
    return path
