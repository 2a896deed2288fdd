"""One step of a member towards its target assignment.

A partition has one owner at a time: a member first gives up what its target does not have, and says so in a
heartbeat; only then it may reach the target's epoch and be given partitions, and of those only the ones that nobody
owns and nobody still has to give up.

                      gives up nothing, all is free
      STABLE ──────────────────────────────────────────────► STABLE in the new epoch
        │                                                       ▲
        │ has to give up some                                   │ everything was free
        ▼                    gave them up                       │
      UNREVOKED_PARTITIONS ─────────────────────► UNRELEASED_PARTITIONS
      (in its old epoch)                           (in the new epoch, without what others still hold)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from tailrace.coordinator.consumer.member import ConsumerMember, MemberState
from tailrace.coordinator.consumer.partitions import OwnedPartitions, Partitions
from tailrace.model.errors import FencedMemberEpochError

Reported = Mapping[bytes, Collection[int]]
"""What a member says it owns."""


class Target(NamedTuple):
    epoch: int
    partitions: Partitions


def reconciled(
    member: ConsumerMember,
    target: Target,
    subscribed: Collection[bytes],
    reported: Reported | None,
    is_owned: Callable[[bytes, int], bool],
    *,
    subscription_changed: bool,
) -> ConsumerMember:
    """The member after the step; itself when there is none to make.

    `subscribed` are the ids of the topics it may own, `reported` what it says it owns (None: it has not said), and
    `is_owned` says whether any member of the group owns a partition or still has to give it up.
    """
    match member.state:
        case MemberState.STABLE if member.epoch == target.epoch:
            return _narrowed(member, subscribed, reported) if subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS if _holds(reported, member.revoked):
            return _narrowed(member, subscribed, reported) if subscription_changed else member
        case MemberState.UNKNOWN:
            if reported is None or reported:
                raise FencedMemberEpochError(
                    f"member {member.id} is in a state that this release does not know; it has to give up all its "
                    "partitions and to join again"
                )
            return _advanced(member, target.epoch, target, subscribed, reported, is_owned)
        case _:
            return _advanced(member, member.epoch, target, subscribed, reported, is_owned)


def _holds(reported: Reported | None, partitions: OwnedPartitions) -> bool:
    """Whether the member may still own some of them. One that does not say has to be believed to."""
    if reported is None:
        return True
    for topic_id, indexes in reported.items():
        revoked = partitions.get(topic_id)
        if revoked and any(index in revoked for index in indexes):
            return True
    return False


def _narrowed(member: ConsumerMember, subscribed: Collection[bytes], reported: Reported | None) -> ConsumerMember:
    """Without the topics that it is not subscribed to any more: they need no new target to be given up."""
    dropped = {topic_id: owned for topic_id, owned in member.owned.items() if topic_id not in subscribed}
    if not dropped:
        return member
    kept = {topic_id: owned for topic_id, owned in member.owned.items() if topic_id in subscribed}
    revoked = dict(member.revoked)
    for topic_id, owned in dropped.items():
        revoked[topic_id] = {**revoked.get(topic_id, {}), **owned}
    if _holds(reported, revoked):
        return member.moved_to(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    return replace(member, previous_epoch=member.epoch, owned=kept)


def _advanced(
    member: ConsumerMember,
    epoch: int,
    target: Target,
    subscribed: Collection[bytes],
    reported: Reported | None,
    is_owned: Callable[[bytes, int], bool],
) -> ConsumerMember:
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    for topic_id, owned in member.owned.items():
        wanted = target.partitions.get(topic_id, ()) if topic_id in subscribed else ()
        staying = {index: since for index, since in owned.items() if index in wanted}
        leaving = {index: since for index, since in owned.items() if index not in wanted}
        if staying:
            kept[topic_id] = staying
        if leaving:
            revoked[topic_id] = leaving
    if revoked and _holds(reported, revoked):
        return member.moved_to(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)

    waits = False
    for topic_id, indexes in target.partitions.items():
        if topic_id not in subscribed:
            continue
        own = member.owned.get(topic_id, {})
        given_up = member.revoked.get(topic_id, {})
        for index in sorted(indexes):
            if index in own:
                continue
            if is_owned(topic_id, index) and index not in given_up:
                waits = True
            else:
                kept.setdefault(topic_id, {})[index] = target.epoch
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return member.moved_to(target.epoch, state, kept)
