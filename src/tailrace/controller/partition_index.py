"""Which partitions a broker is in, so that what happens to one broker costs as much as it has to do with.

Kept beside the image, partition by partition, as they change.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TypeVar

from tailrace.metadata.partition_registration import NO_LEADER, PartitionRegistration

T = TypeVar("T")
PartitionKey = tuple[bytes, int]
"""Topic id and index."""


class PartitionIndex:
    def __init__(self) -> None:
        self._known: dict[PartitionKey, PartitionRegistration] = {}
        self._in_sync: defaultdict[int, dict[PartitionKey, None]] = defaultdict(dict)
        self._eligible: defaultdict[int, dict[PartitionKey, None]] = defaultdict(dict)
        self._led: defaultdict[int, dict[PartitionKey, None]] = defaultdict(dict)
        self._in_directory: defaultdict[bytes, dict[PartitionKey, None]] = defaultdict(dict)
        self._not_preferred: dict[PartitionKey, None] = {}
        self._reassigning: dict[PartitionKey, None] = {}

    def put(self, key: PartitionKey, new: PartitionRegistration) -> None:
        self._move(key, self._known.get(key), new)
        self._known[key] = new

    def share(self, key: PartitionKey, equal: PartitionRegistration) -> None:
        """Refer to another object with the same values."""
        self._known[key] = equal

    def remove(self, key: PartitionKey) -> None:
        old = self._known.pop(key, None)
        if old is not None:
            self._move(key, old, None)

    def in_sync(self, broker_id: int) -> list[PartitionKey]:
        """Those with the broker in their ISR."""
        return list(self._in_sync.get(broker_id, ()))

    def eligible(self, broker_id: int) -> list[PartitionKey]:
        """Those with the broker in their ELR."""
        return list(self._eligible.get(broker_id, ()))

    def leaderless(self) -> list[PartitionKey]:
        return list(self._led.get(NO_LEADER, ()))

    @property
    def partition_count(self) -> int:
        return len(self._known)

    @property
    def leaderless_count(self) -> int:
        return len(self._led.get(NO_LEADER, ()))

    @property
    def not_preferred_count(self) -> int:
        return len(self._not_preferred)

    def in_directory(self, directory: bytes) -> list[PartitionKey]:
        return list(self._in_directory.get(directory, ()))

    def not_preferred(self) -> list[PartitionKey]:
        """Those that another than their preferred replica leads, or none."""
        return list(self._not_preferred)

    def reassigning(self) -> list[PartitionKey]:
        """Those with adding or removing replicas."""
        return list(self._reassigning)

    def leads(self, broker_id: int) -> bool:
        return bool(self._led.get(broker_id))

    def _move(self, key: PartitionKey, old: PartitionRegistration | None, new: PartitionRegistration | None) -> None:
        _move(self._in_sync, key, old.isr if old else (), new.isr if new else ())
        _move(self._eligible, key, old.elr if old else (), new.elr if new else ())
        _move(self._led, key, (old.leader,) if old else (), (new.leader,) if new else ())
        _move(self._in_directory, key, old.directories if old else (), new.directories if new else ())
        if new is not None and new.leader != new.preferred_leader:
            self._not_preferred[key] = None
        else:
            self._not_preferred.pop(key, None)
        if new is not None and new.is_reassigning:
            self._reassigning[key] = None
        else:
            self._reassigning.pop(key, None)


def _move(
    index: defaultdict[T, dict[PartitionKey, None]], key: PartitionKey, old: tuple[T, ...], new: tuple[T, ...]
) -> None:
    """Only members of one of the two cost anything: a change of an ISR concerns few brokers, and indexes are large."""
    if old == new:
        return
    for each in old:
        if each not in new:
            members = index.get(each)
            if members is not None:
                members.pop(key, None)
                if not members:
                    del index[each]
    for each in new:
        if each not in old:
            index[each][key] = None
