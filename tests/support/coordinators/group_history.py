"""What the members of a consumer group did, in the order of time, and whether a group may do that. Pure.

A history is events of several members, each with the time of the machine's monotonic clock, which all processes
share. A member tells that it owns partitions before it handles their records, that it gives them up before the
coordinator can learn of it, and each record that it handles. That a member was killed is told by whoever did it.

`faults` is the list of everything that must not be: a partition with two owners, a record that nobody handled, that
was handled out of order, by a member that did not own its partition, or twice although the first had time to commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

OWNS = "owns"
GIVES_UP = "gives up"
HANDLED = "handled"
LEAVES = "leaves"
KILLED = "killed"


class Event(NamedTuple):
    """`partitions` are those that are owned or given up; `offset` goes with the one partition of a handled record."""

    at_ns: int
    member: str
    kind: str
    partitions: tuple[int, ...] = ()
    offset: int = -1


def faults(events: Iterable[Event], counts: Mapping[int, int]) -> list[str]:
    """`counts` is how many records each partition has, from offset 0 on."""
    history = _History()
    for event in sorted(events, key=lambda event: event.at_ns):
        history.take(event)
    for partition, count in sorted(counts.items()):
        handled = sum(map(bool, history.handlers.get(partition, ())))
        if handled != count:
            history.faults.append(f"partition {partition}: {handled} of {count} records were handled")
    return history.faults


def owned(events: Iterable[Event]) -> dict[str, set[int]]:
    """What each member that has neither left nor died owns in the end."""
    history = _History()
    for event in sorted(events, key=lambda event: event.at_ns):
        history.take(event)
    return history.owned


@dataclass
class _History:
    owned: dict[str, set[int]] = field(default_factory=dict)
    killed: set[str] = field(default_factory=set)
    handlers: dict[int, list[list[str]]] = field(
        default_factory=dict
    )  # by partition and offset: who, one after another
    faults: list[str] = field(default_factory=list)

    def take(self, event: Event) -> None:
        if event.kind == OWNS:
            self._take_over(event)
        elif event.kind == GIVES_UP:
            self.owned.setdefault(event.member, set()).difference_update(event.partitions)
        elif event.kind == HANDLED:
            self._handle(event.member, event.partitions[0], event.offset)
        elif event.kind in (LEAVES, KILLED):
            self.owned.pop(event.member, None)
            if event.kind == KILLED:
                self.killed.add(event.member)
        else:
            raise ValueError(f"unknown event: {event}")

    def _take_over(self, event: Event) -> None:
        for member, partitions in self.owned.items():
            both = partitions.intersection(event.partitions)
            if member != event.member and both:
                self.faults.append(f"{event.member} was given {sorted(both)}, which {member} still owned")
        self.owned.setdefault(event.member, set()).update(event.partitions)

    def _handle(self, member: str, partition: int, offset: int) -> None:
        where = f"partition {partition} offset {offset}"
        if partition not in self.owned.get(member, ()):
            self.faults.append(f"{where}: handled by {member}, which did not own it")
        handlers = self.handlers.setdefault(partition, [])
        if offset > len(handlers):
            self.faults.append(f"{where}: handled by {member}, and nobody handled {len(handlers)} to {offset - 1}")
            handlers.extend([] for _ in range(offset - len(handlers)))
        if offset == len(handlers):
            handlers.append([])
        if survivors := [each for each in handlers[offset] if each not in self.killed]:
            self.faults.append(f"{where}: handled by {member} although {survivors[0]} had handled it")
        handlers[offset].append(member)
