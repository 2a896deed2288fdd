"""Times and limits of the consensus core, with Kafka's defaults (`controller.quorum.*`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tailrace.raft.voters import DYNAMIC_VOTERS, STATIC_VOTERS, QuorumEndpoint, Voter

MAX_FETCH_WAIT_MS: Final = 500
CHECK_QUORUM_FACTOR: Final = 1.5
"""A leader resigns when no majority has fetched for this multiple of the fetch timeout."""
OBSERVER_SESSION_MS: Final = 300_000
CAUGHT_UP_WITHIN_MS: Final = 3_600_000
"""An observer counts as caught up, and may become a voter, if it fetched within this time."""
LEAVE_AFTER_MS: Final = 100
"""A leader that is no longer a voter resigns this long after that is committed."""
MAX_OBSERVERS: Final = 10_000
MAX_PARKED_FETCHES: Final = 10_000
MAX_VOTERS: Final = 1_000
MAX_VOTERS_BYTES: Final = 1 << 20
"""Names, hosts and ids of all voters. They are one batch, and replicas take no batch above 8 MiB."""


@dataclass(frozen=True)
class ConsensusConfig:
    """`static_voters` apply while kraft.version is 0. `bootstrap` is where an observer without voters asks first.

    `listener_name` is the controller listener that every voter must have. `has_fast_election` switches the elections
    by evidence on; see `tailrace.raft.consensus`.
    """

    static_voters: tuple[Voter, ...] = ()
    bootstrap: tuple[QuorumEndpoint, ...] = ()
    listener_name: str = "CONTROLLER"
    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = MAX_FETCH_WAIT_MS
    fetch_snapshot_max_bytes: int = 1 << 20
    has_fast_election: bool = True
    fast_election_step_ms: int = 100
    is_auto_join_enabled: bool = False
    can_become_voter: bool = True
    supported_kraft_versions: tuple[int, int] = field(default=(STATIC_VOTERS, DYNAMIC_VOTERS))

    @property
    def check_quorum_ms(self) -> int:
        return int(self.fetch_timeout_ms * CHECK_QUORUM_FACTOR)

    @property
    def yield_ms(self) -> int:
        """How long a voter leaves the next epoch to a voter with a lower id that it granted a pre-vote."""
        return self.election_timeout_ms // 2

    @property
    def begin_quorum_interval_ms(self) -> int:
        return max(1, self.fetch_timeout_ms // 2)

    @property
    def update_voter_period_ms(self) -> int:
        return self.fetch_timeout_ms
