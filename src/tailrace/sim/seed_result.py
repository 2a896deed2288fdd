"""The result of a run as a value: its report, and how it failed. Values travel between processes."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tailrace.sim.event_log import Violation
from tailrace.sim.run import Run, RunReport, noop

SHOWN_EVENTS: Final = 12


@dataclass(frozen=True, slots=True)
class Failure:
    kind: str
    """`Violation`, or the name of an error of the code under test."""
    message: str
    event: int
    """The last event that was logged."""
    time_us: int
    last_events: tuple[str, ...]
    trace: str
    """The traceback of an error that is not a plain violation; otherwise empty."""


@dataclass(frozen=True, slots=True)
class SeedResult:
    report: RunReport
    failure: Failure | None


class _ProgressError(BaseException):
    """Carries an error of `on_progress` past what catches the errors of the code under test."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def completed(run: Run, on_progress: Callable[[], object] = noop) -> SeedResult:
    """Run to the end or to the first failure. An error of `on_progress` does not fail the run: it is raised."""

    def guarded() -> None:
        try:
            on_progress()
        except Exception as error:
            raise _ProgressError(error) from error

    try:
        return SeedResult(run.run(guarded), None)
    except _ProgressError as error:
        raise error.error from None
    except Exception as error:
        log = run.universe.log
        is_plain = isinstance(error, Violation) and error.__cause__ is None
        error.__notes__ = []  # the last events, which are a field here
        failure = Failure(
            type(error).__name__,
            str(error),
            log.count,
            run.universe.time.now_us,
            tuple(map(str, log.last(SHOWN_EVENTS))),
            "" if is_plain else "".join(traceback.format_exception(error)),
        )
        return SeedResult(run.report(), failure)
