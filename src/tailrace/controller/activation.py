"""What a controller writes first when it becomes the active one.

Into a log without records the bootstrap records, as one transaction:

    BeginTransactionRecord "Bootstrap records"
    FeatureLevelRecord metadata.version, …
    ConfigRecord min.insync.replicas of all brokers, where eligible.leader.replicas.version is among the features
    EndTransactionRecord

A transaction that a predecessor has left open is aborted: no controller will ever end it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.controller.min_isr import cluster_min_isr
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.versions import (
    ELR_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    MINIMUM_METADATA_VERSION,
    has_transactions,
)
from tailrace.model.errors import UnsupportedVersionError
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.ledger import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from tailrace.protocol.records.settings import FeatureLevelRecord


def activation_records(
    image: MetadataImage, bootstrap: Sequence[VersionedRecord], min_isr: int
) -> list[VersionedRecord]:
    """`image` is that of the whole log; `min_isr` is the min.insync.replicas of this controller's configuration.

    Raises UnsupportedVersionError if the log has a metadata.version that this release does not support.
    """
    records = []
    if image.held_back is not None:
        records.append(VersionedRecord(AbortTransactionRecord(reason="Controller failover"), 0))
    is_empty = not image.features and not image.brokers and not image.topics
    if is_empty:
        level = _level(bootstrap)
        if has_transactions(level):
            begin = BeginTransactionRecord(name="Bootstrap records")
            settings = [cluster_min_isr(min_isr)] if _has_elr(bootstrap) else []
            records += [VersionedRecord(begin, 0), *bootstrap, *settings, VersionedRecord(EndTransactionRecord(), 0)]
        else:
            records += bootstrap
    else:
        level = image.metadata_version
    if not MINIMUM_METADATA_VERSION <= level <= LATEST_METADATA_VERSION:
        raise UnsupportedVersionError(
            f"the cluster is at metadata.version {level}; this release knows {MINIMUM_METADATA_VERSION} to "
            f"{LATEST_METADATA_VERSION}"
        )
    return records


def _has_elr(bootstrap: Sequence[VersionedRecord]) -> bool:
    return any(
        isinstance(record, FeatureLevelRecord) and record.name == ELR_VERSION and record.feature_level > 0
        for record, _ in bootstrap
    )


def _level(bootstrap: Sequence[VersionedRecord]) -> int:
    for record, _ in bootstrap:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            return record.feature_level
    raise UnsupportedVersionError("the bootstrap records name no metadata.version; format the directory anew")
