"""Share groups of one shard: their commands and their replay.

A heartbeat says what a member is subscribed to and answers with what it may read. Partitions may be read once they have
a state at the share coordinator: the heartbeat that finds partitions without one gives an `Initialization`, which the
broker carries out and reports back (`initialized`, `not_initialized`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.coordinator.classic.caller import Caller
from tailrace.coordinator.consumer.partitions import NO_PARTITIONS, Partitions
from tailrace.coordinator.groups.group import Group
from tailrace.coordinator.metadata_hash import MetadataHashes
from tailrace.coordinator.outcome import CoordinatorRecord, Outcome
from tailrace.coordinator.share_groups import records
from tailrace.coordinator.share_groups.assignor import MemberNeeds, assign
from tailrace.coordinator.share_groups.describing import described
from tailrace.coordinator.share_groups.group import ShareGroup
from tailrace.coordinator.share_groups.member import JOINING_EPOCH, LEAVING_EPOCH, ShareMember
from tailrace.coordinator.share_groups.replay import ShareReplay
from tailrace.coordinator.share_groups.topics import SharedTopic
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    RefusedRequestError,
    TailraceError,
)
from tailrace.protocol.message import Record
from tailrace.protocol.messages.share_group_describe import DescribedGroup
from tailrace.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from tailrace.coordinator.groups.shard import GroupShard, Replayer

_log = logging.getLogger(__name__)

_SESSION: Final = "share session"
UNREAD: Final = -1
LONGEST_MEMBER_ID: Final = 36
"""A UUID, written out."""


class Initialization(NamedTuple):
    """States to be made at the share coordinator; a start of −1 is found when the group begins to read."""

    group_id: str
    state_epoch: int
    starts: Mapping[bytes, Mapping[int, int]]
    """By topic id and partition."""


class HeartbeatAnswer(NamedTuple):
    response: ShareGroupHeartbeatResponse
    initialization: Initialization | None


class ShareGroups:
    def __init__(self, groups: GroupShard) -> None:
        self._groups = groups
        self.shard = groups.shard
        self._hashes = MetadataHashes(lambda: self.shard.image)
        self._replay = ShareReplay(groups)

    # The manager of a shard

    def replayers(self) -> Mapping[type[Record], Replayer]:
        return self._replay.replayers()

    def loaded(self) -> None:
        for group in self._all():
            for member_id in group.members:
                self._expect(group.group_id, member_id)

    def unloaded(self, error: TailraceError) -> None:
        """Nobody waits here."""

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        changed = delta.touched_topics()
        if not changed:
            return
        for topic in changed:
            self._hashes.forget(topic)
        for group in self._all():
            if any(group.is_subscribed_to(topic) for topic in changed):
                group.make_stale()
        gone: set[bytes] = {topic.id for topic in delta.deleted_topics}
        for group in self._all() if gone else ():
            if group.topics.forget(gone) != group.topics:
                self.shard.submit("share-topics-deleted", partial(self._forget_topics, group.group_id, gone))

    def _forget_topics(self, group_id: str, gone: set[bytes]) -> Outcome:
        """Of one group: a batch for all of them could be larger than the log takes."""
        group = self.find(group_id)
        return Outcome([records.topics_record(group_id, group.topics.forget(gone))])

    def _all(self) -> list[ShareGroup]:
        return [group for group in self._groups.groups.values() if isinstance(group, ShareGroup)]

    @property
    def shard_groups(self) -> Mapping[str, Group]:
        """Of all kinds."""
        return self._groups.groups

    def find(self, group_id: str) -> ShareGroup:
        group = self._groups.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"there is no group {group_id}")
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFoundError(f"group {group_id} is of another kind than share")
        return group

    def find_or_new(self, group_id: str) -> ShareGroup:
        """A new one is nobody's until a record tells of it."""
        return self.find(group_id) if group_id in self._groups.groups else ShareGroup(group_id)

    # Heartbeats

    def heartbeat(self, request: ShareGroupHeartbeatRequest, caller: Caller) -> Outcome:
        """Gives a HeartbeatAnswer."""
        check_heartbeat(request)
        if request.member_epoch == LEAVING_EPOCH:
            return self._leave(request)
        is_joining = request.member_epoch == JOINING_EPOCH
        if not is_joining and request.group_id not in self._groups.groups:
            raise GroupIdNotFoundError(f"there is no group {request.group_id}")
        group = self.find_or_new(request.group_id)
        old = group.members.get(request.member_id)
        if old is None and len(group.members) >= self.shard.config.group_share_max_size:
            raise GroupMaxSizeReachedError(
                f"group {group.group_id} has {len(group.members)} members, as many as group.share.max.size allows"
            )
        if old is None:
            old = ShareMember(request.member_id) if is_joining else group.member(request.member_id)
        _check_epoch(old, request.member_epoch)
        return self._take_in(group, old, _updated(old, request, caller), request)

    def _take_in(
        self, group: ShareGroup, old: ShareMember, member: ShareMember, request: ShareGroupHeartbeatRequest
    ) -> Outcome:
        group_id, now_ms = group.group_id, self.shard.clock.now_ms()
        known = group.members.get(member.id)
        news: list[CoordinatorRecord] = []
        if known is None or member != old:
            news.append(records.member_record(group_id, member))
        needs_epoch = member.topics != old.topics
        epoch = group.epoch
        if group.assignment_epoch >= epoch:
            needs_epoch |= bool(group.members) and group.lacks_partitions(self.shard.image)
        topics = group.subscribed_topics(known, member)
        if needs_epoch or group.is_stale:
            metadata_hash = self._hashes.of(topics)
            needs_epoch |= metadata_hash != group.metadata_hash
            if needs_epoch:
                epoch += 1
                news.append(records.epoch_record(group_id, epoch, metadata_hash))
            group.keep_fresh(epoch)
        target_epoch, target = self._target(group, member, epoch, now_ms, news)
        after = _reconciled(member, target_epoch, target, needs_epoch, self.shard.image)
        if after != member:
            news.append(records.assignment_record(group_id, after))
        self._expect(group_id, member.id)
        response = ShareGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self.shard.group_settings(group_id).share_heartbeat_interval_ms,
        )
        is_full = request.member_epoch == JOINING_EPOCH or request.subscribed_topic_names is not None
        if is_full or after.assigned != old.assigned:
            response.assignment = _assignment(after.assigned)
        initialization = self._initialization(group, topics, epoch, now_ms, news)
        return Outcome(news, HeartbeatAnswer(response, initialization))

    def _target(
        self, group: ShareGroup, member: ShareMember, epoch: int, now_ms: int, news: list[CoordinatorRecord]
    ) -> tuple[int, Partitions]:
        """The member's target and its epoch, made anew where the group has moved on and enough time has passed."""
        interval_ms = self.shard.group_settings(group.group_id).share_assignment_interval_ms
        made_ms = group.assignment_timestamp_ms
        if group.assignment_epoch >= epoch or (made_ms and interval_ms and now_ms < made_ms + interval_ms):
            return group.assignment_epoch, group.targets.get(member.id, NO_PARTITIONS)
        image = self.shard.image
        members = {**group.members, member.id: member}
        needs = {
            each.id: MemberNeeds(_topic_ids(each, image), group.targets.get(each.id, NO_PARTITIONS))
            for each in members.values()
        }
        targets = assign(needs, group.topics.assignable())
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                news.append(records.target_record(group.group_id, member_id, target))
        news.append(records.target_epoch_record(group.group_id, epoch, now_ms))
        return epoch, targets[member.id]

    def _initialization(
        self, group: ShareGroup, topics: set[str], epoch: int, now_ms: int, news: list[CoordinatorRecord]
    ) -> Initialization | None:
        retry_ms = self.shard.config.group_share_initialize_retry_interval_ms
        missing = group.topics.missing(topics, self.shard.image, now_ms, retry_ms)
        if not missing:
            return None
        news.append(records.topics_record(group.group_id, group.topics.initialize(missing)))
        return Initialization(group.group_id, epoch, _unread(missing))

    def _leave(self, request: ShareGroupHeartbeatRequest) -> Outcome:
        group = self.find(request.group_id)
        member = group.member(request.member_id)
        _log.info("member %s leaves share group %s", member.id, group.group_id)
        response = ShareGroupHeartbeatResponse(member_id=member.id, member_epoch=request.member_epoch)

        def settled(error: TailraceError | None) -> None:
            if error is not None:
                self._expect(group.group_id, member.id)  # it has not left

        return Outcome(self._without(group, member), HeartbeatAnswer(response, None), settled)

    def _without(self, group: ShareGroup, member: ShareMember) -> list[CoordinatorRecord]:
        self.shard.timers.cancel((_SESSION, group.group_id, member.id))
        metadata_hash = self._hashes.of(group.subscribed_topics(member, None))
        return [
            *records.member_tombstones(group.group_id, member.id),
            records.epoch_record(group.group_id, group.epoch + 1, metadata_hash),
        ]

    def _expect(self, group_id: str, member_id: str) -> None:
        """The next heartbeat."""
        timeout_ms = self.shard.group_settings(group_id).share_session_timeout_ms
        self.shard.timers.schedule((_SESSION, group_id, member_id), timeout_ms, lambda: self._late(group_id, member_id))

    def _late(self, group_id: str, member_id: str) -> Outcome:
        group = self._groups.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ShareGroup) else None
        if member is None or not isinstance(group, ShareGroup):
            return Outcome()
        _log.info("member %s of share group %s has sent no heartbeat: it is taken out", member_id, group_id)
        return Outcome(self._without(group, member))

    # What the share coordinator has answered

    def initialized(self, group_id: str, partitions: Partitions) -> Outcome:
        group = self.find(group_id)
        topics = group.topics.initialization_ended(partitions, self.shard.image, self.shard.clock.now_ms())
        return Outcome([records.topics_record(group_id, topics)], True)

    def not_initialized(self, group_id: str, partitions: Partitions) -> Outcome:
        group = self.find(group_id)
        topics = group.topics.initialization_failed(partitions)
        return Outcome([records.topics_record(group_id, topics)] if topics != group.topics else (), True)

    # Describing

    def describe(self, group_id: str) -> DescribedGroup:
        return described(self.find(group_id), self.shard.image)


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Raise what is answered to a request that no group could accept."""
    if not request.member_id.strip():
        raise RefusedRequestError("the member id is empty")
    if len(request.member_id) > LONGEST_MEMBER_ID:
        raise RefusedRequestError(f"a member id has at most {LONGEST_MEMBER_ID} characters")
    if not request.group_id.strip():
        raise RefusedRequestError("the group id is empty")
    if request.rack_id is not None and not request.rack_id.strip():
        raise RefusedRequestError("the rack is empty: null says that there is none")
    if request.member_epoch == JOINING_EPOCH:
        if not request.subscribed_topic_names:
            raise RefusedRequestError("a member that joins must name its topics")
    elif request.member_epoch < LEAVING_EPOCH:
        raise RefusedRequestError(f"there is no member epoch {request.member_epoch}")


def _check_epoch(member: ShareMember, epoch: int) -> None:
    if epoch == JOINING_EPOCH or epoch in (member.epoch, member.previous_epoch):
        return
    raise FencedMemberEpochError(
        f"member {member.id} is in epoch {member.epoch} and was in {member.previous_epoch}, not {epoch}"
    )


def _updated(member: ShareMember, request: ShareGroupHeartbeatRequest, caller: Caller) -> ShareMember:
    topics = request.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topics=member.topics if topics is None else frozenset(topics),
    )


def _reconciled(
    member: ShareMember, epoch: int, target: Partitions, has_changed: bool, image: MetadataImage
) -> ShareMember:
    """It reads what its target says at once; but nothing that it is not subscribed to."""
    if member.epoch == epoch and not has_changed:
        return member
    wanted = _topic_ids(member, image)
    assigned = {topic_id: indexes for topic_id, indexes in target.items() if topic_id in wanted}
    if member.epoch == epoch:
        return replace(member, assigned=assigned)
    return replace(member, epoch=epoch, previous_epoch=member.epoch, assigned=assigned)


def _topic_ids(member: ShareMember, image: MetadataImage) -> frozenset[bytes]:
    return frozenset(image.topics[name].id for name in member.topics if name in image.topics)


def _unread(topics: Mapping[bytes, SharedTopic]) -> dict[bytes, dict[int, int]]:
    return {topic_id: dict.fromkeys(sorted(each.partitions), UNREAD) for topic_id, each in topics.items()}


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in sorted(partitions.items())
        ]
    )
