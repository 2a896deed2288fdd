"""Members of groups, as simple as they can be: they join, own partitions, commit, leave, and some fall silent.

A member owns a partition from when it hears so until it gives it up, is told that it is none of the group, or has not
heard from the coordinator for as long as a session lasts.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterable
from typing import Any

from support.stress.simulated.network import FaultyNetwork
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from tailrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS = 45_000
REBALANCE_MS = 600_000  # so that who is too slow to give something up is gone for its session before
ANSWER_MS = 70_000  # a join may wait for all others
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79
NOT_A_MEMBER = (22, 25, 82, 110, 111)
TRY_AGAIN = (14, 15, 16)
STALE_EPOCH = 113


class Member:
    """What both protocols have."""

    def __init__(self, name: str, group: str, topic: str, topic_id: bytes, net: FaultyNetwork) -> None:
        self.name = name
        self.group = group
        self.topic = topic
        self.topic_id = topic_id
        self.net = net
        self.random: random.Random = net.random
        self.member_id = ""
        self.epoch = -1
        self.owned: frozenset[int] = frozenset()
        self.is_silent = False
        self._heard_ms = -SESSION_MS
        self._asked_ms: int | None = None
        self._questions = 0
        self._next_commit = 0

    def __str__(self) -> str:
        return self.name

    def believed(self) -> frozenset[int]:
        """What it acts on as its own."""
        return self.owned if self.net.now_ms - self._heard_ms < SESSION_MS else frozenset()

    def act(self) -> None:
        if self.is_silent:
            return
        if self._asked_ms is not None:
            if self.net.now_ms - self._asked_ms < self.patience_ms:
                return
            self._asked_ms = None
            self.unheard()
        self.next_step()

    @property
    def patience_ms(self) -> int:
        return 5_000

    def unheard(self) -> None:
        """No answer has come."""

    def next_step(self) -> None:
        raise NotImplementedError

    def ask(self, request: Any, version: int, heard: Callable[[Any], None], *, is_exact: bool = False) -> None:
        """One question at a time: an answer to an earlier one is not listened to."""
        self._questions += 1
        number, asked_ms = self._questions, self.net.now_ms
        self._asked_ms = asked_ms

        def answered(response: Any) -> None:
            if number == self._questions and self._asked_ms is not None:
                self._asked_ms = None
                self._heard(asked_ms, response, heard)

        self.net.post(self, request, version, answered, is_exact=is_exact)

    def _heard(self, asked_ms: int, response: Any, heard: Callable[[Any], None]) -> None:
        """Only a heartbeat shows for sure that a session begins anew: the rest is answered during a rebalance too, or
        again from what is known."""
        heard(response)
        if isinstance(response, HeartbeatResponse | ConsumerGroupHeartbeatResponse) and not response.error_code:
            self._heard_ms = max(self._heard_ms, asked_ms)

    def give_up(self) -> None:
        self.owned = frozenset()

    def commit(self) -> None:
        if not self.owned:
            return
        chosen = self.random.choice(sorted(self.owned))
        self._next_commit += self.random.choice((1, 1, 1, 7, -5))  # some go back on purpose
        offset = max(self._next_commit, 0)
        part = OffsetCommitRequestPartition(
            partition_index=chosen, committed_offset=offset, committed_metadata=self.name
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=[part])],
        )
        self.ask(request, 9, self._committed)

    def _committed(self, response: Any) -> None:
        code = response.topics[0].partitions[0].error_code
        if code in NOT_A_MEMBER:
            self.out_of_the_group()

    def out_of_the_group(self) -> None:
        raise NotImplementedError


class ClassicMember(Member):
    """JoinGroup, SyncGroup, Heartbeat. The leader deals partitions out like cards."""

    partitions: Iterable[int] = range(6)

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._is_joined = False
        self._to_sync: SyncGroupRequest | None = None

    @property
    def patience_ms(self) -> int:
        return ANSWER_MS if not self._is_joined or self._to_sync is not None else 5_000

    def unheard(self) -> None:
        if self._to_sync is not None or not self._is_joined:
            self._rejoin()

    def _rejoin(self) -> None:
        self.give_up()
        self._is_joined, self._to_sync = False, None

    def out_of_the_group(self) -> None:
        self._rejoin()
        self.member_id = ""

    def next_step(self) -> None:
        if not self._is_joined:
            self._join()
        elif self._to_sync is not None:
            self.ask(self._to_sync, 5, self._synced)
        else:
            choice = self.random.randrange(94 if self.net.is_reliable else 100)
            if choice < 60:
                request = HeartbeatRequest(group_id=self.group, generation_id=self.epoch, member_id=self.member_id)
                self.ask(request, 4, self._beaten)
            elif choice < 94:
                self.commit()
            elif choice < 96:
                self._leave()
            elif choice < 97:
                self.is_silent = True
                self.net.note(f"{self} falls silent")

    def _join(self) -> None:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="cards", metadata=b"")],
        )
        self.ask(request, 9, self._joined)

    def _joined(self, response: Any) -> None:
        code = response.error_code
        if code == MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif code in NOT_A_MEMBER:
            self.out_of_the_group()
        elif not code:
            self.member_id, self.epoch, self._is_joined = response.member_id, response.generation_id, True
            hands = self._dealt([each.member_id for each in response.members])
            self._to_sync = SyncGroupRequest(
                group_id=self.group,
                generation_id=self.epoch,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="cards",
                assignments=[SyncGroupRequestAssignment(member_id=who, assignment=hand) for who, hand in hands.items()],
            )

    def _dealt(self, members: list[str]) -> dict[str, bytes]:
        return {who: bytes(list(self.partitions)[place :: len(members)]) for place, who in enumerate(sorted(members))}

    def _synced(self, response: Any) -> None:
        code = response.error_code
        if code in NOT_A_MEMBER:
            self.out_of_the_group()
        elif code == REBALANCE_IN_PROGRESS:
            self._rejoin()
        elif not code:
            self._to_sync = None
            self.owned = frozenset(response.assignment)

    def _beaten(self, response: Any) -> None:
        if response.error_code in NOT_A_MEMBER:
            self.out_of_the_group()
        elif response.error_code == REBALANCE_IN_PROGRESS:
            self._rejoin()

    def _leave(self) -> None:
        """And come back as somebody else."""
        identity = MemberIdentity(member_id=self.member_id)
        self.give_up()
        self.ask(LeaveGroupRequest(group_id=self.group, members=[identity]), 5, lambda _: None)
        self._asked_ms = None
        self.out_of_the_group()


class ConsumerMember(Member):
    """ConsumerGroupHeartbeat. It takes what it is given at once, and gives up what it is not."""

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._new_identity()

    def _new_identity(self) -> None:
        self.member_id = base64.urlsafe_b64encode(self.random.randbytes(16)).rstrip(b"=").decode()
        self.epoch = 0
        self._must_say_all = True

    def unheard(self) -> None:
        self._must_say_all = True

    def out_of_the_group(self) -> None:
        self.give_up()
        self.epoch = 0
        self._must_say_all = True

    def next_step(self) -> None:
        choice = self.random.randrange(95 if self.net.is_reliable else 100)
        if self.epoch == 0 or choice < 65:
            self._beat()
        elif choice < 95:
            self.commit()
        elif choice < 97:
            self._leave()
        elif choice < 98:
            self.is_silent = True
            self.net.note(f"{self} falls silent")

    def _beat(self) -> None:
        says_all = self._must_say_all or self.epoch == 0
        held = [RequestTopicPartitions(topic_id=self.topic_id, partitions=sorted(self.owned))] if self.owned else []
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS if says_all else -1,
            subscribed_topic_names=[self.topic] if says_all else None,
            topic_partitions=held,
        )
        # The protocol stands on heartbeats coming in order, and once: the coordinator takes one of the epoch before for
        # the repetition of one whose answer was lost, and believes what it says of what the member holds.
        self.ask(request, 1, self._beaten, is_exact=True)

    def _beaten(self, response: Any) -> None:
        code = response.error_code
        if code in NOT_A_MEMBER:
            self.out_of_the_group()
        elif not code:
            self._must_say_all = False
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.owned = frozenset(
                    part for each in response.assignment.topic_partitions for part in each.partitions
                )

    def _committed(self, response: Any) -> None:
        if response.topics[0].partitions[0].error_code != STALE_EPOCH:
            super()._committed(response)

    def _leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=-1)
        self.give_up()
        self.ask(request, 1, lambda _: None, is_exact=True)
        self._asked_ms = None
        self._new_identity()
