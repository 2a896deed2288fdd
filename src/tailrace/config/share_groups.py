"""Settings of share groups and of streams groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.config.table import MAX_INT, MAX_SHORT, MIN_INT, Effect, Mode, key, plain, text_list, whole

CLUSTER: Final = Mode.CLUSTER
LATER: Final = Effect.LATER
NONE: Final = Effect.NONE


@dataclass(frozen=True)
class ShareGroupConfig:
    group_share_assignment_interval_ms: int = key(
        1_000, whole(0, MAX_INT), "least time between two assignments of a share group", mode=CLUSTER
    )
    group_share_assignors: tuple[str, ...] = key(("simple",), text_list, "assignors of share groups", effect=NONE)
    group_share_delivery_count_limit: int = key(
        5, whole(2, 10), "how often a record is delivered before it is given up"
    )
    group_share_heartbeat_interval_ms: int = key(
        5_000, whole(1, MAX_INT), "time between heartbeats of a share group's member"
    )
    group_share_initialize_retry_interval_ms: int = key(
        30_000,
        whole(1, MAX_INT),
        "wait before the state of a share group is initialised again",
        internal=True,
    )
    group_share_max_assignment_interval_ms: int = key(
        15_000, whole(0, MAX_INT), "most that group.share.assignment.interval.ms may be for a group"
    )
    group_share_max_delivery_count_limit: int = key(
        10, whole(5, 25), "most that group.share.delivery.count.limit may be for a group"
    )
    group_share_max_heartbeat_interval_ms: int = key(
        15_000, whole(1, MAX_INT), "most that group.share.heartbeat.interval.ms may be for a group"
    )
    group_share_max_partition_max_record_locks: int = key(
        4_000, whole(2_000, 10_000), "most that group.share.partition.max.record.locks may be for a group"
    )
    group_share_max_record_lock_duration_ms: int = key(
        60_000,
        whole(30_000, 3_600_000),
        "most that group.share.record.lock.duration.ms may be for a group",
    )
    group_share_max_session_timeout_ms: int = key(
        60_000, whole(1, MAX_INT), "most that group.share.session.timeout.ms may be for a group"
    )
    group_share_max_share_sessions: int = key(2_000, whole(1, MAX_INT), "share sessions of a broker at most")
    group_share_max_size: int = key(200, whole(1, 1_000), "members of a share group at most")
    group_share_min_assignment_interval_ms: int = key(
        0, whole(0, MAX_INT), "least that group.share.assignment.interval.ms may be for a group"
    )
    group_share_min_delivery_count_limit: int = key(
        2, whole(2, 5), "least that group.share.delivery.count.limit may be for a group"
    )
    group_share_min_heartbeat_interval_ms: int = key(
        5_000, whole(1, MAX_INT), "least that group.share.heartbeat.interval.ms may be for a group"
    )
    group_share_min_partition_max_record_locks: int = key(
        100, whole(100, 2_000), "least that group.share.partition.max.record.locks may be for a group"
    )
    group_share_min_record_lock_duration_ms: int = key(
        15_000, whole(1_000, 30_000), "least that group.share.record.lock.duration.ms may be for a group"
    )
    group_share_min_session_timeout_ms: int = key(
        45_000, whole(1, MAX_INT), "least that group.share.session.timeout.ms may be for a group"
    )
    group_share_partition_max_record_locks: int = key(
        2_000, whole(100, 10_000), "records of a partition that share groups may hold at a time"
    )
    group_share_persister_class_name: str = key(
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        plain,
        "the class that keeps the state of share groups",
        effect=NONE,
        internal=True,
    )
    group_share_record_lock_duration_ms: int = key(
        30_000, whole(1_000, 3_600_000), "how long a member of a share group holds a record"
    )
    group_share_session_timeout_ms: int = key(
        45_000, whole(1, MAX_INT), "a member of a share group is gone after so long without a heartbeat"
    )
    group_streams_assignment_interval_ms: int = key(
        1_000, whole(0, MAX_INT), "least time between two assignments of a streams group", mode=CLUSTER
    )
    group_streams_heartbeat_interval_ms: int = key(
        5_000, whole(1, MAX_INT), "time between heartbeats of a streams group's member"
    )
    group_streams_initial_rebalance_delay_ms: int = key(
        3_000, whole(0, MAX_INT), "wait for more members before a new streams group is assigned tasks"
    )
    group_streams_max_assignment_interval_ms: int = key(
        15_000, whole(0, MAX_INT), "most that group.streams.assignment.interval.ms may be for a group"
    )
    group_streams_max_heartbeat_interval_ms: int = key(
        15_000, whole(1, MAX_INT), "most that group.streams.heartbeat.interval.ms may be for a group"
    )
    group_streams_max_session_timeout_ms: int = key(
        60_000, whole(1, MAX_INT), "most that group.streams.session.timeout.ms may be for a group"
    )
    group_streams_max_size: int = key(MAX_INT, whole(1, MAX_INT), "members of a streams group at most")
    group_streams_max_standby_replicas: int = key(
        2, whole(0, MAX_INT), "most that group.streams.num.standby.replicas may be for a group"
    )
    group_streams_min_assignment_interval_ms: int = key(
        0, whole(0, MAX_INT), "least that group.streams.assignment.interval.ms may be for a group"
    )
    group_streams_min_heartbeat_interval_ms: int = key(
        5_000, whole(1, MAX_INT), "least that group.streams.heartbeat.interval.ms may be for a group"
    )
    group_streams_min_session_timeout_ms: int = key(
        45_000, whole(1, MAX_INT), "least that group.streams.session.timeout.ms may be for a group"
    )
    group_streams_num_standby_replicas: int = key(
        0, whole(0, MAX_INT), "standby copies of each task of a streams group"
    )
    group_streams_session_timeout_ms: int = key(
        45_000, whole(1, MAX_INT), "a member of a streams group is gone after so long without a heartbeat"
    )
    share_coordinator_append_linger_ms: int = key(
        -1, whole(-1, MAX_INT), "how long writes of the share coordinator are gathered; -1: it adapts", effect=NONE
    )
    share_coordinator_cached_buffer_max_bytes: int = key(
        1_048_588,
        whole(524_288, MAX_INT),
        "largest buffer that the share coordinator keeps for its next write",
        mode=CLUSTER,
        effect=NONE,
    )
    share_coordinator_cold_partition_snapshot_interval_ms: int = key(
        300_000,
        whole(1, MAX_INT),
        "how often the state of a quiet share partition is written anew",
        internal=True,
    )
    share_coordinator_load_buffer_size: int = key(
        5_242_880, whole(1, MAX_INT), "bytes read at once when the share coordinator loads its state", effect=NONE
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = key(
        500, whole(0, 500), "updates of a share partition's state between two snapshots"
    )
    share_coordinator_state_topic_compression_codec: int = key(
        0, whole(MIN_INT, MAX_INT), "codec of the share coordinator's topic, as a number"
    )
    share_coordinator_state_topic_min_isr: int = key(
        2, whole(1, MAX_SHORT), "min.insync.replicas of the share coordinator's topic"
    )
    share_coordinator_state_topic_num_partitions: int = key(
        50, whole(1, MAX_INT), "partitions of the share coordinator's topic"
    )
    share_coordinator_state_topic_prune_interval_ms: int = key(
        300_000,
        whole(1, MAX_INT),
        "how often the share coordinator's topic is freed of old records",
        internal=True,
    )
    share_coordinator_state_topic_replication_factor: int = key(
        3, whole(1, MAX_SHORT), "replicas of the share coordinator's topic"
    )
    share_coordinator_state_topic_segment_bytes: int = key(
        104_857_600, whole(1, MAX_INT), "segment.bytes of the share coordinator's topic"
    )
    share_coordinator_threads: int = key(1, whole(1, MAX_INT), "threads of the share coordinator", effect=NONE)
    share_coordinator_write_timeout_ms: int = key(
        5_000, whole(1, MAX_INT), "how long a write of the share coordinator may take"
    )
    share_fetch_purgatory_purge_interval_requests: int = key(
        1_000, whole(MIN_INT, MAX_INT), "share fetches between two purges of those that are done", effect=NONE
    )
