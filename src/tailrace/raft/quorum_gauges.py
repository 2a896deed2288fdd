"""Gauges of the metadata quorum as a node sees it, named as the raft-metrics in Kafka.

    current-leader     node id of the leader that the node knows last, -1 if it knows none
    current-epoch      the newest epoch that the node knows
    high-watermark     end of the committed log, as far as known; moves twice a second if there is a leader
    log-end-offset     end of the node's log
    number-of-voters   of the newest set of voters

Every node has them, whatever its roles. On the leader two more say what `tailrace cluster quorum` shows:

    number-of-observers         nodes that fetch without a vote
    number-of-voters-caught-up  voters that had everything within the last LAG_TOLERANCE_MS, the leader included; Kafka
                                does not have this one
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from tailrace.metrics.gauge import Gauge
from tailrace.raft.description import QuorumDescription

LAG_TOLERANCE_MS: Final = 3_000
"""1.5 × controller.quorum.fetch.timeout.ms: without fetches for so long, a leader of Kafka resigns."""


class ObservedQuorum(Protocol):
    """What the gauges are read from."""

    @property
    def is_leader(self) -> bool: ...

    @property
    def leader_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def voters(self) -> tuple[object, ...]: ...

    def describe(self, now_ms: int) -> QuorumDescription: ...


def quorum_gauges(quorum: ObservedQuorum, now_ms: int) -> Iterator[Gauge]:
    """`now_ms` is the wall clock."""
    values = {
        "current-leader": quorum.leader_id,
        "current-epoch": quorum.epoch,
        "high-watermark": quorum.high_watermark,
        "log-end-offset": quorum.log_end_offset,
        "number-of-voters": len(quorum.voters),
    }
    if quorum.is_leader:
        described = quorum.describe(now_ms)
        values["number-of-observers"] = len(described.observers)
        values["number-of-voters-caught-up"] = sum(
            now_ms - each.last_caught_up_timestamp <= LAG_TOLERANCE_MS for each in described.voters
        )
    for name, value in values.items():
        yield Gauge("server", "raft-metrics", name, value)
