"""UpdateFeatures: the levels of features that the whole cluster works at.

A level can be finalised when this controller and every broker and controller that is registered support it. Stepping
down over a level that brought new records is refused: they would be lost.
"""

from __future__ import annotations

from typing import Final

from tailrace.controller.decision import Decision
from tailrace.controller.state import ClusterState
from tailrace.metadata.versions import (
    CHANGED_RECORDS,
    KRAFT_VERSION,
    METADATA_VERSION,
    has_controller_registrations,
)
from tailrace.model.errors import InvalidUpdateVersionError
from tailrace.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.settings import FeatureLevelRecord

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
_LAST_WITH_RESULTS: Final = 1


def update_features(state: ClusterState, request: UpdateFeaturesRequest, version: int, kraft_version: int) -> Decision:
    """All updates or none. Raises InvalidUpdateVersionError."""
    updates = {update.feature: update for update in request.feature_updates}
    records = []
    try:
        for update in updates.values():
            kind = update.upgrade_type
            if version == 0:
                kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
            if _changes(state, update, kind, kraft_version):
                record = FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
                records.append(VersionedRecord(record, 0))
    except InvalidUpdateVersionError as error:
        raise InvalidUpdateVersionError(
            f"The update failed for all features since the following feature had an error: {error}"
        ) from None
    response = UpdateFeaturesResponse(error_message=None)
    if version <= _LAST_WITH_RESULTS:
        response.results = [UpdatableFeatureResult(feature=name, error_message="NONE") for name in updates]
    return Decision(response, () if request.validate_only else records)


def _changes(state: ClusterState, update: FeatureUpdateKey, upgrade_type: int, kraft_version: int) -> bool:
    """Whether a record is to be written."""
    name, level = update.feature, update.max_version_level
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _refusal(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _refusal(update, "A feature version cannot be less than 0.")
    reason = _unsupported(state, name, level)
    if reason is not None:
        raise _refusal(update, reason)
    if name == METADATA_VERSION:
        present = state.image.metadata_version
    else:
        present = kraft_version if name == KRAFT_VERSION else state.image.features.get(name, 0)
    if level < present:
        if upgrade_type == UPGRADE:
            raise _refusal(
                update,
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
                "unsafe downgrade.",
            )
        if name == METADATA_VERSION:
            _check_metadata_downgrade(present, level, upgrade_type)
    elif level > present and upgrade_type != UPGRADE:
        raise _refusal(update, "Can't downgrade to a newer version.")
    if name == KRAFT_VERSION and level != present:
        raise _refusal(update, "The quorum keeps the version that it was formatted with.")
    # At its present level there is nothing to do: the quorum's version is no metadata record.
    return name != KRAFT_VERSION


def _check_metadata_downgrade(present: int, level: int, upgrade_type: int) -> None:
    if not any(level < changed <= present for changed in CHANGED_RECORDS):
        return
    reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    if upgrade_type == UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    raise InvalidUpdateVersionError(f"Unsupported metadata.version downgrade from {present} to {level}. {reason}")


def _unsupported(state: ClusterState, name: str, level: int) -> str | None:
    local = state.identity.features.get(name)
    whose = f"Local controller {state.identity.node_id}"
    if local is None and level == 0:
        return f"Feature {name} not found."
    reason = _out_of_range(whose, local, level)
    if reason is not None:
        return reason
    for broker in state.image.brokers.values():
        reason = _out_of_range(f"Broker {broker.id}", broker.features.get(name), level)
        if reason is not None:
            return reason
    if has_controller_registrations(state.image.metadata_version):
        for controller in state.image.controllers.values():
            if controller.id != state.identity.node_id:
                reason = _out_of_range(f"Controller {controller.id}", controller.features.get(name), level)
                if reason is not None:
                    return reason
    return None


def _out_of_range(whose: str, span: tuple[int, int] | None, level: int) -> str | None:
    if span is None:
        return None if level == 0 else f"{whose} does not support this feature."
    first, last = span
    return None if first <= level <= last else f"{whose} only supports versions {_shown(first, last)}"


def _shown(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _refusal(update: FeatureUpdateKey, reason: str) -> InvalidUpdateVersionError:
    return InvalidUpdateVersionError(
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}"
    )
