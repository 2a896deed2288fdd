"""Long work as a generator of small steps.

The generator's own code runs on the thread that owns the log and may look at and change the log's state. What it yields
is work for any thread: a function that changes nothing that the owner looks at. The generator goes on when it has
returned, with its value; what it raises is raised at the yield. Where a step is there to move data, its value is the
number of bytes it has read and written, for whoever throttles.

The generator's own value is the result. An exception thrown into it calls the work off, and it cleans up. One that is
only let go of, as in a process that dies, must touch nothing any more: the files may be another's by then.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from tailrace.env import Jobs

T = TypeVar("T")

Work = Callable[[], Any]
Steps = Generator[Work, Any, T]


def run_inline(steps: Steps[T]) -> T:
    """Every step on the caller's thread, which owns the log: for tools and tests."""
    try:
        work = next(steps)
        while True:
            try:
                value = work()
            except Exception as error:
                work = steps.throw(error)
            else:
                work = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result


class JobRun(Generic[T]):
    """Each step as a job; `done` or `failed` is called on the owner's thread when the work has ended.

    Made, started and called off on the owner's thread.
    """

    def __init__(
        self, steps: Steps[T], jobs: Jobs, done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        self._steps = steps
        self._jobs = jobs
        self._done = done
        self._failed = failed
        self._called_off: Exception | None = None

    def start(self) -> None:
        self._go_on(lambda: next(self._steps))

    def call_off(self, reason: Exception) -> None:
        """End the work as soon as the step on its way has returned; `failed` gets the reason."""
        self._called_off = reason

    def _go_on(self, advance: Callable[[], Work]) -> None:
        try:
            work = advance() if self._called_off is None else self._steps.throw(self._called_off)
        except StopIteration as end:
            self._done(end.value)
        except Exception as error:
            self._failed(error)
        else:
            self._jobs.run(
                "compact-log",
                work,
                lambda value: self._go_on(lambda: self._steps.send(value)),
                lambda error: self._go_on(lambda: self._steps.throw(error)),
            )
