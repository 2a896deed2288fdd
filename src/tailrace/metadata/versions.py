"""Levels of metadata.version, and in which version each record is written at a level.

A level is only ever compared; the names are for people.
"""

from __future__ import annotations

from typing import Final

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
SINGLE_REPLICAS: Final = "tailrace.single.replicas"
"""Registered, with level 0 only, by brokers that do not replicate: no other broker's partitions, nor theirs to others.
Kafka stores it with the registration and does nothing else with it."""

MINIMUM_METADATA_VERSION: Final = 7
LATEST_METADATA_VERSION: Final = 30

SUPPORTED_FEATURES: Final = {
    ELR_VERSION: (0, 1),
    GROUP_VERSION: (0, 1),
    KRAFT_VERSION: (0, 1),
    METADATA_VERSION: (MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION),
    SHARE_VERSION: (0, 1),
    STREAMS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
"""First and last level of everything that this release has."""
NEW_CLUSTER_FEATURES: Final = {
    ELR_VERSION: 1,
    GROUP_VERSION: 1,
    SHARE_VERSION: 1,
    STREAMS_VERSION: 1,
    TRANSACTION_VERSION: 2,
}
"""Finalized levels of a new cluster, besides metadata.version."""

NAMES: Final = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}
CHANGED_RECORDS: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
"""Levels that brought new records or fields: stepping down over one of them may lose something."""

_MIGRATING_BROKERS: Final = 8
_LEADER_EPOCH_KEPT_ON_SHRINK: Final = 12
_TRANSACTIONS: Final = 13
_CONTROLLER_REGISTRATIONS: Final = 15
_DIRECTORIES: Final = 17
_ELR_FIELDS: Final = 23
_CORDONED_DIRECTORIES: Final = 30


def has_transactions(level: int) -> bool:
    return level >= _TRANSACTIONS


def has_controller_registrations(level: int) -> bool:
    return level >= _CONTROLLER_REGISTRATIONS


def has_directories(level: int) -> bool:
    return level >= _DIRECTORIES


def has_cordoned_directories(level: int) -> bool:
    return level >= _CORDONED_DIRECTORIES


def bumps_leader_epoch_on_shrink(level: int) -> bool:
    return level < _LEADER_EPOCH_KEPT_ON_SHRINK


def register_broker_version(level: int) -> int:
    if level >= _CORDONED_DIRECTORIES:
        return 4
    if level >= _DIRECTORIES:
        return 3
    return 2 if level >= _MIGRATING_BROKERS else 1


def registration_change_version(level: int) -> int:
    if level >= _CORDONED_DIRECTORIES:
        return 3
    return 2 if level >= _DIRECTORIES else 1


def partition_version(level: int) -> int:
    """Of PartitionRecord and of PartitionChangeRecord."""
    if level >= _ELR_FIELDS:
        return 2
    return 1 if level >= _DIRECTORIES else 0
