"""Controllers announce themselves: ControllerRegistration, and the active controller's own record."""

from __future__ import annotations

from tailrace.controller.decision import Decision
from tailrace.controller.state import ClusterState
from tailrace.metadata.controller_registration import ControllerRegistration
from tailrace.metadata.endpoint import Endpoint
from tailrace.metadata.versions import has_controller_registrations
from tailrace.model.errors import UnsupportedVersionError
from tailrace.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from tailrace.protocol.record_frame import VersionedRecord


def register(state: ClusterState, request: ControllerRegistrationRequest) -> Decision:
    if not has_controller_registrations(state.image.metadata_version):
        raise UnsupportedVersionError("The current MetadataVersion is too old to support controller registrations.")
    registration = ControllerRegistration(
        id=request.controller_id,
        incarnation_id=request.incarnation_id,
        endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners),
        features={f.name: (f.min_supported_version, f.max_supported_version) for f in request.features},
    )
    return Decision(ControllerRegistrationResponse(error_message=None), [registration.to_record()])


def own_registration(state: ClusterState) -> list[VersionedRecord]:
    """What the active controller writes about itself, where the log does not say it already."""
    identity = state.identity
    registration = ControllerRegistration(
        identity.node_id, identity.incarnation_id, identity.endpoints, dict(identity.features)
    )
    if not has_controller_registrations(state.image.metadata_version):
        return []
    return [] if state.image.controllers.get(identity.node_id) == registration else [registration.to_record()]
