"""`min.insync.replicas` in a cluster with eligible leader replicas (KIP-966).

Which replicas are eligible depends on the minimum, so all brokers must have the same one. With
eligible.leader.replicas.version at 1:

- the cluster has a dynamic default, written by the controller when the feature is enabled;
- no broker has a dynamic value, and the default cannot be removed;
- a change of the minimum clears the eligible replicas, because they were chosen by the earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tailrace.metadata.image import BROKER_RESOURCE, CLUSTER_DEFAULT, MetadataImage
from tailrace.model.errors import InvalidConfigError
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.settings import ConfigRecord

MIN_ISR: Final = "min.insync.replicas"


def cluster_min_isr(value: int) -> VersionedRecord:
    """The dynamic default of all brokers."""
    return _record(CLUSTER_DEFAULT, str(value))


def records_to_enable(image: MetadataImage, configured: int) -> list[VersionedRecord]:
    """The records that precede the feature level. `configured` is the value in this controller's configuration."""
    has_default = MIN_ISR in image.broker_config(CLUSTER_DEFAULT)
    with_values = [
        name
        for (kind, name), overrides in image.configs.items()
        if kind == BROKER_RESOURCE and name != CLUSTER_DEFAULT and MIN_ISR in overrides
    ]
    default = [] if has_default else [cluster_min_isr(configured)]
    return [*default, *(_record(name, None) for name in with_values)]


def check_change(broker: str, changes: Mapping[str, str | None]) -> None:
    """Raises InvalidConfigError if settings of a broker, or of all, would differ from the rules above."""
    if MIN_ISR not in changes:
        return
    if broker != CLUSTER_DEFAULT:
        raise InvalidConfigError(f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.")
    if changes[MIN_ISR] is None:
        raise InvalidConfigError(f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.")


def _record(broker: str, value: str | None) -> VersionedRecord:
    record = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=broker, name=MIN_ISR, value=value)
    return VersionedRecord(record, 0)
