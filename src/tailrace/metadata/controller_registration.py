"""A controller as it has registered itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace.metadata.endpoint import Endpoint
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.brokers import ControllerEndpoint, ControllerFeature, RegisterControllerRecord


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...] = ()
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """First and last supported level, by name."""
    zk_migration_ready: bool = False

    @classmethod
    def of(cls, record: RegisterControllerRecord) -> ControllerRegistration:
        return cls(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features={f.name: (f.min_supported_version, f.max_supported_version) for f in record.features},
            zk_migration_ready=record.zk_migration_ready,
        )

    def to_record(self) -> VersionedRecord:
        record = RegisterControllerRecord(
            controller_id=self.id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.zk_migration_ready,
            end_points=[ControllerEndpoint(**e._asdict()) for e in self.endpoints],
            features=[
                ControllerFeature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in self.features.items()
            ],
        )
        return VersionedRecord(record, 0)
