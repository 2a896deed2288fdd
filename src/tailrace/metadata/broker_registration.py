"""A broker as it has registered itself, with what the controller thinks of it since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.versions import (
    SINGLE_REPLICAS,
    has_cordoned_directories,
    has_directories,
    register_broker_version,
)
from tailrace.model.errors import InconsistentMetadataError
from tailrace.model.ids import DirectoryId
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    id: int
    epoch: int
    """The offset of its registration's record: a later registration has a higher one."""
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...] = ()
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """First and last supported level, by name."""
    rack: str | None = None
    is_fenced: bool = True
    """It may not lead nor be in an ISR, and clients are not told of it."""
    in_controlled_shutdown: bool = False
    directories: tuple[DirectoryId, ...] = ()
    """Those that are online."""
    cordoned_directories: tuple[DirectoryId, ...] | None = None
    """Those that take no new replicas; None as long as the broker has not said."""
    is_migrating_zk_broker: bool = False

    @classmethod
    def of(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        cordoned = record.cordoned_log_dirs
        return cls(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features={f.name: (f.min_supported_version, f.max_supported_version) for f in record.features},
            rack=record.rack,
            is_fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=_ids(record.log_dirs),
            cordoned_directories=None if cordoned is None else _ids(cordoned),
            is_migrating_zk_broker=record.is_migrating_zk_broker,
        )

    def merged(self, change: BrokerRegistrationChangeRecord) -> BrokerRegistration:
        cordoned = change.cordoned_log_dirs
        return replace(
            self,
            is_fenced=_switched(self.is_fenced, change.fenced),
            in_controlled_shutdown=_switched(self.in_controlled_shutdown, change.in_controlled_shutdown),
            directories=_ids(change.log_dirs) or self.directories,
            cordoned_directories=self.cordoned_directories if cordoned is None else _ids(cordoned),
        )

    def to_record(self, metadata_version: int) -> VersionedRecord:
        cordoned = self.cordoned_directories if has_cordoned_directories(metadata_version) else None
        record = RegisterBrokerRecord(
            broker_id=self.id,
            is_migrating_zk_broker=self.is_migrating_zk_broker,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=[BrokerEndpoint(**e._asdict()) for e in self.endpoints],
            features=[
                BrokerFeature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in self.features.items()
            ],
            rack=self.rack,
            fenced=self.is_fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=list(self.directories) if has_directories(metadata_version) else [],
            cordoned_log_dirs=None if cordoned is None else list(cordoned),
        )
        return VersionedRecord(record, register_broker_version(metadata_version))

    def endpoint(self, listener_name: str) -> Endpoint | None:
        return next((e for e in self.endpoints if e.name == listener_name), None)

    @property
    def is_active(self) -> bool:
        """It may lead partitions and be in their ISR."""
        return not self.is_fenced and not self.in_controlled_shutdown

    @property
    def can_replicate(self) -> bool:
        """It can hold replicas of partitions with several."""
        return SINGLE_REPLICAS not in self.features

    @property
    def takes_replicas(self) -> bool:
        """Some directory of it is not cordoned."""
        cordoned = self.cordoned_directories or ()
        return not self.directories or not set(self.directories) <= set(cordoned)


def _switched(present: bool, change: int) -> bool:
    """`change` is 1 for on, −1 for off and 0 for as it is."""
    if change not in (-1, 0, 1):
        raise InconsistentMetadataError(f"a change of a broker's state is {change}, not -1, 0 or 1")
    return present if change == 0 else change > 0


def _ids(directories: list[bytes]) -> tuple[DirectoryId, ...]:
    return tuple(map(DirectoryId, directories))
