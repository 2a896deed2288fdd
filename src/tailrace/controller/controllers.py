"""Registrations of controllers: ControllerRegistration, its request, and the active controller's own record."""

from __future__ import annotations

from tailrace.controller.decision import Decision
from tailrace.controller.state import ClusterState, ControllerIdentity
from tailrace.metadata.controller_registration import ControllerRegistration
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.versions import has_controller_registrations
from tailrace.model.errors import UnsupportedVersionError
from tailrace.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)
from tailrace.protocol.record_frame import VersionedRecord


def register(state: ClusterState, request: ControllerRegistrationRequest) -> Decision:
    if not has_controller_registrations(state.image.metadata_version):
        raise UnsupportedVersionError("The current MetadataVersion is too old to support controller registrations.")
    endpoints = tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners)
    for endpoint in endpoints:
        endpoint.check()
    registration = ControllerRegistration(
        id=request.controller_id,
        incarnation_id=request.incarnation_id,
        endpoints=endpoints,
        features={f.name: (f.min_supported_version, f.max_supported_version) for f in request.features},
        zk_migration_ready=request.zk_migration_ready,
    )
    return Decision(ControllerRegistrationResponse(error_message=None), [registration.to_record()])


def registration_of(identity: ControllerIdentity) -> ControllerRegistration:
    """What the metadata must say about this controller."""
    return ControllerRegistration(
        identity.node_id, identity.incarnation_id, identity.endpoints, dict(identity.features)
    )


def is_registered(identity: ControllerIdentity, image: MetadataImage) -> bool:
    """What a controller registers changes only with its incarnation."""
    known = image.controllers.get(identity.node_id)
    return known is not None and known.incarnation_id == identity.incarnation_id


def registration_request(identity: ControllerIdentity) -> ControllerRegistrationRequest:
    """What this controller sends to the active one."""
    return ControllerRegistrationRequest(
        controller_id=identity.node_id,
        incarnation_id=identity.incarnation_id,
        listeners=[Listener(**endpoint._asdict()) for endpoint in identity.endpoints],
        features=[
            Feature(name=name, min_supported_version=first, max_supported_version=last)
            for name, (first, last) in identity.features.items()
        ],
    )


def own_registration(state: ClusterState) -> list[VersionedRecord]:
    """What the active controller writes about itself, if the metadata does not have it."""
    if has_controller_registrations(state.image.metadata_version) and not is_registered(state.identity, state.image):
        return [registration_of(state.identity).to_record()]
    return []
