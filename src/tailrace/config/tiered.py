"""Settings of tiered storage, which does not exist yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.config.table import MAX_INT, MAX_LONG, Effect, Mode, Real, boolean, key, plain, whole

CLUSTER: Final = Mode.CLUSTER
LATER: Final = Effect.LATER
REFUSED: Final = Effect.REFUSED


@dataclass(frozen=True)
class TieredConfig:
    follower_fetch_last_tiered_offset_enable: bool = key(
        False, boolean, "let a new follower begin behind what is already in remote storage", mode=CLUSTER, effect=LATER
    )
    remote_fetch_max_wait_ms: int = key(
        500, whole(1, MAX_INT), "how long a fetch waits for remote storage", mode=CLUSTER, effect=LATER
    )
    remote_list_offsets_request_timeout_ms: int = key(
        30_000,
        whole(1, MAX_LONG),
        "how long a ListOffsets request waits for remote storage",
        mode=CLUSTER,
        effect=LATER,
    )
    remote_log_index_file_cache_total_size_bytes: int = key(
        1_073_741_824,
        whole(1, MAX_LONG),
        "bytes of remote segments' indexes kept on local disks",
        mode=CLUSTER,
        effect=LATER,
    )
    remote_log_index_file_cache_ttl_ms: int = key(
        900_000,
        whole(-1, MAX_LONG),
        "how long an index of a remote segment stays on local disks unused; -1: for ever",
        effect=LATER,
        internal=True,
    )
    remote_log_manager_copier_thread_pool_size: int = key(
        10, whole(1, MAX_INT), "how many segments are copied to remote storage at a time", mode=CLUSTER, effect=LATER
    )
    remote_log_manager_copy_max_bytes_per_second: int = key(
        MAX_LONG, whole(1, MAX_LONG), "bytes a second that may be copied to remote storage", mode=CLUSTER, effect=LATER
    )
    remote_log_manager_copy_quota_window_num: int = key(
        11, whole(1, MAX_INT), "how many windows the rate of copying is measured over", effect=LATER
    )
    remote_log_manager_copy_quota_window_size_seconds: int = key(
        1, whole(1, MAX_INT), "length of a window for the rate of copying", effect=LATER
    )
    remote_log_manager_expiration_thread_pool_size: int = key(
        10, whole(1, MAX_INT), "how many partitions' remote segments are expired at a time", mode=CLUSTER, effect=LATER
    )
    remote_log_manager_fetch_max_bytes_per_second: int = key(
        MAX_LONG, whole(1, MAX_LONG), "bytes a second that may be read from remote storage", mode=CLUSTER, effect=LATER
    )
    remote_log_manager_fetch_quota_window_num: int = key(
        11, whole(1, MAX_INT), "how many windows the rate of remote reading is measured over", effect=LATER
    )
    remote_log_manager_fetch_quota_window_size_seconds: int = key(
        1, whole(1, MAX_INT), "length of a window for the rate of remote reading", effect=LATER
    )
    remote_log_manager_follower_thread_pool_size: int = key(
        2, whole(1, MAX_INT), "threads that follow what leaders have copied", mode=CLUSTER, effect=LATER
    )
    remote_log_manager_task_interval_ms: int = key(
        30_000, whole(1, MAX_LONG), "pause between two looks for segments to copy or to expire", effect=LATER
    )
    remote_log_manager_task_retry_backoff_max_ms: int = key(
        30_000, whole(1, MAX_LONG), "longest wait after a failed task of remote storage", effect=LATER, internal=True
    )
    remote_log_manager_task_retry_backoff_ms: int = key(
        500, whole(1, MAX_LONG), "first wait after a failed task of remote storage", effect=LATER, internal=True
    )
    remote_log_manager_task_retry_jitter: float = key(
        0.2, Real(0, 0.5), "random part of the wait after a failed task of remote storage", effect=LATER, internal=True
    )
    remote_log_manager_thread_pool_size: int = key(
        2, whole(1, MAX_INT), "an old name for the size of the followers' pool", effect=LATER
    )
    remote_log_metadata_custom_metadata_max_bytes: int = key(
        128, whole(0, MAX_INT), "largest note that remote storage may add to a segment's metadata", effect=LATER
    )
    remote_log_metadata_manager_class_name: str = key(
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        plain,
        "the class that keeps the metadata of remote segments",
        effect=LATER,
    )
    remote_log_metadata_manager_class_path: str | None = key(
        None, plain, "where that class is loaded from", effect=LATER
    )
    remote_log_metadata_manager_impl_prefix: str = key(
        "rlmm.config.", plain, "prefix of the settings that are handed to that class", effect=LATER
    )
    remote_log_metadata_manager_listener_name: str | None = key(
        None, plain, "the listener that the metadata of remote segments is reached by", effect=LATER
    )
    remote_log_reader_max_pending_tasks: int = key(
        100, whole(1, MAX_INT), "remote reads that may wait; a fetch beyond that fails", effect=LATER
    )
    remote_log_reader_threads: int = key(
        10, whole(1, MAX_INT), "how many remote reads go on at a time", mode=CLUSTER, effect=LATER
    )
    remote_log_storage_manager_class_name: str | None = key(
        None, plain, "the class that stores remote segments", effect=LATER
    )
    remote_log_storage_manager_class_path: str | None = key(
        None, plain, "where that class is loaded from", effect=LATER
    )
    remote_log_storage_manager_impl_prefix: str = key(
        "rsm.config.", plain, "prefix of the settings that are handed to that class", effect=LATER
    )
    remote_log_storage_system_enable: bool = key(False, boolean, "switch tiered storage on", effect=REFUSED)
