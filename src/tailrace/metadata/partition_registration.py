"""What the controller has decided about one partition.

Every change raises the partition epoch; a change of leader, also one from a leader to itself, raises the leader epoch
as well. Values are immutable: a change makes a new one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tailrace.metadata.versions import has_directories, partition_version
from tailrace.model.errors import InconsistentMetadataError
from tailrace.model.ids import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, DirectoryId
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.topics import PartitionChangeRecord, PartitionRecord

T = TypeVar("T", int, bytes)

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
RECOVERED: Final = 0
RECOVERING: Final = 1
NO_RECOVERY_CHANGE: Final = -1


def is_online_directory(directory: bytes, online: tuple[DirectoryId, ...]) -> bool:
    """Whether a replica in `directory` is in one of the `online` directories of its broker, or on its way there.

    A broker that has named no directories at all has one only, and that is online.
    """
    if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
        return True
    if directory == LOST_DIRECTORY:
        return False
    return not online or directory in online


class IdTable:
    """One object per broker id and directory id, however many partitions name it: a third of the memory of an image.

    It only grows, with the brokers and directories that a cluster has had. Images of one node share a table, and any
    thread may use it.
    """

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: dict[int | bytes, Any] = {}

    def shared(self, ids: Iterable[T]) -> tuple[T, ...]:
        share = self._ids.setdefault
        return tuple([share(each, each) for each in ids])


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    replicas: tuple[int, ...]
    """The assignment, in order of preference."""
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    directories: tuple[bytes, ...] = ()
    """The id of the directory of each of `replicas`, on its broker. Plain bytes: an image has very many of them."""
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    is_recovering: bool = False
    """The leader was elected unclean and has not yet said that it is well again."""

    @classmethod
    def of(cls, record: PartitionRecord, table: IdTable | None = None) -> PartitionRegistration:
        table = table or IdTable()
        replicas = table.shared(record.replicas)
        return cls(
            replicas=replicas,
            isr=replicas if record.isr == record.replicas else table.shared(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=table.shared(_directories(record.directories, len(replicas), record.partition_id)),
            adding_replicas=table.shared(record.adding_replicas),
            removing_replicas=table.shared(record.removing_replicas),
            elr=table.shared(record.eligible_leader_replicas or ()),
            last_known_elr=table.shared(record.last_known_elr or ()),
            is_recovering=record.leader_recovery_state == RECOVERING,
        )

    def merged(self, change: PartitionChangeRecord, table: IdTable | None = None) -> PartitionRegistration:
        """This one after `change`."""
        table = table or IdTable()

        def either(changed: list[int] | None, present: tuple[int, ...]) -> tuple[int, ...]:
            return present if changed is None else table.shared(changed)

        replicas = either(change.replicas, self.replicas)
        isr = either(change.isr, self.isr)
        directories = self.directories if change.directories is None else table.shared(change.directories)
        leads_anew = change.leader != NO_LEADER_CHANGE
        has_recovery = change.leader_recovery_state != NO_RECOVERY_CHANGE
        return PartitionRegistration(
            replicas=replicas,
            isr=replicas if isr == replicas else isr,
            leader=change.leader if leads_anew else self.leader,
            leader_epoch=self.leader_epoch + leads_anew,
            partition_epoch=self.partition_epoch + 1,
            directories=_directories(directories, len(replicas), change.partition_id),
            adding_replicas=either(change.adding_replicas, self.adding_replicas),
            removing_replicas=either(change.removing_replicas, self.removing_replicas),
            elr=either(change.eligible_leader_replicas, self.elr),
            last_known_elr=either(change.last_known_elr, self.last_known_elr),
            is_recovering=change.leader_recovery_state == RECOVERING if has_recovery else self.is_recovering,
        )

    def to_record(self, topic_id: bytes, partition: int, metadata_version: int) -> VersionedRecord:
        version = partition_version(metadata_version)
        writes_elr = version >= 2
        record = PartitionRecord(
            partition_id=partition,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=RECOVERING if self.is_recovering else RECOVERED,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories) if has_directories(metadata_version) else [],
            eligible_leader_replicas=list(self.elr) if writes_elr and self.elr else None,
            last_known_elr=list(self.last_known_elr) if writes_elr and self.last_known_elr else None,
        )
        return VersionedRecord(record, version)

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    def directory_of(self, broker_id: int) -> DirectoryId | None:
        """None where the broker holds no replica."""
        for replica, directory in zip(self.replicas, self.directories, strict=True):
            if replica == broker_id:
                return DirectoryId(directory)
        return None


def _directories(given: list[bytes] | tuple[bytes, ...] | None, replicas: int, partition: int) -> tuple[bytes, ...]:
    if not given:
        return (MIGRATING_DIRECTORY,) * replicas
    if len(given) != replicas:
        raise InconsistentMetadataError(f"partition {partition} has {replicas} replicas in {len(given)} directories")
    return tuple(given)
