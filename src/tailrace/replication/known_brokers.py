"""What the cluster's metadata says of the brokers that hold replicas: who lives, in which epoch, and may be in sync."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.metadata.broker_registration import BrokerRegistration
from tailrace.replication.replica_state import ANY_BROKER_EPOCH, ReplicaState


class KnownBrokers:
    """Shared by all partitions of a node; `registrations` follows the metadata."""

    def __init__(self, registrations: Mapping[int, BrokerRegistration] | None = None) -> None:
        self.registrations: Mapping[int, BrokerRegistration] = registrations or {}

    def is_alive(self, broker: int) -> bool:
        return self.live_epoch(broker) is not None

    def live_epoch(self, broker: int) -> int | None:
        """None for a broker that is fenced or not there."""
        found = self.registrations.get(broker)
        return None if found is None or found.is_fenced else found.epoch

    def is_outdated(self, broker: int, epoch: int) -> bool:
        """A fetch of this epoch was sent before the broker was started again: it speaks of another log."""
        live = self.live_epoch(broker)
        return epoch != ANY_BROKER_EPOCH and live is not None and live > epoch

    def may_join_isr(self, broker: int, state: ReplicaState) -> bool:
        found = self.registrations.get(broker)
        if found is None or not found.is_active or state.broker_epoch is None:
            return False
        return state.broker_epoch in (ANY_BROKER_EPOCH, found.epoch)
