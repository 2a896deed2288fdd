"""Long work as a generator of small steps.

The generator's own code runs on the thread that owns the log and may look at and change the log's state. What it yields
is work for any thread: a function that changes nothing that the owner looks at. The generator goes on when it has
returned, with its value; what it raises is raised at the yield. Where a step is there to move data, its value is the
number of bytes it has read and written, for whoever throttles.

The generator's own value is the result. A CalledOffError thrown into it in the place of the work it has yielded, which
was not done, calls the whole off: it cleans up, and may yield what it has to finish for that. One that is only let go
of, as in a process that dies, must touch nothing any more: the files may be another's by then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

from tailrace.env import Jobs
from tailrace.model.errors import TailraceError
from tailrace.model.invariant import invariant

T = TypeVar("T")

Work = Callable[[], Any]
Steps = Generator[Work, Any, T]


class CalledOffError(TailraceError):
    """The work is not wanted any more."""


def run_inline(steps: Steps[T]) -> T:
    """Every step on the caller's thread, which owns the log: for tools and tests."""
    return _run_on(steps, partial(next, steps))


def _run_on(steps: Steps[T], advance: Callable[[], Work]) -> T:
    try:
        work = advance()
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


def to_the_end(steps: Steps[T]) -> Steps[T]:
    """Steps of which all or none must be done: once they have begun, a CalledOffError has to wait until they ended."""
    called_off: CalledOffError | None = None
    try:
        work = next(steps)
        while True:
            try:
                value = yield work
            except CalledOffError as reason:
                called_off = reason
            except Exception as error:
                work = steps.throw(error)
            else:
                work = steps.send(value)
    except StopIteration as end:
        if called_off is not None:
            raise called_off from None
        result: T = end.value
        return result


class _Step:
    """One piece of work, which runs once or, when it was cancelled before, not at all."""

    __slots__ = ("_is_cancelled", "_lock", "_work", "error", "has_run", "value")

    def __init__(self, work: Work) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._is_cancelled = False
        self.has_run = False
        self.value: Any = None
        self.error: Exception | None = None

    def run(self) -> None:
        with self._lock:
            if self._is_cancelled:
                return
            try:
                self.value = self._work()
            except Exception as error:
                self.error = error
            self.has_run = True

    def cancel(self) -> None:
        """Returns when it is sure that the work does not run: before it, or after it."""
        with self._lock:
            self._is_cancelled = True

    def tell(self, steps: Steps[T]) -> Work:
        """The generator gets to know how it ended, and says what comes next."""
        return steps.send(self.value) if self.error is None else steps.throw(self.error)


class JobRun(Generic[T]):
    """Each step as a job; `done` or `failed` is called on the owner's thread when the work has ended.

    `pace` is told how many bytes a step has moved and says how many milliseconds the next one has to wait. Everything
    here is called on the owner's thread.
    """

    def __init__(
        self,
        name: str,
        steps: Steps[T],
        jobs: Jobs,
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
        pace: Callable[[int], int] | None = None,
    ) -> None:
        self._name = name
        self._steps = steps
        self._jobs = jobs
        self._done = done
        self._failed = failed
        self._pace = pace
        self._on_its_way: _Step | None = None

    def start(self) -> None:
        self._advance(partial(next, self._steps))

    def call_off(self, reason: CalledOffError) -> None:
        """End the work now. Waits for the step that is being run; when this returns, `failed` was called with the
        reason, or `done` or `failed` with what that step has led to."""
        step, self._on_its_way = self._on_its_way, None
        invariant(step is not None, f"{self._name}: work that is not on its way cannot be called off")
        assert step is not None
        step.cancel()
        self._end(partial(self._unwind, step, reason))

    def _unwind(self, step: _Step, reason: CalledOffError) -> T:
        """A step that has run is told to the generator like any other: only it knows what became of the files."""
        if step.has_run:
            try:
                step.tell(self._steps)
            except StopIteration as end:
                result: T = end.value
                return result
        return _run_on(self._steps, partial(self._steps.throw, reason))

    def _end(self, unwind: Callable[[], T]) -> None:
        try:
            result = unwind()
        except Exception as error:
            self._failed(error)
        else:
            self._done(result)

    def _advance(self, advance: Callable[[], Work]) -> None:
        try:
            work = advance()
        except StopIteration as end:
            self._done(end.value)
        except Exception as error:
            self._failed(error)
        else:
            step = self._on_its_way = _Step(work)
            self._jobs.run(self._name, step.run, lambda _: self._has_run(step))

    def _has_run(self, step: _Step) -> None:
        moved = step.value if type(step.value) is int else 0
        wait_ms = self._pace(moved) if self._pace is not None else 0
        if wait_ms > 0:
            self._jobs.later(self._name, wait_ms, lambda: self._go_on(step))
        else:
            self._go_on(step)

    def _go_on(self, step: _Step) -> None:
        if step is self._on_its_way:  # otherwise it was called off meanwhile
            self._on_its_way = None
            self._advance(partial(step.tell, self._steps))
