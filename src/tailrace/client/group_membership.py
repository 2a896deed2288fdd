"""One member of a group under the consumer group protocol (KIP-848): its heartbeats, and what they make it own.

A heartbeat tells the coordinator what has changed on our side, and brings what we may own now. Partitions that are not
in it any more are to be given up first (`owns`), which the next heartbeat then confirms; somebody else gets them after
that. The coordinator says how long the next heartbeat may take; whoever is silent for longer than its session is out.

Lost membership (another epoch is known, or nobody knows us) is told by `MembershipLostError`: all partitions are gone
already, and the next heartbeat joins anew.

One thread, no background: heartbeats are sent when the consumer is polled.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterable, Set
from typing import Final, NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.coordinators import Coordinators
from tailrace.client.errors import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_MEMBER_EPOCH,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
    ClientError,
    ConnectionLostError,
    NoAnswerError,
    refusal,
)
from tailrace.client.group_offsets import MemberId
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)

JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2
"""A static member that will be back: its partitions wait for it."""
NO_CHANGE: Final = -1
NO_PATTERN: Final = ""
HEARTBEAT_TIMEOUT_S: Final = 10.0
EAGER_BEATS: Final = 20
EAGER_PAUSE_S: Final = 0.25


class MembershipLostError(ClientError):
    hint = "poll again: the member then joins anew; what it had not committed may be read by others"


class Subscription(NamedTuple):
    """Topics by name, or all whose whole name matches a pattern (RE2, as the coordinator reads it)."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None


class Membership:
    def __init__(
        self,
        cluster: Cluster,
        coordinators: Coordinators,
        group_id: str,
        *,
        instance_id: str | None,
        rack: str | None,
        assignor: str | None,
        rebalance_timeout_ms: int,
        clock: Callable[[], float],
    ) -> None:
        self.group_id = group_id
        self.subscription = Subscription()
        self.member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.epoch = JOINING
        self.owned: frozenset[TopicPartition] = frozenset()
        self.wanted: frozenset[TopicPartition] = frozenset()
        """What the coordinator wants us to own."""
        self._cluster = cluster
        self._coordinators = coordinators
        self._instance_id = instance_id
        self._rack = rack
        self._assignor = assignor
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._clock = clock
        self._due_s = clock()
        self._told: tuple[Subscription, frozenset[TopicPartition]] | None = None
        """None: the coordinator is to be told everything."""
        self._eager_beats = EAGER_BEATS
        self._ids: dict[bytes, str] = {}

    @property
    def has_joined(self) -> bool:
        return self.epoch > JOINING

    @property
    def due_in_s(self) -> float:
        """How long until the next heartbeat; never negative."""
        if self._told is not None and self._told != (self.subscription, self.owned):
            return 0.0
        return max(self._due_s - self._clock(), 0.0)

    @property
    def member(self) -> MemberId:
        return MemberId(self.member_id, self.epoch, self._instance_id)

    def owns(self, partitions: Set[TopicPartition]) -> None:
        """What we own from now on; the coordinator hears of it in a heartbeat that is due at once."""
        self.owned = frozenset(partitions)

    def heartbeat(self) -> None:
        """One attempt. After an error everything is told anew; NotCoordinatorError and the like pass."""
        try:
            response = self._said(self._request())
        except TailraceError as error:
            self._told = None
            if error.code in (NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE) or isinstance(error, _NOBODY_THERE):
                self._coordinators.forget(self.group_id)
            if error.code in (FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID):
                self.lose()
                raise MembershipLostError(f"{self.member_id} is out of group {self.group_id}: {error}") from error
            raise
        self.epoch = response.member_epoch
        self.member_id = response.member_id or self.member_id
        self._due_s = self._clock() + self._pause_s(response)
        if response.assignment is not None:
            topics = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
            names = self._names_of(topics)
            self.wanted = frozenset(
                TopicPartition(names[topic_id], number)
                for topic_id, numbers in topics.items()
                for number in numbers
                if topic_id in names
            )
            if len(names) < len(topics):
                self._told = None  # a topic that we cannot name yet: have the assignment told again

    def _pause_s(self, response: ConsumerGroupHeartbeatResponse) -> float:
        """As long as the coordinator says; but one who has just joined asks more often for what it is to have."""
        interval_s = response.heartbeat_interval_ms / 1000
        if self.owned or (response.assignment is not None and response.assignment.topic_partitions):
            self._eager_beats = 0
        if self._eager_beats <= 0:
            return interval_s
        self._eager_beats -= 1
        return min(interval_s, EAGER_PAUSE_S)

    def lose(self) -> None:
        """Nothing is ours any more; the next heartbeat joins."""
        self.epoch, self._told, self._due_s = JOINING, None, self._clock()
        self.owned = self.wanted = frozenset()
        self._eager_beats = EAGER_BEATS

    def leave(self) -> None:
        if not self.has_joined:
            return
        self.epoch = LEAVING if self._instance_id is None else LEAVING_FOR_A_WHILE
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, instance_id=self._instance_id
        )
        self._said(request)
        self.lose()

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        tells_all = self._told is None
        subscription, owned = self._told or (None, None)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self._instance_id,
            rack_id=self._rack if tells_all else None,
            rebalance_timeout_ms=self._rebalance_timeout_ms if tells_all else NO_CHANGE,
            server_assignor=self._assignor if tells_all else None,
        )
        if subscription != self.subscription:
            request.subscribed_topic_names = list(self.subscription.topics)
            had_pattern = subscription is not None and subscription.pattern is not None
            request.subscribed_topic_regex = self.subscription.pattern or (NO_PATTERN if had_pattern else None)
        if owned != self.owned:
            request.topic_partitions = self._owned_by_id()
        self._told = (self.subscription, self.owned)
        return request

    def _said(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        timeout_s = min(self._cluster.timeout_s, HEARTBEAT_TIMEOUT_S)
        response: ConsumerGroupHeartbeatResponse = self._cluster.call(
            request, node_id=self._coordinators.of(self.group_id), timeout_s=timeout_s
        )
        if response.error_code != NONE:
            raise refusal(response.error_code, f"group {self.group_id}", response.error_message)
        return response

    def _owned_by_id(self) -> list[RequestTopicPartitions]:
        ids = {name: topic_id for topic_id, name in self._ids.items()}
        topics: dict[str, RequestTopicPartitions] = {}
        for partition in sorted(self.owned):
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = RequestTopicPartitions(topic_id=ids[partition.topic])
            topic.partitions.append(partition.partition)
        return list(topics.values())

    def _names_of(self, ids: Iterable[bytes]) -> dict[bytes, str]:
        """Those that there is a name for: a topic may be gone, or so new that not every broker knows it."""
        wanted = list(ids)
        if any(topic_id not in self._ids for topic_id in wanted):
            for topic in self._cluster.topics():
                self._ids = {known: name for known, name in self._ids.items() if name != topic.name}
                self._ids[topic.id] = topic.name
        return {topic_id: self._ids[topic_id] for topic_id in wanted if topic_id in self._ids}


_NOBODY_THERE: Final = (ConnectionLostError, NoAnswerError)
