"""Where the replicas of new partitions go: round the racks, and round the brokers within each, from a random start.

For every partition, first replicas move from rack to rack and further replicas follow through the racks after it, so
that leaders and replicas are spread as evenly as the racks allow. Brokers that are fenced are taken only when their
rack has no other left, and never first: a first replica is to lead. After as many partitions as there are unfenced
brokers the orders are shuffled, so that the same sets of brokers do not meet again and again.

Brokers that cannot replicate get single replicas only.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final, NamedTuple

from tailrace.model.errors import InvalidReplicationFactorError

MAX_NAMED: Final = 5
"""Brokers that an error names."""


class UsableBroker(NamedTuple):
    id: int
    rack: str | None = None
    is_fenced: bool = False
    can_replicate: bool = True


def place(
    brokers: Iterable[UsableBroker], partitions: int, replication_factor: int, randomness: random.Random
) -> list[list[int]]:
    """The replicas of each new partition; the first leads. Raises InvalidReplicationFactorError."""
    brokers = list(brokers)
    if replication_factor > 1:
        brokers = _replicating(brokers)
    racks = _Racks(brokers, randomness)
    if replication_factor <= 0:
        raise InvalidReplicationFactorError(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if racks.unfenced == 0:
        raise InvalidReplicationFactorError(
            "All brokers are currently fenced or have all their log directories cordoned."
        )
    if replication_factor > racks.total:
        raise InvalidReplicationFactorError(
            f"The target replication factor of {replication_factor} cannot be reached because only {racks.total} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    return [racks.place(replication_factor) for _ in range(partitions)]


def _replicating(brokers: list[UsableBroker]) -> list[UsableBroker]:
    """Those that can hold one of several replicas. Raises InvalidReplicationFactorError if no broker can."""
    found = [broker for broker in brokers if broker.can_replicate]
    if brokers and not found:
        names = ", ".join(str(broker.id) for broker in brokers[:MAX_NAMED]) + ", …" * (len(brokers) > MAX_NAMED)
        raise InvalidReplicationFactorError(
            "Tailrace brokers hold single replicas only in this release, and no others can take replicas (brokers "
            f"{names}). Use replication factor 1."
        )
    return found


class _Round:
    """Brokers in a circle. Each partition begins one further on and gets every broker at most once."""

    def __init__(self) -> None:
        self.brokers: list[int] = []
        self._start = 0
        self._taken = 0
        self._partition = 0

    def begin(self, randomness: random.Random) -> None:
        self.brokers.sort()
        if self.brokers:
            self._start = randomness.randrange(len(self.brokers))

    def take(self, partition: int) -> int | None:
        count = len(self.brokers)
        if not count:
            return None
        if self._partition != partition:
            self._partition, self._taken, self._start = partition, 0, (self._start + 1) % count
        if self._taken >= count:
            return None
        broker = self.brokers[(self._start + self._taken) % count]
        self._taken += 1
        return broker


class _Rack:
    def __init__(self) -> None:
        self.unfenced = _Round()
        self.fenced = _Round()

    def take(self, partition: int) -> int | None:
        broker = self.unfenced.take(partition)
        return broker if broker is not None else self.fenced.take(partition)


class _Racks:
    def __init__(self, brokers: Iterable[UsableBroker], randomness: random.Random) -> None:
        self.total = self.unfenced = 0
        self._random = randomness
        racks: dict[str | None, _Rack] = {}
        for broker in brokers:
            rack = racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.is_fenced else rack.unfenced).brokers.append(broker.id)
            self.total += 1
            self.unfenced += not broker.is_fenced
        # Brokers without a rack are in one together, which comes first.
        self._racks = [racks[name] for name in sorted(racks, key=lambda name: (name is not None, name or ""))]
        for rack in racks.values():
            rack.fenced.begin(randomness)
            rack.unfenced.begin(randomness)
        self._first = randomness.randrange(len(self._racks)) if self._racks else 0
        self._partition = 0

    def place(self, replication_factor: int) -> list[int]:
        if self._partition == self.unfenced and self.unfenced > 1:
            self._shuffle()
            self._partition = 0
        self._first %= len(self._racks)
        leader, leader_rack = self._leader()
        replicas = [leader]
        rack = self._first
        skips_leader_rack = True
        while len(replicas) < replication_factor:
            if skips_leader_rack and rack == leader_rack:
                skips_leader_rack = False  # its turn for this partition was the leader
            else:
                broker = self._racks[rack].take(self._partition)
                if broker is not None:
                    replicas.append(broker)
            rack = (rack + 1) % len(self._racks)
        self._partition += 1
        self._first += 1
        return replicas

    def _leader(self) -> tuple[int, int]:
        for step in range(len(self._racks)):
            rack = (self._first + step) % len(self._racks)
            broker = self._racks[rack].unfenced.take(self._partition)
            if broker is not None:
                return broker, rack
        raise InvalidReplicationFactorError(
            "All brokers are currently fenced or have all their log directories cordoned."
        )

    def _shuffle(self) -> None:
        self._random.shuffle(self._racks)
        for rack in self._racks:
            self._random.shuffle(rack.fenced.brokers)
            self._random.shuffle(rack.unfenced.brokers)
