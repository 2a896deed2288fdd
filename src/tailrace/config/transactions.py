"""Settings of transactions and of producers' ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.config.table import MAX_INT, MAX_SHORT, Effect, Mode, boolean, key, whole

CLUSTER: Final = Mode.CLUSTER
LATER: Final = Effect.LATER


@dataclass(frozen=True)
class TransactionConfig:
    add_partitions_to_txn_retry_backoff_max_ms: int = key(
        100, whole(0, MAX_INT), "longest wait before a partition is verified to be in a transaction again"
    )
    add_partitions_to_txn_retry_backoff_ms: int = key(
        20, whole(1, MAX_INT), "first wait before a partition is verified to be in a transaction again"
    )
    producer_id_expiration_check_interval_ms: int = key(
        600_000, whole(1, MAX_INT), "how often to look for producers that have expired", internal=True
    )
    producer_id_expiration_ms: int = key(
        86_400_000,
        whole(1, MAX_INT),
        "forget the sequence numbers of a producer that was idle for so long",
        mode=CLUSTER,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = key(
        10_000, whole(1, MAX_INT), "how often to look for transactions that have timed out"
    )
    transaction_max_timeout_ms: int = key(
        900_000, whole(1, MAX_INT), "longest timeout that a transactional producer may ask for"
    )
    transaction_partition_verification_enable: bool = key(
        True,
        boolean,
        "verify that a partition is in the transaction before a write to it is taken",
        mode=CLUSTER,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = key(
        3_600_000, whole(1, MAX_INT), "how often to look for transactional ids that have expired"
    )
    transaction_state_log_load_buffer_size: int = key(
        5_242_880, whole(1, MAX_INT), "bytes read at once when transactions are loaded", effect=LATER
    )
    transaction_state_log_min_isr: int = key(
        2, whole(1, MAX_INT), "min.insync.replicas of the transactions topic", effect=LATER
    )
    transaction_state_log_num_partitions: int = key(
        50, whole(1, MAX_INT), "partitions of the transactions topic", effect=LATER
    )
    transaction_state_log_replication_factor: int = key(
        3, whole(1, MAX_SHORT), "replicas of the transactions topic", effect=LATER
    )
    transaction_state_log_segment_bytes: int = key(
        104_857_600, whole(1, MAX_INT), "segment.bytes of the transactions topic", effect=LATER
    )
    transaction_two_phase_commit_enable: bool = key(
        False, boolean, "let transactions be part of others that outlast any timeout", effect=LATER
    )
    transactional_id_expiration_ms: int = key(
        604_800_000, whole(1, MAX_INT), "forget a transactional id that was idle for so long"
    )
