"""Which member reads which partitions: the assignor `simple`, a plain decision.

All members together read all partitions. Where there are more members than partitions, several read the same one, as
many of each as of the others within one. A member keeps what it has as far as that is fair.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from tailrace.coordinator.consumer.partitions import NO_PARTITIONS, Partitions, partitions_of

Place = tuple[bytes, int]


class MemberNeeds(NamedTuple):
    topics: frozenset[bytes]
    target: Partitions
    """What it has been given so far."""


def assign(members: Mapping[str, MemberNeeds], assignable: Partitions) -> dict[str, Partitions]:
    """Members with the same subscription share its partitions; with different ones, those of each topic by itself."""
    if not members:
        return {}
    subscriptions = {needs.topics for needs in members.values()}
    if len(subscriptions) == 1:
        groups = [next(iter(subscriptions))]
    else:
        groups = [frozenset((topic,)) for topic in sorted(frozenset().union(*subscriptions))]
    given: dict[str, set[Place]] = {member: set() for member in members}
    for topics in groups:
        readers = {name: needs for name, needs in members.items() if topics <= needs.topics}
        places = sorted((topic, index) for topic in topics for index in assignable.get(topic, ()))
        for name, its in _shared_out(readers, places).items():
            given[name] |= its
    return {
        name: partitions_of((topic, (index,)) for topic, index in sorted(places)) if places else NO_PARTITIONS
        for name, places in given.items()
    }


def _shared_out(members: Mapping[str, MemberNeeds], places: list[Place]) -> dict[str, set[Place]]:
    given: dict[str, set[Place]] = {name: set() for name in members}
    if not places or not members:
        return given
    readers_each = -(-len(members) // len(places))
    quotas = _quotas(list(members), readers_each * len(places))
    readers = dict.fromkeys(places, 0)
    for name, needs in members.items():
        for place in sorted((topic, index) for topic, indexes in needs.target.items() for index in indexes):
            if len(given[name]) < quotas[name] and readers.get(place, readers_each) < readers_each:
                given[name].add(place)
                readers[place] += 1
    by_readers = [(count, place) for place, count in readers.items()]
    heapify(by_readers)
    for name in members:
        for count, place in _least_read(by_readers, quotas[name], given[name]):
            readers[place] = count
    _cover(given, readers)
    return given


def _least_read(by_readers: list[tuple[int, Place]], quota: int, has: set[Place]) -> list[tuple[int, Place]]:
    """Fill up what a member has with the places that are read least; they are put back with one reader more."""
    taken: list[tuple[int, Place]] = []
    skipped: list[tuple[int, Place]] = []
    while by_readers and len(has) < quota:
        count, place = heappop(by_readers)
        if place in has:
            skipped.append((count, place))
        else:
            has.add(place)
            taken.append((count + 1, place))
    for entry in (*taken, *skipped):
        heappush(by_readers, entry)
    return taken


def _quotas(names: list[str], total: int) -> dict[str, int]:
    least, more = divmod(total, len(names))
    return {name: least + (at < more) for at, name in enumerate(names)}


def _cover(given: dict[str, set[Place]], readers: dict[Place, int]) -> None:
    """A place that nobody reads takes the place of one that several read."""
    for place in [place for place, count in readers.items() if not count]:
        crowded = max(readers, key=lambda each: readers[each])
        for places in given.values():
            if readers[crowded] > 1 and crowded in places:
                places.remove(crowded)
                places.add(place)
                readers[crowded] -= 1
                readers[place] += 1
                break
