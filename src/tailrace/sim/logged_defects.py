"""Log lines of the code under test as events, and errors that it swallowed as violations.

A node logs an exception that it did not expect and goes on; in a simulation that is a failure of the run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tailrace.model.errors import TailraceError
from tailrace.sim.event_log import Checker, Event, Violation
from tailrace.sim.universe import Universe

_LOGGER: Final = "tailrace"


class _Handler(logging.Handler):
    def __init__(self, universe: Universe) -> None:
        super().__init__(logging.WARNING)
        self._universe = universe

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        is_defect = error is not None and not isinstance(error, OSError | TailraceError)
        process = self._universe.performing
        machine = process.machine.name if process is not None else ""
        text = f"{record.levelname} {record.getMessage()}"
        self._universe.log.add(machine, "defect" if is_defect else "log", text, data=error)


class _Defects(Checker):
    kinds = frozenset({"defect"})

    def on_event(self, event: Event) -> None:
        raise Violation(f"{event.machine} logged a defect: {event.text}") from event.data


@contextmanager
def logged_defects(universe: Universe) -> Iterator[None]:
    """While it is active, log lines of every node go into the log of the universe, and nowhere else."""
    logger = logging.getLogger(_LOGGER)
    handler, propagates = _Handler(universe), logger.propagate
    universe.add_checker(_Defects())
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
