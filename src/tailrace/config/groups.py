"""Settings of consumer groups and their offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.config.table import MAX_INT, MAX_LONG, MAX_SHORT, MIN_INT, Effect, Mode, choice, key, text_list, whole

CLUSTER: Final = Mode.CLUSTER
LATER: Final = Effect.LATER


@dataclass(frozen=True)
class GroupConfig:
    group_consumer_assignment_interval_ms: int = key(
        1_000, whole(0, MAX_INT), "least time between two assignments of a consumer group", mode=CLUSTER
    )
    group_consumer_assignors: tuple[str, ...] = key(
        ("uniform", "range"), text_list, "assignors of consumer groups, the default first"
    )
    group_consumer_heartbeat_interval_ms: int = key(
        5_000, whole(1, MAX_INT), "time between heartbeats of a consumer group's member"
    )
    group_consumer_max_assignment_interval_ms: int = key(
        15_000, whole(0, MAX_INT), "most that group.consumer.assignment.interval.ms may be for a group"
    )
    group_consumer_max_heartbeat_interval_ms: int = key(
        15_000, whole(1, MAX_INT), "most that group.consumer.heartbeat.interval.ms may be for a group"
    )
    group_consumer_max_session_timeout_ms: int = key(
        60_000, whole(1, MAX_INT), "most that group.consumer.session.timeout.ms may be for a group"
    )
    group_consumer_max_size: int = key(MAX_INT, whole(1, MAX_INT), "members of a consumer group at most")
    group_consumer_migration_policy: str = key(
        "bidirectional",
        choice("disabled", "downgrade", "upgrade", "bidirectional", ignores_case=True),
        "whether groups may change between the classic and the new protocol",
    )
    group_consumer_min_assignment_interval_ms: int = key(
        0, whole(0, MAX_INT), "least that group.consumer.assignment.interval.ms may be for a group"
    )
    group_consumer_min_heartbeat_interval_ms: int = key(
        5_000, whole(1, MAX_INT), "least that group.consumer.heartbeat.interval.ms may be for a group"
    )
    group_consumer_min_session_timeout_ms: int = key(
        45_000, whole(1, MAX_INT), "least that group.consumer.session.timeout.ms may be for a group"
    )
    group_consumer_regex_refresh_interval_ms: int = key(
        600_000,
        whole(10_000, MAX_INT),
        "how often subscriptions by pattern are resolved anew",
        internal=True,
    )
    group_consumer_session_timeout_ms: int = key(
        45_000,
        whole(1, MAX_INT),
        "a member of a consumer group is gone after so long without a heartbeat",
    )
    group_coordinator_append_linger_ms: int = key(
        -1, whole(-1, MAX_INT), "how long writes of the group coordinator are gathered; -1: it adapts", effect=LATER
    )
    group_coordinator_background_threads: int = key(
        2, whole(1, MAX_INT), "threads for long work of the group coordinator", effect=LATER
    )
    group_coordinator_cached_buffer_max_bytes: int = key(
        1_048_588,
        whole(524_288, MAX_INT),
        "largest buffer that the group coordinator keeps for its next write",
        mode=CLUSTER,
        effect=LATER,
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = key(
        ("classic", "consumer", "streams"), text_list, "protocols of groups that are served"
    )
    group_coordinator_threads: int = key(4, whole(1, MAX_INT), "threads of the group coordinator", effect=LATER)
    group_initial_rebalance_delay_ms: int = key(
        3_000, whole(MIN_INT, MAX_INT), "wait for more members before a new classic group is balanced"
    )
    group_max_session_timeout_ms: int = key(
        1_800_000,
        whole(MIN_INT, MAX_INT),
        "longest session timeout that a member of a classic group may ask for",
    )
    group_max_size: int = key(MAX_INT, whole(1, MAX_INT), "members of a classic group at most")
    group_min_session_timeout_ms: int = key(
        6_000,
        whole(MIN_INT, MAX_INT),
        "shortest session timeout that a member of a classic group may ask for",
    )
    offset_metadata_max_bytes: int = key(
        4_096, whole(MIN_INT, MAX_INT), "largest note that may be committed with an offset"
    )
    offsets_commit_timeout_ms: int = key(
        5_000, whole(1, MAX_INT), "how long a commit waits for the replicas of the offsets topic"
    )
    offsets_load_buffer_size: int = key(
        5_242_880, whole(1, MAX_INT), "bytes read at once when committed offsets are loaded", effect=LATER
    )
    offsets_retention_check_interval_ms: int = key(
        600_000, whole(1, MAX_LONG), "how often to look for committed offsets that have expired"
    )
    offsets_retention_minutes: int = key(10_080, whole(1, MAX_INT), "how long the offsets of an empty group are kept")
    offsets_topic_compression_codec: int = key(
        0, whole(MIN_INT, MAX_INT), "codec of the offsets topic, as a number", effect=LATER
    )
    offsets_topic_num_partitions: int = key(50, whole(1, MAX_INT), "partitions of the offsets topic", effect=LATER)
    offsets_topic_replication_factor: int = key(3, whole(1, MAX_SHORT), "replicas of the offsets topic", effect=LATER)
    offsets_topic_segment_bytes: int = key(
        104_857_600, whole(1, MAX_INT), "segment.bytes of the offsets topic", effect=LATER
    )
