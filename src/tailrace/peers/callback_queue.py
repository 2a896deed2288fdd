"""Callbacks that wait until the state is consistent, and never run within the call that caused them.

An event of a stream or a timer adds callbacks while it changes the state, and then runs them. A call of the owner has
them run by a job. Callbacks that are added while others run wait for the next event or job: an owner that repeats a
request at once when it fails does not keep the thread.
"""

from __future__ import annotations

from collections.abc import Callable

from tailrace.env import Jobs

Callback = Callable[[], object]


class CallbackQueue:
    __slots__ = ("_callbacks", "_is_scheduled", "_jobs")

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._callbacks: list[Callback] = []
        self._is_scheduled = False

    def add(self, callback: Callback) -> None:
        self._callbacks.append(callback)

    def run(self) -> None:
        """At the end of an event."""
        if self._callbacks:
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()
            self.run_later()

    def run_later(self) -> None:
        """At the end of a call of the owner."""
        if self._callbacks and not self._is_scheduled:
            self._is_scheduled = True
            self._jobs.later("peer-callbacks", 0, self._run_scheduled)

    def _run_scheduled(self) -> None:
        self._is_scheduled = False
        self.run()
