"""UpdateFeatures: the levels of features that the whole cluster works at.

A level can be finalized when this controller and every broker and controller that is registered support it, when
every voter of the quorum is registered, and when the levels that it requires are finalized before it or with it.
Stepping down over a level that brought new records is refused: they would be lost.

kraft.version is the level of the quorum, which writes control records for it. A NoOpRecord follows them, as in Kafka:
the response waits until that is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from tailrace.controller.decision import Decision
from tailrace.controller.min_isr import records_to_enable
from tailrace.controller.state import ClusterState
from tailrace.metadata.feature_levels import FeatureLevel, requirements
from tailrace.metadata.versions import (
    CHANGED_RECORDS,
    ELR_VERSION,
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
from tailrace.protocol.records.ledger import NoOpRecord
from tailrace.protocol.records.settings import FeatureLevelRecord

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
_LAST_WITH_RESULTS: Final = 1


class QuorumFeatures(NamedTuple):
    """What decisions depend on that is in no metadata record."""

    kraft_version: int
    voter_ids: Collection[int]


def update_features(
    state: ClusterState, request: UpdateFeaturesRequest, version: int, quorum: QuorumFeatures
) -> Decision:
    """All updates or none. Raises InvalidUpdateVersionError."""
    updates = {update.feature: update for update in request.feature_updates}
    levels = {**state.image.features, METADATA_VERSION: state.image.metadata_version}
    levels |= {name: update.max_version_level for name, update in updates.items()}
    records = []
    try:
        for update in updates.values():
            kind = update.upgrade_type
            if version == 0:
                kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
            _check(state, update, kind, quorum)
            _check_requirements(update, levels)
            if update.feature == KRAFT_VERSION:
                records.append(VersionedRecord(NoOpRecord(), 0))
            else:
                if update.feature == ELR_VERSION and update.max_version_level > 0 and not state.has_elr:
                    records += records_to_enable(state.image, state.config.min_insync_replicas)
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


def _check(state: ClusterState, update: FeatureUpdateKey, upgrade_type: int, quorum: QuorumFeatures) -> None:
    name, level = update.feature, update.max_version_level
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _refusal(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _refusal(update, "A feature version cannot be less than 0.")
    reason = _unsupported(state, name, level, quorum.voter_ids)
    if reason is not None:
        raise _refusal(update, reason)
    if name == METADATA_VERSION:
        present = state.image.metadata_version
    else:
        present = quorum.kraft_version if name == KRAFT_VERSION else state.image.features.get(name, 0)
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
    if name == KRAFT_VERSION and level < present:
        raise _refusal(update, "The voters are records of the log: that cannot be undone.")


def _check_requirements(update: FeatureUpdateKey, levels: Mapping[str, int]) -> None:
    """`levels` are those of all features after the update."""
    for required in requirements(FeatureLevel(update.feature, update.max_version_level)):
        if levels.get(required.feature, 0) < required.level:
            raise _refusal(
                update,
                f"{update.feature} could not be set to {update.max_version_level} because it depends on "
                f"{required.feature} level {required.level}",
            )


def raises_kraft_version(request: UpdateFeaturesRequest, kraft_version: int) -> bool:
    """Whether an update that was not refused asks the quorum for a higher kraft.version than its present one."""
    return not request.validate_only and any(
        update.feature == KRAFT_VERSION and update.max_version_level > kraft_version
        for update in request.feature_updates
    )


def _check_metadata_downgrade(present: int, level: int, upgrade_type: int) -> None:
    if not any(level < changed <= present for changed in CHANGED_RECORDS):
        return
    reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    if upgrade_type == UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    raise InvalidUpdateVersionError(f"Unsupported metadata.version downgrade from {present} to {level}. {reason}")


def _unsupported(state: ClusterState, name: str, level: int, voter_ids: Collection[int]) -> str | None:
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
        for voter_id in voter_ids:
            if voter_id != state.identity.node_id and voter_id not in state.image.controllers:
                return f"controller {voter_id} has not registered, and may not support this feature"
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
