"""Members that leave a consumer group, or are taken out of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from tailrace.coordinator.classic.group import ClassicGroup
from tailrace.coordinator.classic.rebalance import Rebalances
from tailrace.coordinator.consumer import records
from tailrace.coordinator.consumer.balancing import Balancing
from tailrace.coordinator.consumer.group import ConsumerGroup
from tailrace.coordinator.consumer.member import ConsumerMember
from tailrace.coordinator.consumer.migration import Migration
from tailrace.coordinator.consumer.timeouts import Timeouts
from tailrace.coordinator.outcome import NOTHING, CoordinatorRecord, Outcome
from tailrace.coordinator.shard import Shard
from tailrace.model.errors import GroupIdNotFoundError, TailraceError

_log = logging.getLogger(__name__)


class Departures:
    def __init__(
        self, shard: Shard, balancing: Balancing, migration: Migration, rebalances: Rebalances, timeouts: Timeouts
    ) -> None:
        """`rebalances` are those of the classic groups, which a group may become."""
        self._shard = shard
        self._balancing = balancing
        self._migration = migration
        self._rebalances = rebalances
        self._timeouts = timeouts

    def remove(self, group: ConsumerGroup, members: Sequence[ConsumerMember], response: Any = None) -> Outcome:
        """What they own is free at once: whoever is out has lost it, whether it knows or not."""
        if not members:
            return Outcome(response=response)
        written: list[CoordinatorRecord] = []
        if self._migration.can_leave(group, members):
            reason = f"{', '.join(member.id for member in members)} has left, the last of the consumer protocol"
            try:
                classic = self._migration.downgrade(group, members, None, written)
                return Outcome(written, response, self.downgraded(group, classic, reason))
            except GroupIdNotFoundError as error:
                _log.warning("group %s stays a consumer group: %s", group.group_id, error)
        for member in members:
            written += records.member_tombstones(group.group_id, member.id)
        epoch = self._balancing.without(group, members, written)
        written.append(epoch)

        def then(error: TailraceError | None) -> None:
            if error is None:
                for member in members:
                    if member.id not in group.members:
                        self._timeouts.forget(group.group_id, member.id)

        return Outcome(written, response, then)

    def downgraded(
        self, group: ConsumerGroup, classic: ClassicGroup, reason: str | None
    ) -> Callable[[TailraceError | None], None]:
        """What follows when the group is a classic one; with a reason, it is balanced anew."""
        member_ids = tuple(group.members)

        def then(error: TailraceError | None) -> None:
            if error is not None and self._migration.stays(classic):
                return
            self._migration.forget(group.group_id, member_ids)
            if reason is not None:
                self._shard.submit(
                    "classic-group-rebalance",
                    lambda: self._rebalances.begin(classic, reason) if classic.can_rebalance else NOTHING,
                )

        return then
