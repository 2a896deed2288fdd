"""The uniform assignor for members with different subscriptions.

Everybody keeps what it still is subscribed to. What is free is given out topic by topic, those first that leave the
least choice, always to the subscriber that owns least. Then, topic by topic again, partitions move from the
subscriber that owns most to the one that owns least, until they differ by one at most; rounds go on until one changes
nothing. With subscriptions that overlap that takes some rounds, each about halving what is uneven, so that they are
limited.
"""

from __future__ import annotations

import heapq
from typing import Final

from tailrace.coordinator.consumer.assignors.spec import GroupSpec
from tailrace.coordinator.consumer.partitions import Partitions

MAX_ROUNDS: Final = 16
UNOWNED: Final = -1


def assign_mixed(group: GroupSpec) -> dict[str, Partitions]:
    return _Balance(group).assignment()


class _Balance:
    """Members are numbers here, in the order of the group."""

    def __init__(self, group: GroupSpec) -> None:
        self._member_ids = list(group.members)
        self._loads = [0] * len(self._member_ids)
        self._changes = 0
        """How often a load has changed."""
        subscribers: dict[bytes, list[int]] = {}
        for number, member in enumerate(group.members.values()):
            for topic_id in member.topics:
                subscribers.setdefault(topic_id, []).append(number)
        counts = group.partition_counts
        self._topics = sorted(
            subscribers,
            key=lambda topic_id: (
                -counts[topic_id] / len(subscribers[topic_id]), len(subscribers[topic_id]), topic_id
            ),
        )  # fmt: skip
        alike: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._subscribers: dict[bytes, tuple[int, ...]] = {}
        """One tuple for all topics with the same subscribers."""
        for topic_id, numbers in subscribers.items():
            key = tuple(numbers)
            self._subscribers[topic_id] = alike.setdefault(key, key)
        self._owners = {topic_id: [UNOWNED] * counts[topic_id] for topic_id in self._topics}
        self._keep_old(group)

    def _keep_old(self, group: GroupSpec) -> None:
        for number, member in enumerate(group.members.values()):
            for topic_id, indexes in member.assigned.items():
                if topic_id not in member.topics:
                    continue
                owners = self._owners[topic_id]
                for index in indexes:
                    if index < len(owners) and owners[index] == UNOWNED:
                        owners[index] = number
                        self._loads[number] += 1

    def assignment(self) -> dict[str, Partitions]:
        self._give_out()
        self._even_out()
        owned: list[dict[bytes, set[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for index, number in enumerate(owners):
                owned[number].setdefault(topic_id, set()).add(index)
        return {
            member_id: {topic_id: frozenset(indexes) for topic_id, indexes in own.items()}
            for member_id, own in zip(self._member_ids, owned, strict=True)
        }

    def _give_out(self) -> None:
        for topic_id in self._topics:
            owners = self._owners[topic_id]
            if UNOWNED not in owners:
                continue
            least = self._by_load(topic_id)
            for index, owner in enumerate(owners):
                if owner == UNOWNED:
                    load, number = least[0]
                    owners[index] = number
                    self._loads[number] = load + 1
                    heapq.heapreplace(least, (load + 1, number))

    def _even_out(self) -> None:
        movable = [topic_id for topic_id in self._topics if len(self._subscribers[topic_id]) > 1]
        even: dict[int, int] = {}
        """By the subscribers' tuple: at which count of changes their loads were found to be even."""
        for round_number in range(MAX_ROUNDS):
            before = self._changes
            for topic_id in movable:
                subscribers = self._subscribers[topic_id]
                if even.get(id(subscribers)) == self._changes:
                    continue
                if self._even_out_topic(topic_id, is_first=round_number == 0):
                    even[id(subscribers)] = self._changes
            if self._changes == before and round_number > 0:
                return

    def _even_out_topic(self, topic_id: bytes, *, is_first: bool) -> bool:
        """Whether the loads of its subscribers are even now: this topic's partitions may not suffice."""
        loads = self._loads
        subscribers = self._subscribers[topic_id]
        least = self._by_load(topic_id)
        if max(loads[number] for number in subscribers) - least[0][0] <= 1:
            return True
        # At first nobody gives up more than what is above the mean: others have more, of topics that come later.
        enough = -(-sum(loads[number] for number in subscribers) // len(subscribers)) if is_first else 0
        owners = self._owners[topic_id]
        owned: dict[int, list[int]] = {}
        for index, number in enumerate(owners):
            owned.setdefault(number, []).append(index)
        most = [(-loads[number], number) for number in owned]
        heapq.heapify(most)
        while most:
            giver_load, giver = -most[0][0], most[0][1]
            taker_load, taker = least[0]
            if loads[taker] != taker_load:
                heapq.heapreplace(least, (loads[taker], taker))  # it has given some since
                continue
            if giver_load - taker_load <= 1 or giver_load <= enough:
                break
            owners[owned[giver].pop()] = taker
            self._changes += 1
            loads[giver] -= 1
            loads[taker] += 1
            heapq.heapreplace(least, (taker_load + 1, taker))
            if owned[giver]:
                heapq.heapreplace(most, (-loads[giver], giver))
            else:
                heapq.heappop(most)
        return False

    def _by_load(self, topic_id: bytes) -> list[tuple[int, int]]:
        heap = [(self._loads[number], number) for number in self._subscribers[topic_id]]
        heapq.heapify(heap)
        return heap
