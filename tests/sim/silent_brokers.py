"""Registers a second broker with the controller of a simulated node; no process answers for it."""

from __future__ import annotations

from typing import Any

from support.brokers.simulated import CONTROLLER, SimBroker
from tailrace.metadata.versions import SUPPORTED_FEATURES
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener


def register_silent_broker(broker: SimBroker) -> None:
    controller = broker.client(CONTROLLER)
    registration = BrokerRegistrationRequest(
        broker_id=2,
        cluster_id=broker.node.cluster_id,
        incarnation_id=bytes([2]) * 16,
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9192, security_protocol=0)],
        features=[
            Feature(name=name, min_supported_version=first, max_supported_version=last)
            for name, (first, last) in SUPPORTED_FEATURES.items()
        ],
        log_dirs=[bytes([200]) * 16],
    )
    registered: Any = controller.ask(registration, 4)
    assert registered.error_code == 0, registered
    beat: Any = controller.ask(
        BrokerHeartbeatRequest(
            broker_id=2,
            broker_epoch=registered.broker_epoch,
            current_metadata_offset=broker.node.image.offset,
        ),
        1,
    )
    assert not beat.is_fenced, beat
