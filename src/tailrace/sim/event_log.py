"""What happened in a universe: numbered events, a running hash of them, and the checkers that see them.

    0:00:01.204117  #381  broker-2   message     client-1 → broker-2 Fetch v12 #7, 97 bytes crc 91ab33f0
    time            number machine   kind        text

The hash covers every event and how many steps the universe had taken before it, so that two runs with the same hash
have done the same. It does not depend on how many events are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from tailrace.sim.clock import TrueTime

DEFAULT_KEPT_EVENTS: Final = 100_000
_HASH_BYTES: Final = 16


class Event(NamedTuple):
    number: int
    """Counts from 1. A run can be cut after an event."""
    time_us: int
    machine: str
    """Where it happened; empty for the universe itself."""
    kind: str
    text: str
    peer: str = ""
    """The machine that sent what arrived here."""
    sent_us: int = 0
    data: Any = None
    """For checkers. It is neither shown nor hashed."""

    def __str__(self) -> str:
        return f"{shown_time(self.time_us)}  #{self.number:<7} {self.machine:<14} {self.kind:<12} {self.text}"


def shown_time(time_us: int) -> str:
    """Hours, minutes, seconds and microseconds since the beginning."""
    seconds, micros = divmod(time_us, 1_000_000)
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"


class Checker:
    """Sees events and keeps what it must remember of them; raises `Violation` for one that must not happen.

    A checker is called after the step in which the event happened, never from within the code under test. It must take
    the same time at the end of a run as at the beginning: it never looks at all of a machine's state.
    """

    kinds: frozenset[str] = frozenset()
    """The kinds of events that it sees."""

    def on_event(self, event: Event) -> None:
        """Called once for each event, in order."""

    def on_healed(self) -> None:
        """All faults are over: from here on progress can be expected."""

    def on_end(self) -> None:
        """The run is over, and every goal of the liveness phase was reached."""


class Violation(AssertionError):  # noqa: N818 - the word for a broken promise
    """A run has broken a promise. The seed and the number of the last event repeat it."""


class EventLog:
    def __init__(self, time: TrueTime, kept: int = DEFAULT_KEPT_EVENTS) -> None:
        self._time = time
        self._hash = blake2b(digest_size=_HASH_BYTES)
        self._kept: deque[Event] = deque(maxlen=kept)
        self._fresh: list[Event] = []
        self._checkers: dict[str, list[Checker]] = {}
        self.steps = 0
        """Steps that the universe has taken; the universe counts them here."""
        self.count = 0

    def add(self, machine: str, kind: str, text: str, *, peer: str = "", sent_us: int = 0, data: Any = None) -> None:
        self.count += 1
        time_us = self._time.now_us
        self._hash.update(f"{self.count} {self.steps} {time_us} {machine} {kind} {text}\n".encode())
        event = Event(self.count, time_us, machine, kind, text, peer, sent_us, data)
        self._kept.append(event)
        if kind in self._checkers:
            self._fresh.append(event)

    def watch(self, checker: Checker) -> None:
        for kind in sorted(checker.kinds):
            self._checkers.setdefault(kind, []).append(checker)

    def check(self) -> None:
        """Show the events of this step to the checkers."""
        if self._fresh:
            fresh, self._fresh = self._fresh, []
            for event in fresh:
                for checker in self._checkers[event.kind]:
                    checker.on_event(event)

    @property
    def hash(self) -> str:
        """Of everything up to now."""
        return self._hash.copy().hexdigest()

    @property
    def events(self) -> Iterable[Event]:
        """Those that are still kept, oldest first."""
        return self._kept

    def last(self, count: int) -> list[Event]:
        return list(self._kept)[-count:]
