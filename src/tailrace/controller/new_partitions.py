"""The replicas of partitions that are new: chosen by the controller, or named by who asks for them."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.controller.placement import place
from tailrace.controller.state import ClusterState
from tailrace.metadata.partition_registration import PartitionRegistration
from tailrace.model.errors import InvalidReplicaAssignmentError, InvalidReplicationFactorError


def chosen(state: ClusterState, partitions: int, replication_factor: int) -> list[PartitionRegistration]:
    """Raises InvalidReplicationFactorError."""
    made = []
    for replicas in place(state.usable_brokers(), partitions, replication_factor, state.random):
        isr = [replica for replica in replicas if state.is_active(replica)]
        if not isr:
            raise InvalidReplicationFactorError(
                f"Unable to replicate the partition {replication_factor} time(s): "
                "All brokers are currently fenced or in controlled shutdown."
            )
        made.append(_registration(state, replicas, isr))
    return made


def named(
    state: ClusterState, index: int, replicas: Sequence[int], replication_factor: int | None
) -> PartitionRegistration:
    """Raises InvalidReplicaAssignmentError and InvalidReplicationFactorError; `replication_factor` is that of the
    partitions before it.

    Brokers that cannot replicate may be assigned as followers, and are not put into the ISR.
    """
    check_assignment(state, replicas, replication_factor)
    if len(replicas) > 1 and not any(map(state.can_replicate, replicas)):
        raise InvalidReplicationFactorError(
            f"The manual partition assignment for partition {index} has {len(replicas)} replicas, all on Tailrace "
            "brokers, which hold single replicas only in this release. Assign one replica to each partition."
        )
    isr = [replica for replica in replicas if state.is_active(replica)]
    isr = isr[:1] + [replica for replica in isr[1:] if state.can_replicate(replica)]
    if not isr:
        raise InvalidReplicaAssignmentError(
            f"All brokers specified in the manual partition assignment for partition {index} are fenced "
            "or in controlled shutdown."
        )
    return _registration(state, replicas, isr)


def check_assignment(state: ClusterState, replicas: Sequence[int], replication_factor: int | None) -> None:
    if not replicas:
        raise InvalidReplicaAssignmentError("The manual partition assignment includes an empty replica list.")
    before = None
    for broker_id in sorted(replicas):
        if broker_id not in state.image.brokers:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if broker_id == before:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
        before = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise InvalidReplicaAssignmentError(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def _registration(state: ClusterState, replicas: Sequence[int], isr: Sequence[int]) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=tuple(replicas),
        isr=tuple(isr),
        leader=isr[0],
        directories=tuple(state.default_directory(replica) for replica in replicas),
    )
