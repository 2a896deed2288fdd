"""Brokers come, show that they live, and go: BrokerRegistration, BrokerHeartbeat, UnregisterBroker.

A registration has an epoch, the offset at which it is written: whatever a broker says with an older one is refused.
Its incarnation id is new at every start of a process. While the session of one incarnation is open no other can
register under the same id; the same incarnation may register again to change what it has said.

Partition changes that follow may be many: they are no single batch, but in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.controller.decision import Decision
from tailrace.controller.directories import directories_offline
from tailrace.controller.heartbeats import BrokerState
from tailrace.controller.state import ClusterState
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.versions import (
    METADATA_VERSION,
    has_cordoned_directories,
    has_directories,
    register_broker_version,
)
from tailrace.model.errors import (
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRegistrationError,
    StaleBrokerEpochError,
    UnsupportedVersionError,
)
from tailrace.model.ids import DirectoryId
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

# Registration


def register(state: ClusterState, request: BrokerRegistrationRequest, next_offset: int, now_ms: int) -> Decision:
    broker_id = request.broker_id
    _check_registration(state, request, now_ms)
    existing = state.image.brokers.get(broker_id)
    is_new = existing is None or existing.incarnation_id != request.incarnation_id
    records: list[VersionedRecord] = []
    record = RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=next_offset,
        end_points=[
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ],
        features=_features(state, request),
        rack=request.rack,
        log_dirs=list(request.log_dirs) if has_directories(state.image.metadata_version) else [],
    )
    if existing is not None and not is_new:
        record.fenced, record.in_controlled_shutdown = existing.is_fenced, existing.in_controlled_shutdown
        record.broker_epoch = existing.epoch
    elif existing is not None:
        records += _previous_incarnation_gone(state, request)
    records.append(VersionedRecord(record, register_broker_version(state.image.metadata_version)))

    def written(offset: int) -> None:
        state.heartbeats.register(broker_id, now_ms, is_fenced=record.fenced, is_new_incarnation=is_new)

    return Decision(BrokerRegistrationResponse(broker_epoch=record.broker_epoch), records, written)


def _check_registration(state: ClusterState, request: BrokerRegistrationRequest, now_ms: int) -> None:
    cluster_id, broker_id = state.identity.cluster_id, request.broker_id
    if request.cluster_id != cluster_id:
        raise InconsistentClusterIdError(f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}")
    if broker_id < 0:
        raise InvalidRegistrationError(f"Broker id {broker_id} is negative")
    existing = state.image.brokers.get(broker_id)
    if (
        existing is not None
        and existing.incarnation_id != request.incarnation_id
        and state.heartbeats.is_alive(broker_id, now_ms)
    ):
        raise DuplicateBrokerRegistrationError("Another broker is registered with that broker id.")
    if request.is_migrating_zk_broker:
        raise BrokerIdNotRegisteredError("Controller does not support registering ZK brokers.")
    for e in request.listeners:
        Endpoint(e.name, e.host, e.port, e.security_protocol).check()
    if not has_directories(state.image.metadata_version):
        return
    if not request.log_dirs:
        raise InvalidRegistrationError("No directories specified in request")
    if any(DirectoryId(directory).is_reserved for directory in request.log_dirs):
        raise InvalidRegistrationError("Reserved directory ID in request")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise InvalidRegistrationError("Duplicate directory ID in request")
    for other in state.image.brokers.values():
        if other.id != broker_id and (shared := set(other.directories) & set(request.log_dirs)):
            raise InvalidRegistrationError(f"Broker {other.id} is already registered with directory {shared.pop()}")


def _features(state: ClusterState, request: BrokerRegistrationRequest) -> list[BrokerFeature]:
    """What the broker supports, after a check that it includes every finalised level that this controller knows.

    A feature that another release has finalised, and that is unknown here, is not held against a broker.
    """
    spans = {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
    if METADATA_VERSION not in spans:
        raise InvalidRegistrationError(f"The broker does not support {METADATA_VERSION}")
    finalised = {**state.image.features, METADATA_VERSION: state.image.metadata_version}
    known = {name: level for name, level in finalised.items() if name in spans or name in state.identity.features}
    for name in {**spans, **known}:
        level, (first, last) = finalised.get(name, 0), spans.get(name, (0, 0))
        if not first <= level <= last:
            raise UnsupportedVersionError(
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {first} and {last}, inclusive."
            )
    return [
        BrokerFeature(name=name, min_supported_version=first, max_supported_version=last)
        for name, (first, last) in spans.items()
    ]


def _previous_incarnation_gone(state: ClusterState, request: BrokerRegistrationRequest) -> Sequence[VersionedRecord]:
    """What it led has to be led anew, in a new epoch; where it was not shut down cleanly, it may lack records."""
    broker_id, existing = request.broker_id, state.image.brokers[request.broker_id]
    if state.has_elr and request.previous_broker_epoch != existing.epoch:
        partitions = dict.fromkeys([*state.index.in_sync(broker_id), *state.index.eligible(broker_id)])
        return state.broker_changes(partitions, unclean_shutdown=broker_id)
    if not existing.is_fenced:
        return state.broker_changes(state.index.in_sync(broker_id), leaving=broker_id)
    return ()


# Heartbeats


def heartbeat(state: ClusterState, request: BrokerHeartbeatRequest, now_ms: int) -> Decision:
    broker_id, heartbeats = request.broker_id, state.heartbeats
    registered_at = state.registration_offsets.get(broker_id)
    if registered_at is None:
        raise StaleBrokerEpochError(f"Receive a heartbeat from broker {broker_id} before registration")
    state.check_broker_epoch(broker_id, request.broker_epoch)
    has_caught_up = request.current_metadata_offset >= registered_at
    before = heartbeats.state(broker_id)
    after = heartbeats.next_state(
        broker_id,
        wants_fence=request.want_fence,
        wants_shutdown=request.want_shut_down,
        has_caught_up=has_caught_up,
        leads=state.index.leads(broker_id),
    )
    offline = _newly_offline(state, request)
    if offline and after is BrokerState.UNFENCED:
        after = before  # an election by this heartbeat would take the replicas there for online: the next one decides
    records: list[VersionedRecord] = []
    if after is not before:
        if after.is_fenced:
            records += fenced(state, broker_id)
        elif after is BrokerState.UNFENCED:
            records += _unfenced(state, broker_id)
        else:
            records += _in_controlled_shutdown(state, broker_id)
    records += _directory_changes(state, request, offline)
    response = BrokerHeartbeatResponse(
        is_caught_up=has_caught_up,
        is_fenced=after.is_fenced,
        should_shut_down=after is BrokerState.SHUTDOWN_NOW,
    )

    def written(offset: int) -> None:
        heartbeats.touch(broker_id, now_ms, request.current_metadata_offset, after)
        if after is BrokerState.CONTROLLED_SHUTDOWN:
            heartbeats.shutting_down(broker_id, offset)

    return Decision(response, records, written)


def fenced(state: ClusterState, broker_id: int) -> list[VersionedRecord]:
    """The broker leaves every ISR and leads nothing any more."""
    epoch = state.image.brokers[broker_id].epoch
    records = state.broker_changes(state.index.in_sync(broker_id), leaving=broker_id)
    if not state.image.brokers[broker_id].is_fenced:
        records.append(VersionedRecord(_change(broker_id, epoch, fenced=1), 0))
    return records


def _unfenced(state: ClusterState, broker_id: int) -> list[VersionedRecord]:
    change = _change(broker_id, state.image.brokers[broker_id].epoch, fenced=-1)
    return [
        VersionedRecord(change, 0),
        *state.broker_changes(state.index.leaderless(), joining=broker_id),
    ]


def _in_controlled_shutdown(state: ClusterState, broker_id: int) -> list[VersionedRecord]:
    broker = state.image.brokers[broker_id]
    records = []
    if not broker.in_controlled_shutdown:
        change = BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=1
        )
        records.append(VersionedRecord(change, 1))
    return records + state.broker_changes(state.index.in_sync(broker_id), leaving=broker_id)


def _change(broker_id: int, epoch: int, *, fenced: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=fenced)


def _newly_offline(state: ClusterState, request: BrokerHeartbeatRequest) -> list[DirectoryId]:
    if not has_directories(state.image.metadata_version):
        return []
    return [each for each in state.image.brokers[request.broker_id].directories if each in request.offline_log_dirs]


def _directory_changes(
    state: ClusterState, request: BrokerHeartbeatRequest, offline: Sequence[DirectoryId]
) -> list[VersionedRecord]:
    broker = state.image.brokers[request.broker_id]
    records = directories_offline(state, broker, offline) if offline else []
    cordoned = request.cordoned_log_dirs
    if not has_cordoned_directories(state.image.metadata_version) or cordoned is None:
        return records
    if broker.cordoned_directories is None or set(cordoned) != set(broker.cordoned_directories):
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
        )
        records.append(VersionedRecord(change, 3))
    return records


def silent_broker(state: ClusterState, now_ms: int) -> tuple[int, list[VersionedRecord]] | None:
    """The broker to fence, for its silence, and what does it. One at a time: each changes what can lead."""
    broker_id = state.heartbeats.silent(now_ms)
    if broker_id is None:
        return None
    return broker_id, fenced(state, broker_id) if broker_id in state.image.brokers else []


# The end


def unregister(state: ClusterState, request: UnregisterBrokerRequest) -> Decision:
    broker_id = request.broker_id
    broker = state.image.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredError(f"Broker ID {broker_id} is not currently registered")
    partitions = dict.fromkeys([*state.index.in_sync(broker_id), *state.index.eligible(broker_id)])
    records = state.broker_changes(partitions, leaving=broker_id)
    record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    records.append(VersionedRecord(record, 0))
    return Decision(UnregisterBrokerResponse(error_message=None), records, lambda _: state.heartbeats.remove(broker_id))
