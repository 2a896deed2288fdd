"""Settings of sockets, connections and requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.config.table import MAX_INT, MAX_LONG, MIN_INT, MIN_LONG, Effect, Mode, key, whole

CLUSTER: Final = Mode.CLUSTER
LATER: Final = Effect.LATER
NONE: Final = Effect.NONE


@dataclass(frozen=True)
class NetworkConfig:
    queued_max_request_bytes: int = key(
        256 * 1024 * 1024,
        whole(-1, MAX_LONG),
        "bytes of requests that may be in memory; reading pauses beyond that; -1: no bound",
    )
    background_threads: int = key(10, whole(1, MAX_INT), "threads for background work", mode=CLUSTER, effect=NONE)
    connections_max_idle_ms: int = key(
        600_000,
        whole(MIN_LONG, MAX_LONG),
        "close a connection on which no bytes move for this time, even with a request pending; negative: never",
    )
    delete_records_purgatory_purge_interval_requests: int = key(
        1, whole(MIN_INT, MAX_INT), "waiting requests between two purges of those that are done", effect=NONE
    )
    fetch_max_bytes: int = key(57_671_680, whole(1_024, MAX_INT), "bytes that a fetch returns at most, one batch aside")
    fetch_purgatory_purge_interval_requests: int = key(
        1_000, whole(MIN_INT, MAX_INT), "waiting requests between two purges of those that are done", effect=NONE
    )
    max_connection_creation_rate: int = key(
        MAX_INT, whole(0, MAX_INT), "new connections in a second at most", mode=CLUSTER
    )
    max_connections: int = key(MAX_INT, whole(0, MAX_INT), "open connections of a listener at most", mode=CLUSTER)
    max_connections_per_ip: int = key(
        MAX_INT, whole(0, MAX_INT), "open connections from one address at most", mode=CLUSTER
    )
    max_incremental_fetch_session_cache_slots: int = key(1_000, whole(0, MAX_INT), "fetch sessions that are remembered")
    max_request_partition_size_limit: int = key(
        2_000, whole(1, MAX_INT), "partitions that a DescribeTopicPartitions request returns at most"
    )
    num_io_threads: int = key(
        8, whole(1, MAX_INT), "threads that serve requests; here one thread serves all", mode=CLUSTER, effect=NONE
    )
    num_network_threads: int = key(
        3,
        whole(1, MAX_INT),
        "threads that read and write sockets; here one thread serves all",
        mode=CLUSTER,
        effect=NONE,
    )
    producer_purgatory_purge_interval_requests: int = key(
        1_000, whole(MIN_INT, MAX_INT), "waiting requests between two purges of those that are done", effect=NONE
    )
    queued_max_requests: int = key(
        500,
        whole(1, MAX_INT),
        "requests that may wait for a thread; here queued.max.request.bytes is the bound",
        effect=NONE,
    )
    request_timeout_ms: int = key(30_000, whole(1, MAX_INT), "how long a request to another node may take")
    socket_connection_setup_timeout_max_ms: int = key(
        30_000, whole(MIN_LONG, MAX_LONG), "longest wait for a connection to another node", effect=LATER
    )
    socket_connection_setup_timeout_ms: int = key(
        10_000, whole(MIN_LONG, MAX_LONG), "first wait for a connection to another node", effect=LATER
    )
    socket_listen_backlog_size: int = key(50, whole(1, MAX_INT), "connections that may wait to be accepted")
    socket_receive_buffer_bytes: int = key(
        102_400, whole(-1, MAX_INT), "receive buffer of a socket; -1: the system's choice"
    )
    socket_request_max_bytes: int = key(
        104_857_600, whole(1, MAX_INT), "largest request; a larger one closes its connection"
    )
    socket_send_buffer_bytes: int = key(102_400, whole(-1, MAX_INT), "send buffer of a socket; -1: the system's choice")
