"""Settings of replication between brokers, and of quotas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.config.table import MAX_INT, MAX_LONG, MIN_INT, Effect, Mode, class_name, key, plain, whole

CLUSTER: Final = Mode.CLUSTER
LATER: Final = Effect.LATER
NONE: Final = Effect.NONE
REFUSED: Final = Effect.REFUSED


@dataclass(frozen=True)
class ReplicationConfig:
    leader_replication_throttled_rate: int = key(
        MAX_LONG,
        whole(0, MAX_LONG),
        "bytes a second that a leader sends of the replicas that its topics say are throttled",
        mode=CLUSTER,
        effect=LATER,
        internal=True,
    )
    follower_replication_throttled_rate: int = key(
        MAX_LONG,
        whole(0, MAX_LONG),
        "bytes a second that a follower fetches of the replicas that its topics say are throttled",
        mode=CLUSTER,
        effect=LATER,
        internal=True,
    )
    alter_log_dirs_replication_quota_window_num: int = key(
        11, whole(1, MAX_INT), "windows that the rate of moves between directories is measured over", effect=NONE
    )
    alter_log_dirs_replication_quota_window_size_seconds: int = key(
        1, whole(1, MAX_INT), "length of a window for the rate of moves between directories", effect=NONE
    )
    client_quota_callback_class: str | None = key(
        None, class_name, "the Java class that sets clients' quotas", effect=REFUSED
    )
    num_replica_fetchers: int = key(
        1, whole(1, MAX_INT), "connections to each leader that replicas are fetched over", mode=CLUSTER, effect=LATER
    )
    quota_window_num: int = key(11, whole(1, MAX_INT), "windows that clients' rates are measured over", effect=LATER)
    quota_window_size_seconds: int = key(1, whole(1, MAX_INT), "length of a window for clients' rates", effect=LATER)
    replica_fetch_backoff_ms: int = key(
        1_000, whole(0, MAX_INT), "wait before a failed fetch of a replica is tried again", effect=LATER
    )
    replica_fetch_max_bytes: int = key(
        1_048_576, whole(0, MAX_INT), "bytes of a partition that a follower asks for", effect=LATER
    )
    replica_fetch_min_bytes: int = key(
        1, whole(MIN_INT, MAX_INT), "bytes that a leader waits for before it answers a follower", effect=LATER
    )
    replica_fetch_response_max_bytes: int = key(
        10_485_760, whole(0, MAX_INT), "bytes that a follower asks for in one fetch", effect=LATER
    )
    replica_fetch_wait_max_ms: int = key(
        500, whole(MIN_INT, MAX_INT), "how long a leader waits for replica.fetch.min.bytes", effect=LATER
    )
    replica_high_watermark_checkpoint_interval_ms: int = key(
        5_000, whole(1, MAX_LONG), "how often high watermarks are noted on disk"
    )
    replica_lag_time_max_ms: int = key(
        30_000, whole(1, MAX_LONG), "a follower that has not caught up for so long leaves the ISR"
    )
    replica_selector_class: str | None = key(
        None, plain, "the class that chooses the replica that a consumer reads from", effect=LATER
    )
    replica_socket_receive_buffer_bytes: int = key(
        65_536,
        whole(MIN_INT, MAX_INT),
        "receive buffer of the connections that replicas are fetched over",
        effect=LATER,
    )
    replica_socket_timeout_ms: int = key(
        30_000,
        whole(MIN_INT, MAX_INT),
        "how long a connection that replicas are fetched over may be silent",
        effect=LATER,
    )
    replication_quota_window_num: int = key(
        11, whole(1, MAX_INT), "windows that the rate of replication is measured over", effect=LATER
    )
    replication_quota_window_size_seconds: int = key(
        1, whole(1, MAX_INT), "length of a window for the rate of replication", effect=LATER
    )
