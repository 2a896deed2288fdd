"""Groups of both protocols under faults, and what must hold.

no commit is lost             what OffsetFetch shows is the last commit that was accepted
offsets do not wander         it changes only when a commit is accepted that says so
one owner                     no two members act on a partition as theirs at the same time
generations do not go back    of a classic group's joins, of a consumer group's members
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from support.stress.fault_schedule import BrokerSchedule
from support.stress.simulated.group_members import ClassicMember, ConsumerMember, Member
from support.stress.simulated.network import Delivery
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.offset_commit import OffsetCommitRequest
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tailrace.protocol.messages.sync_group import SyncGroupRequest

TOPIC = "orders"
PARTITIONS = 6
NOTHING = -1
GROUPS = {"old": "classic", "new": "consumer"}
KINDS: dict[str, type[Member]] = {"classic": ClassicMember, "consumer": ConsumerMember}


class GroupWitness:
    """What the broker has accepted and must keep."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], int] = {}
        self.possible: dict[tuple[str, int], set[int]] = defaultdict(set)
        """Commits that the broker may have taken before it was killed."""
        self.generations: dict[str, int] = {}
        self.epochs: dict[tuple[str, str], int] = {}
        self.commits = 0

    def delivered(self, delivery: Delivery) -> None:
        pass

    def answered(self, delivery: Delivery, response: Any) -> None:
        request = delivery.request
        if isinstance(request, OffsetCommitRequest):
            self._commit_answered(request, response)
        elif isinstance(request, SyncGroupRequest | HeartbeatRequest) and not response.error_code:
            self._check_generation(request.group_id, request.generation_id)
        elif isinstance(request, ConsumerGroupHeartbeatRequest) and not response.error_code:
            self._beat_answered(request, response)

    def _check_generation(self, group: str, generation: int) -> None:
        """One that was only joined, and never synced, may be forgotten by a broker that is killed."""
        before = self.generations.get(group, -1)
        assert generation >= before, f"generation {generation} of {group} is accepted after {before}"
        self.generations[group] = generation

    def _commit_answered(self, request: OffsetCommitRequest, response: Any) -> None:
        for place, offset in offsets_of(request):
            if not response.topics[0].partitions[0].error_code:
                if GROUPS[request.group_id] == "classic":
                    self._check_generation(request.group_id, request.generation_id_or_member_epoch)
                self.kept[place] = offset
                self.possible.pop(place, None)  # it came after them
                self.commits += 1

    def _beat_answered(self, request: ConsumerGroupHeartbeatRequest, response: Any) -> None:
        member = (request.group_id, request.member_id)
        if response.member_epoch < 0:
            self.epochs.pop(member, None)
            return
        if request.member_epoch > 0:  # a new life begins at 0
            before = self.epochs.get(member, 0)
            assert response.member_epoch >= before, f"epoch {response.member_epoch} of {member} after {before}"
        self.epochs[member] = response.member_epoch

    def unanswered(self, delivery: Delivery) -> None:
        if isinstance(delivery.request, OffsetCommitRequest):
            for place, offset in offsets_of(delivery.request):
                self.possible[place].add(offset)

    def check_offset(self, place: tuple[str, int], found: int) -> None:
        kept = self.kept.get(place, NOTHING)
        may_be = self.possible.get(place, set()) | {kept}
        assert found in may_be, f"{place} has offset {found}; the last commit that was accepted says {kept}"
        if found != kept:  # one that was under way when the broker was killed: now it is known
            self.kept[place] = found
        self.possible.pop(place, None)


def offsets_of(request: OffsetCommitRequest) -> list[tuple[tuple[str, int], int]]:
    return [
        ((request.group_id, part.partition_index), part.committed_offset)
        for topic in request.topics
        for part in topic.partitions
    ]


class GroupStress(BrokerSchedule):
    clients: list[Member]
    pauses_ms = (0, 50, 500, 3_000, 10_000)
    max_active = 3

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.witness = GroupWitness()
        delay_ms = self.random.choice(("0", "3000"))
        settings = {"offsets_topic_num_partitions": "3", "group_initial_rebalance_delay_ms": delay_ms}
        self.connect(self.witness, TOPIC, PARTITIONS, **settings)
        self.net.ask(FindCoordinatorRequest(key="any"), 3)
        self.clients = []
        self._topic_id = self.net.broker.node.image.topics[TOPIC].id
        self._names = 0
        for group, kind in GROUPS.items():
            for _ in range(self.random.randrange(2, 5)):
                self._add(group, kind)

    def _add(self, group: str, kind: str) -> None:
        self._names += 1
        name = f"{group}-{self._names}"
        self.clients.append(KINDS[kind](name, group, TOPIC, self._topic_id, self.net))

    def check_step(self) -> None:
        self.check_owners()
        if self.random.randrange(10) == 0:
            self.check()

    def replace_client(self) -> None:
        silent = [member for member in self.clients if member.is_silent]
        if silent:
            gone = self.random.choice(silent)
            self.clients.remove(gone)
            self._add(gone.group, "classic" if isinstance(gone, ClassicMember) else "consumer")

    def check_owners(self) -> None:
        owners: dict[tuple[str, int], Member] = {}
        for member in self.clients:
            for partition in member.believed():
                other = owners.setdefault((member.group, partition), member)
                assert other is member, f"partition {partition} of {member.group} is {other}'s and {member}'s"

    def check(self) -> None:
        for group in GROUPS:
            topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(range(PARTITIONS)))]
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
            (answer,) = self.net.ask(request, 8).groups
            assert answer.error_code == 0, answer
            for part in answer.topics[0].partitions:
                self.witness.check_offset((group, part.partition_index), part.committed_offset)

    def settle(self) -> None:
        """Until every partition of both groups has an owner."""
        self.check()  # before new commits hide what the faults have done
        self.net.is_reliable = True
        for group, kind in GROUPS.items():
            if all(member.is_silent for member in self.clients if member.group == group):
                self._add(group, kind)
        for _ in range(400):
            self.net.pass_time(1_000)
            for member in self.clients:
                if member.is_silent:
                    continue
                member.act()
            self.net.deliver()
            self.check_owners()
            if all(self._is_whole(group) for group in GROUPS):
                return
        raise AssertionError(f"not every partition has an owner: {[(str(m), m.believed()) for m in self.clients]}")

    def _is_whole(self, group: str) -> bool:
        owned = [part for member in self.clients if member.group == group for part in member.believed()]
        return sorted(owned) == list(range(PARTITIONS))
