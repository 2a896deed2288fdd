"""Work that must not run on the thread which owns the logs: fsync, deletion, delayed actions.

A job is two functions. `work` runs anywhere, touches only the files it was given and returns a value; `done` runs
on the owner's thread with that value and alone may change a log's state. An exception of `work` is given to
`failed` on the owner's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Jobs(Protocol):
    def run(
        self,
        name: str,
        work: Callable[[], T],
        done: Callable[[T], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
        *,
        can_wait: bool = False,
    ) -> None:
        """Start `work` soon. Without `failed`, an exception is raised on the owner's thread.

        `can_wait` is for work that may come by the thousand, as when a topic has so many partitions: what is begun
        later without it goes first.
        """

    def later(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        """Run `action` on the owner's thread once `delay_ms` have passed."""


class InlineJobs:
    """Runs each job at once on the caller's thread, and delayed actions when `run_due` is called.

    For command-line tools and tests, where blocking is fine.
    """

    def __init__(self) -> None:
        self._later: list[tuple[str, int, Callable[[], None]]] = []

    def run(
        self,
        name: str,
        work: Callable[[], T],
        done: Callable[[T], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
        *,
        can_wait: bool = False,
    ) -> None:
        try:
            value = work()
        except Exception as error:
            if failed is None:
                raise
            failed(error)
            return
        if done is not None:
            done(value)

    def later(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        self._later.append((name, delay_ms, action))

    @property
    def waiting(self) -> list[tuple[str, int]]:
        """Name and delay of each action not yet run."""
        return [(name, delay_ms) for name, delay_ms, _ in self._later]

    def run_due(self) -> None:
        """Run every delayed action now, whatever its delay."""
        due, self._later = self._later, []
        for _, _, action in due:
            action()
