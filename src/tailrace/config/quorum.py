"""Settings of the metadata quorum, of the controller and of a broker's ties to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.config.table import MAX_INT, MAX_LONG, MIN_INT, MIN_LONG, Effect, Kind, boolean, key, plain, whole
from tailrace.config.voters import Address, Voter, addresses, names, roles, voters

LATER: Final = Effect.LATER
NONE: Final = Effect.NONE


@dataclass(frozen=True)
class QuorumConfig:
    process_roles: tuple[str, ...] = key(
        None, roles, "what this process is: broker, controller or both", kind=Kind.LIST
    )
    node_id: int = key(None, whole(0, MAX_INT), "the number of this node in its cluster")
    broker_id: int = key(-1, whole(MIN_INT, MAX_INT), "an old name for node.id; the same number if both are given")
    controller_listener_names: tuple[str, ...] = key(None, names, "the listeners of controllers", kind=Kind.LIST)
    controller_quorum_voters: tuple[Voter, ...] = key(
        (), voters, "the voters of the quorum: ID@HOST:PORT, separated by commas", kind=Kind.LIST
    )
    controller_quorum_bootstrap_servers: tuple[Address, ...] = key(
        (), addresses, "where to find the quorum: HOST:PORT, separated by commas", kind=Kind.LIST
    )
    auto_leader_rebalance_enable: bool = key(
        True, boolean, "give leadership back to preferred replicas from time to time", effect=LATER
    )
    broker_heartbeat_interval_ms: int = key(
        2_000, whole(1, MAX_INT), "time between heartbeats of a broker to the controller"
    )
    broker_rack: str | None = key(None, plain, "the rack of this broker; replicas are spread over racks")
    broker_session_timeout_ms: int = key(
        9_000, whole(1, MAX_INT), "a broker is fenced after so long without a heartbeat"
    )
    controlled_shutdown_enable: bool = key(True, boolean, "hand leadership over before stopping")
    controller_performance_always_log_threshold_ms: int = key(
        2_000, whole(0, MAX_LONG), "log an event of the controller that took longer", effect=NONE, internal=True
    )
    controller_performance_sample_period_ms: int = key(
        60_000, whole(100, MAX_LONG), "how often the controller's slowest events are logged", effect=NONE, internal=True
    )
    controller_quorum_append_linger_ms: int = key(
        25,
        whole(0, MAX_INT),
        "how long records of the quorum are gathered; here all that wait share one sync",
        effect=NONE,
    )
    controller_quorum_auto_join_enable: bool = key(False, boolean, "let a new controller become a voter by itself")
    controller_quorum_election_backoff_max_ms: int = key(
        1_000, whole(0, MAX_INT), "longest wait before an election is tried again"
    )
    controller_quorum_election_timeout_ms: int = key(1_000, whole(0, MAX_INT), "wait for votes before a new election")
    controller_quorum_fast_election_enable: bool = key(
        True, boolean, "elect a new leader of the quorum as soon as the process of the present one is gone"
    )
    controller_quorum_fetch_max_bytes: int = key(
        1_048_576, whole(1, MAX_INT), "bytes of the metadata log that a fetch returns at most"
    )
    controller_quorum_fetch_snapshot_max_bytes: int = key(
        1_048_576, whole(1, MAX_INT), "bytes of a snapshot that a fetch returns at most"
    )
    controller_quorum_fetch_timeout_ms: int = key(
        2_000, whole(0, MAX_INT), "a leader of the quorum that was not reached for so long is given up"
    )
    controller_quorum_request_timeout_ms: int = key(
        2_000, whole(0, MAX_INT), "how long a request between voters may take"
    )
    controller_quorum_retry_backoff_ms: int = key(
        20, whole(0, MAX_INT), "wait before a request between voters is sent again"
    )
    controller_quota_window_num: int = key(
        11, whole(1, MAX_INT), "windows that the rate of changes to topics is measured over", effect=LATER
    )
    controller_quota_window_size_seconds: int = key(
        1, whole(1, MAX_INT), "length of a window for the rate of changes to topics", effect=LATER
    )
    controller_socket_timeout_ms: int = key(
        30_000, whole(MIN_INT, MAX_INT), "how long a connection to the controller may be silent", effect=LATER
    )
    initial_broker_registration_timeout_ms: int = key(
        60_000, whole(1, MAX_INT), "a broker that could not register within this time stops"
    )
    internal_metadata_delete_delay_millis: int = key(
        60_000, whole(0, MAX_LONG), "wait before a removed file of the metadata log is unlinked", internal=True
    )
    internal_metadata_log_segment_bytes: int | None = key(
        None, whole(1, MAX_INT), "metadata.log.segment.bytes without its lower bound, for tests", internal=True
    )
    internal_metadata_max_batch_size_in_bytes: int = key(
        8_388_608, whole(1, MAX_INT), "largest batch of the metadata log", internal=True
    )
    leader_imbalance_check_interval_seconds: int = key(
        300, whole(1, MAX_LONG), "how often leadership is given back to preferred replicas", effect=LATER
    )
    log_dir_failure_timeout_ms: int = key(
        30_000,
        whole(1, MAX_LONG),
        "a broker that could not tell the controller of a failed directory within this time stops",
    )
    metadata_log_dir: str = key(None, plain, "the directory of the metadata log; the first of log.dirs when not given")
    metadata_log_max_record_bytes_between_snapshots: int = key(
        20_971_520, whole(1, MAX_LONG), "write a snapshot after so many bytes of records"
    )
    metadata_log_max_snapshot_interval_ms: int = key(
        3_600_000,
        whole(0, MAX_LONG),
        "write a snapshot after so long, if there are new records; 0: never for this reason",
    )
    metadata_log_segment_bytes: int = key(1_073_741_824, whole(8_388_608, MAX_INT), "segment.bytes of the metadata log")
    metadata_log_segment_ms: int = key(604_800_000, whole(1, MAX_LONG), "segment.ms of the metadata log")
    metadata_max_idle_interval_ms: int = key(
        500, whole(0, MAX_INT), "append a record that says nothing after so long without others; 0: never"
    )
    metadata_max_retention_bytes: int = key(
        104_857_600,
        whole(MIN_LONG, MAX_LONG),
        "delete the oldest snapshots and segments of the metadata log beyond this",
    )
    metadata_max_retention_ms: int = key(
        604_800_000, whole(MIN_LONG, MAX_LONG), "delete snapshots and segments of the metadata log that are older"
    )
    server_max_startup_time_ms: int = key(
        MAX_LONG, whole(0, MAX_LONG), "give up a start that takes longer", internal=True
    )
    unclean_leader_election_interval_ms: int = key(
        300_000,
        whole(1, MAX_LONG),
        "how often leaderless partitions are given a leader out of the ISR, where that is allowed",
        effect=LATER,
        internal=True,
    )
    unstable_api_versions_enable: bool = key(
        False, boolean, "serve versions of APIs that are not final", effect=NONE, internal=True
    )
    unstable_feature_versions_enable: bool = key(
        False, boolean, "allow versions of features that are not final", effect=NONE, internal=True
    )
