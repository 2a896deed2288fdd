"""Settings of single groups, whose defaults are the broker's, and of subscriptions to the metrics of clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.config.table import MAX_INT, Effect, boolean, choice, key, text_list, whole

LATER: Final = Effect.LATER


def _name_of_reset(text: str) -> str:
    if text not in ("latest", "earliest") and not text.startswith("by_duration:"):
        raise ValueError("must be latest, earliest or by_duration:DURATION")
    return text


@dataclass(frozen=True)
class GroupOverrides:
    consumer_assignment_interval_ms: int = key(
        1_000, whole(0, MAX_INT), "least time between two assignments", effect=LATER
    )
    consumer_heartbeat_interval_ms: int = key(
        5_000, whole(1, MAX_INT), "time between heartbeats of a member", effect=LATER
    )
    consumer_session_timeout_ms: int = key(
        45_000, whole(1, MAX_INT), "a member is gone after so long without a heartbeat", effect=LATER
    )
    share_assignment_interval_ms: int = key(
        1_000, whole(0, MAX_INT), "least time between two assignments", effect=LATER
    )
    share_auto_offset_reset: str = key("latest", _name_of_reset, "where a share group begins", effect=LATER)
    share_delivery_count_limit: int = key(
        5, whole(1, MAX_INT), "how often a record is delivered before it is given up", effect=LATER
    )
    share_heartbeat_interval_ms: int = key(
        5_000, whole(1, MAX_INT), "time between heartbeats of a member", effect=LATER
    )
    share_isolation_level: str = key(
        "read_uncommitted",
        choice("read_committed", "read_uncommitted"),
        "whether records of open transactions are seen",
        effect=LATER,
    )
    share_partition_max_record_locks: int = key(
        2_000, whole(100, MAX_INT), "records of a partition that the group may hold at a time", effect=LATER
    )
    share_record_lock_duration_ms: int = key(
        30_000, whole(1_000, MAX_INT), "how long a member holds a record", effect=LATER
    )
    share_renew_acknowledge_enable: bool = key(True, boolean, "let a member hold a record for longer", effect=LATER)
    share_session_timeout_ms: int = key(
        45_000, whole(1, MAX_INT), "a member is gone after so long without a heartbeat", effect=LATER
    )
    streams_assignment_interval_ms: int = key(
        1_000, whole(0, MAX_INT), "least time between two assignments", effect=LATER
    )
    streams_heartbeat_interval_ms: int = key(
        5_000, whole(1, MAX_INT), "time between heartbeats of a member", effect=LATER
    )
    streams_initial_rebalance_delay_ms: int = key(
        3_000, whole(0, MAX_INT), "wait for more members before a new group is assigned tasks", effect=LATER
    )
    streams_num_standby_replicas: int = key(0, whole(0, MAX_INT), "standby copies of each task", effect=LATER)
    streams_session_timeout_ms: int = key(
        45_000, whole(1, MAX_INT), "a member is gone after so long without a heartbeat", effect=LATER
    )


@dataclass(frozen=True)
class ClientMetricsConfig:
    interval_ms: int = key(300_000, whole(100, 3_600_000), "how often clients push their metrics", effect=LATER)
    match: tuple[str, ...] = key((), text_list, "which clients, by patterns of their attributes", effect=LATER)
    metrics: tuple[str, ...] = key((), text_list, "which metrics, by prefixes of their names", effect=LATER)
