"""Settings of single groups, whose defaults are the broker's, and of subscriptions to the metrics of clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.config.durations import duration_ms
from tailrace.config.table import MAX_INT, Effect, boolean, choice, key, text_list, whole

LATER: Final = Effect.LATER
_BY_DURATION: Final = "by_duration:"


def _name_of_reset(text: str) -> str:
    if text.startswith(_BY_DURATION):
        duration_ms(text.removeprefix(_BY_DURATION))
    elif text not in ("latest", "earliest"):
        raise ValueError("must be latest, earliest or by_duration:DURATION")
    return text


@dataclass(frozen=True)
class GroupOverrides:
    consumer_assignment_interval_ms: int = key(1_000, whole(0, MAX_INT), "least time between two assignments")
    consumer_heartbeat_interval_ms: int = key(5_000, whole(1, MAX_INT), "time between heartbeats of a member")
    consumer_session_timeout_ms: int = key(
        45_000, whole(1, MAX_INT), "a member is gone after so long without a heartbeat"
    )
    share_assignment_interval_ms: int = key(1_000, whole(0, MAX_INT), "least time between two assignments")
    share_auto_offset_reset: str = key("latest", _name_of_reset, "where a share group begins")
    share_delivery_count_limit: int = key(5, whole(1, MAX_INT), "how often a record is delivered before it is given up")
    share_heartbeat_interval_ms: int = key(5_000, whole(1, MAX_INT), "time between heartbeats of a member")
    share_isolation_level: str = key(
        "read_uncommitted",
        choice("read_committed", "read_uncommitted"),
        "whether records of open transactions are seen",
    )
    share_partition_max_record_locks: int = key(
        2_000, whole(100, MAX_INT), "records of a partition that the group may hold at a time"
    )
    share_record_lock_duration_ms: int = key(30_000, whole(1_000, MAX_INT), "how long a member holds a record")
    share_renew_acknowledge_enable: bool = key(True, boolean, "let a member hold a record for longer")
    share_session_timeout_ms: int = key(45_000, whole(1, MAX_INT), "a member is gone after so long without a heartbeat")
    streams_assignment_interval_ms: int = key(1_000, whole(0, MAX_INT), "least time between two assignments")
    streams_heartbeat_interval_ms: int = key(5_000, whole(1, MAX_INT), "time between heartbeats of a member")
    streams_initial_rebalance_delay_ms: int = key(
        3_000, whole(0, MAX_INT), "wait for more members before a new group is assigned tasks"
    )
    streams_num_standby_replicas: int = key(0, whole(0, MAX_INT), "standby copies of each task")
    streams_session_timeout_ms: int = key(
        45_000, whole(1, MAX_INT), "a member is gone after so long without a heartbeat"
    )


@dataclass(frozen=True)
class ClientMetricsConfig:
    interval_ms: int = key(300_000, whole(100, 3_600_000), "how often clients push their metrics", effect=LATER)
    match: tuple[str, ...] = key((), text_list, "which clients, by patterns of their attributes", effect=LATER)
    metrics: tuple[str, ...] = key((), text_list, "which metrics, by prefixes of their names", effect=LATER)
