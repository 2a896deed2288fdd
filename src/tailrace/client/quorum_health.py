"""Whether a metadata quorum is healthy, and what a change of its voters does to it: pure functions over a description.

Times of replicas are compared with that of the leader, which is the present time on the same clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from tailrace.client.quorum_admin import UNKNOWN_TIME_MS, QuorumDescription, QuorumReplica

MAX_FETCH_AGE_MS: Final = 3000
"""1.5 times the default of controller.quorum.fetch.timeout.ms: a leader that no majority fetches from resigns then."""
MAX_CATCH_UP_AGE_MS: Final = 3000
"""An idle log gets a record every 500 ms, and a replica that keeps up has it within one more fetch."""


class ReplicaHealth(Enum):
    LEADER = "leader"
    CAUGHT_UP = "caught up"
    LAGGING = "lagging"
    NOT_FETCHING = "not fetching"
    UNKNOWN = "unknown"
    """The leader reports no times: it is older than Kafka 3.5."""


def health_of(quorum: QuorumDescription, replica: QuorumReplica) -> ReplicaHealth:
    if replica.node_id == quorum.leader_id and replica in quorum.voters:
        return ReplicaHealth.LEADER
    now_ms = leader_time_ms(quorum)
    if now_ms is None:
        return ReplicaHealth.UNKNOWN
    if replica.last_fetch_ms == UNKNOWN_TIME_MS or now_ms - replica.last_fetch_ms > MAX_FETCH_AGE_MS:
        return ReplicaHealth.NOT_FETCHING
    if replica.last_caught_up_ms == UNKNOWN_TIME_MS or now_ms - replica.last_caught_up_ms > MAX_CATCH_UP_AGE_MS:
        return ReplicaHealth.LAGGING
    return ReplicaHealth.CAUGHT_UP


def leader_time_ms(quorum: QuorumDescription) -> int | None:
    """The present time on the clock of the leader; None if it reports no times."""
    for each in quorum.voters:
        if each.node_id == quorum.leader_id and each.last_caught_up_ms != UNKNOWN_TIME_MS:
            return each.last_caught_up_ms
    return None


class Margin(NamedTuple):
    """`caught_up` of `voters` have all committed records, as far as is known."""

    voters: int
    caught_up: int

    @property
    def majority(self) -> int:
        return self.voters // 2 + 1

    @property
    def spare(self) -> int:
        """How many more voters may fail before the quorum has no majority. Negative if it has none."""
        return self.caught_up - self.majority


_COUNTED: Final = (ReplicaHealth.LEADER, ReplicaHealth.CAUGHT_UP, ReplicaHealth.UNKNOWN)


def margin_of(quorum: QuorumDescription) -> Margin:
    return Margin(len(quorum.voters), sum(health_of(quorum, each) in _COUNTED for each in quorum.voters))


def margin_after_adding(quorum: QuorumDescription, observer: QuorumReplica) -> Margin:
    voters, caught_up = margin_of(quorum)
    return Margin(voters + 1, caught_up + (health_of(quorum, observer) in _COUNTED))


def margin_after_removing(quorum: QuorumDescription, voter: QuorumReplica) -> Margin:
    voters, caught_up = margin_of(quorum)
    return Margin(voters - 1, caught_up - (health_of(quorum, voter) in _COUNTED))


def problems_of(quorum: QuorumDescription) -> Sequence[str]:
    """What an administrator should look at, in sentences without a period. Empty if all is well."""
    found = []
    for each in quorum.voters:
        health = health_of(quorum, each)
        if health is ReplicaHealth.NOT_FETCHING:
            found.append(f"voter {each.node_id} does not fetch: start it, or replace it")
        elif health is ReplicaHealth.LAGGING:
            found.append(f"voter {each.node_id} has not caught up: look at its disk and its network")
    margin = margin_of(quorum)
    if margin.spare < 0:
        found.append(f"{margin.caught_up} of {margin.voters} voters have caught up, a majority is {margin.majority}")
    elif margin.spare == 0 and margin.voters > 1:
        found.append("no voter may fail: with one voter less there is no majority")
    return found
