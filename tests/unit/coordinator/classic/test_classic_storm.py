"""Members that do anything at any time, while brokers fail: nobody is forgotten, and nothing is handed out twice."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from suite.seeds import parametrized_seeds
from support.coordinators.classic import GROUP, LATEST, ONE_STEP, TWO_STEPS, Awaited, ClassicRig
from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.state import ClassicState
from tailrace.protocol.messages.join_group import JoinGroupResponse

STEPS = 120
MAX_SIZE = 5
VERSIONS = (ONE_STEP, TWO_STEPS, 5, LATEST)
FIRST_WITH_INSTANCES = 5
PROTOCOLS = ({"range": b"r"}, {"range": b"r2", "sticky": b"s"}, {"sticky": b"s", "range": b"r"}, {"other": b"o"})
PAUSES_MS = (1, 500, 3_000, 6_000, 10_000, 60_000)
LONGEST_MS = 400_000


class Storm:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._rig = ClassicRig(in_sync=(1, 2), group_max_size=str(MAX_SIZE), offsets_commit_timeout_ms="5000")
        self._known: dict[str, int] = {}
        """Member ids that anybody was ever given, with the last generation that they were told."""
        self._asked: list[Awaited] = []
        self._syncs: list[tuple[int, str, Awaited]] = []

    def run(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (6, self._join),
            (6, self._join_again),
            (8, self._sync),
            (4, self._heartbeat),
            (2, self._leave),
            (5, self._rig.pair.replicate),
            (3, lambda: self._rig.pass_time(self._random.choice(PAUSES_MS))),
            (1, self._fail_over),
        ]
        weights = [weight for weight, _ in actions]
        for _ in range(STEPS):
            self._random.choices(actions, weights)[0][1]()
            self._check()
        for _ in range(LONGEST_MS // 20_000):
            self._rig.pair.replicate()
            self._rig.pass_time(20_000)
        self._rig.pair.replicate()
        self._check()
        assert [asked for asked in self._asked if not asked.is_there] == []
        left = self._rig.pair.leader.machine.groups.get(GROUP)
        assert left is None or left.is_empty  # an empty group without offsets is deleted by and by

    # What they do

    def _somebody(self) -> tuple[str, int]:
        for awaited in self._asked:
            for answer in awaited.answers:
                if isinstance(answer, JoinGroupResponse) and answer.member_id and answer.error_code in (0, 79):
                    self._known[answer.member_id] = max(self._known.get(answer.member_id, -1), answer.generation_id)
        if not self._known or self._random.random() < 0.1:
            return "stranger", 1
        member_id = self._random.choice(list(self._known))
        return member_id, self._known[member_id]

    def _join(self) -> None:
        version = self._random.choice(VERSIONS)
        instance_id = self._random.choice((None, None, "i0", "i1")) if version >= FIRST_WITH_INSTANCES else None
        self._ask_to_join("", instance_id, version)

    def _join_again(self) -> None:
        member_id, _ = self._somebody()
        self._ask_to_join(member_id, instance_of(member_id), self._random.choice(VERSIONS))

    def _ask_to_join(self, member_id: str, instance_id: str | None, version: int) -> None:
        protocols = self._random.choices(PROTOCOLS, (5, 5, 5, 1))[0]
        self._asked.append(self._rig.join(member_id, instance_id=instance_id, version=version, protocols=protocols))

    def _sync(self) -> None:
        member_id, generation = self._somebody()
        assignments = {each: self._random.randbytes(4) for each in self._known if self._random.random() < 0.9}
        awaited = self._rig.sync(member_id, generation, assignments, instance_id=instance_of(member_id))
        self._asked.append(awaited)
        self._syncs.append((generation, member_id, awaited))

    def _heartbeat(self) -> None:
        member_id, generation = self._somebody()
        self._asked.append(self._rig.post_heartbeat(member_id, generation, instance_id=instance_of(member_id)))

    def _leave(self) -> None:
        member_id, _ = self._somebody()
        self._asked.append(self._rig.post_leave((member_id, instance_of(member_id))))

    def _fail_over(self) -> None:
        if self._random.random() < 0.7:
            self._rig.pair.replicate()
        self._rig.pair.fail_over()
        self._rig.pair.replicate()

    # What must be

    def _check(self) -> None:
        assert all(len(awaited.answers) <= 1 for awaited in self._asked)
        handed_out: dict[tuple[int, str], bytes] = {}
        for generation, member_id, awaited in self._syncs:
            if awaited.is_there and awaited.code == 0:
                assignment = awaited.answer.assignment
                assert handed_out.setdefault((generation, member_id), assignment) == assignment
        group = self._rig.pair.leader.machine.groups.get(GROUP)
        if isinstance(group, ClassicGroup):
            check_members(group)
            self._check_clocks(group)

    def _check_clocks(self, group: ClassicGroup) -> None:
        """Whatever can hang has a clock that ends it."""
        timers = self._rig.pair.leader.machine.shard.timers
        for member_id, member in group.members.items():
            is_watched = timers.is_scheduled(("classic session", GROUP, member_id))
            assert is_watched or member.lives_without_heartbeat, member_id
        for member_id in group.pending_joins:
            assert timers.is_scheduled(("classic session", GROUP, member_id))
        if group.state is ClassicState.PREPARING:
            assert timers.is_scheduled(("classic join", GROUP))
        if group.state is ClassicState.COMPLETING and group.pending_syncs:
            assert timers.is_scheduled(("classic sync", GROUP))


def instance_of(member_id: str) -> str | None:
    return member_id[:2] if member_id.startswith("i") else None


def check_members(group: ClassicGroup) -> None:
    members = group.members
    assert group.joining_count == sum(member.is_joining for member in members.values()) <= MAX_SIZE
    assert group.static_members == {
        member.instance_id: member_id for member_id, member in members.items() if member.instance_id is not None
    }
    assert group.leader_id in members if members else group.leader_id is None
    assert group.pending_syncs <= set(members)
    assert group.pending_joins.isdisjoint(members)
    if group.state in (ClassicState.COMPLETING, ClassicState.STABLE):
        assert len(members) <= MAX_SIZE + len(group.static_members)
        assert all(group.protocol_name in member.protocols for member in members.values())
    if group.state is ClassicState.EMPTY:
        assert not members


@pytest.mark.spec("CO-04")
@parametrized_seeds()
def test_a_storm(seed: int) -> None:
    Storm(seed).run()
