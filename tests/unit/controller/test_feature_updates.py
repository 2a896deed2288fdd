"""UpdateFeatures: which levels the controller finalizes, and what it refuses."""

from __future__ import annotations

import pytest

from support.metadata.controllers import NODE_ID, ControllerRig, MemoryQuorum
from tailrace.metadata.versions import ELR_VERSION, METADATA_VERSION
from tailrace.model.ids import ZERO_DIRECTORY_ID
from tailrace.protocol.messages.broker_registration import Feature
from tailrace.protocol.messages.controller_registration import ControllerRegistrationRequest
from tailrace.protocol.messages.controller_registration import Feature as RegisteredFeature
from tailrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.ledger import NoOpRecord
from tailrace.protocol.records.settings import FeatureLevelRecord
from tailrace.raft.consensus import ErrorCode
from tailrace.raft.voters import Voter


@pytest.fixture
def rig() -> ControllerRig:
    return ControllerRig().brokers(1)


def update(
    rig: ControllerRig, name: str, level: int, kind: int = 1, version: int = 2, validate_only: bool = False
) -> tuple[int, str | None]:
    key = FeatureUpdateKey(feature=name, max_version_level=level)
    if version > 0:
        key.upgrade_type = kind
    request = UpdateFeaturesRequest(feature_updates=[key])
    request.validate_only = validate_only
    answer = rig.ask(request, version)
    return answer.error_code, answer.error_message


WHOLE = "The update failed for all features since the following feature had an error: "


@pytest.mark.parametrize(
    ("name", "level", "kind", "message"),
    [
        (METADATA_VERSION, 30, 1, None),
        (METADATA_VERSION, 30, 2, None),
        ("kraft.version", 0, 1, None),
        (METADATA_VERSION, 31, 1, "Local controller 100 only supports versions 7-30"),
        (METADATA_VERSION, 0, 2, "Local controller 100 only supports versions 7-30"),
        (METADATA_VERSION, -1, 1, "A feature version cannot be less than 0."),
        (METADATA_VERSION, 30, 7, "The controller does not support the given upgrade type."),
        (
            METADATA_VERSION,
            29,
            1,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        ),
        ("no.such", 1, 1, "Local controller 100 does not support this feature."),
        ("no.such", 0, 1, "Feature no.such not found."),
        ("group.version", 1, 1, None),
        ("group.version", 2, 1, "Local controller 100 only supports versions 0-1"),
        ("kraft.version", 2, 1, "Local controller 100 only supports versions 0-1"),
    ],
)
def test_levels_of_features(rig: ControllerRig, name: str, level: int, kind: int, message: str | None) -> None:
    code, text = update(rig, name, level, kind)
    if message is None:
        assert (code, text) == (0, None)
    else:
        assert (code, text) == (95, f"{WHOLE}Invalid update version {level} for feature {name}. {message}")


def test_what_would_lose_records_is_refused(rig: ControllerRig) -> None:
    code, text = update(rig, METADATA_VERSION, 29, 2)
    assert code == 95
    assert text == (
        f"{WHOLE}Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the requested downgrade "
        "because it might delete metadata information."
    )
    code, text = update(rig, METADATA_VERSION, 28, 3)
    assert text is not None
    assert text.endswith("Unsafe metadata downgrade is not supported in this version.")


def test_an_upgrade_and_a_harmless_downgrade() -> None:
    quorum = MemoryQuorum()
    quorum.bootstrap_records = [VersionedRecord(FeatureLevelRecord(name=METADATA_VERSION, feature_level=28), 0)]
    rig = ControllerRig(quorum).brokers(1)
    assert update(rig, METADATA_VERSION, 29, validate_only=True) == (0, None)
    assert rig.image.metadata_version == 28
    assert update(rig, METADATA_VERSION, 29) == (0, None)
    assert rig.image.metadata_version == 29
    assert update(rig, METADATA_VERSION, 28, 2) == (0, None)
    assert rig.image.metadata_version == 28


def test_the_quorum_upgrades_its_own_version(rig: ControllerRig) -> None:
    quorum = rig.quorum
    batches = len(quorum.batches)
    assert update(rig, "kraft.version", 1, validate_only=True) == (0, None)
    assert quorum.kraft_version == 0
    for error, code in ((ErrorCode.REQUEST_TIMED_OUT, 7), (ErrorCode.NOT_LEADER_OR_FOLLOWER, 41)):
        quorum.upgrade_error = error
        assert update(rig, "kraft.version", 1)[0] == code
    quorum.upgrade_error = ErrorCode.INVALID_UPDATE_VERSION
    code, text = update(rig, "kraft.version", 1)
    assert code == 95
    assert text is not None
    assert "Not every voter has reported its directory" in text
    quorum.upgrade_error = ErrorCode.NONE
    assert update(rig, "kraft.version", 1) == (0, None)
    assert quorum.kraft_version == 1
    assert [each.record for each in quorum.batches[batches]] == [NoOpRecord()]
    assert update(rig, "kraft.version", 1) == (0, None)
    batches = len(quorum.batches)
    code, text = update(rig, "kraft.version", 0, 2)
    assert code == 95
    assert text is not None
    assert text.endswith("The voters are records of the log: that cannot be undone.")
    assert len(quorum.batches) == batches


@pytest.mark.parametrize("is_lost", [False, True])
def test_an_upgrade_of_the_quorum_is_acknowledged_when_it_is_committed(rig: ControllerRig, is_lost: bool) -> None:
    rig.quorum.commits_at_once = False
    key = FeatureUpdateKey(feature="kraft.version", max_version_level=1)
    answers = rig.pending(UpdateFeaturesRequest(feature_updates=[key]))
    assert (answers, rig.quorum.kraft_version) == ([], 1)
    if is_lost:
        rig.controller.resigned()
    else:
        rig.quorum.commit()
    assert [each.error_code for each in answers] == [41 if is_lost else 0]


def test_a_level_needs_the_levels_that_it_requires() -> None:
    """Fields for eligible replicas exist from metadata.version 23 on: records before cannot be written with them."""
    quorum = MemoryQuorum()
    quorum.bootstrap_records = [VersionedRecord(FeatureLevelRecord(name=METADATA_VERSION, feature_level=22), 0)]
    rig = ControllerRig(quorum).brokers(1, 2)
    code, text = update(rig, ELR_VERSION, 1)
    assert (code, text) == (
        95,
        f"{WHOLE}Invalid update version 1 for feature {ELR_VERSION}. {ELR_VERSION} could not be set to 1 because it "
        "depends on metadata.version level 23",
    )
    both = [FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=24), FeatureUpdateKey(feature=ELR_VERSION)]
    both[1].max_version_level = 1
    assert rig.ask(UpdateFeaturesRequest(feature_updates=both)).error_code == 0
    assert rig.state.has_elr


def test_a_voter_that_has_not_registered_may_not_support_a_level() -> None:
    quorum = MemoryQuorum()
    quorum.bootstrap_records = [VersionedRecord(FeatureLevelRecord(name=METADATA_VERSION, feature_level=28), 0)]
    quorum.voters = [Voter(node_id, ZERO_DIRECTORY_ID) for node_id in (NODE_ID, 101)]
    rig = ControllerRig(quorum)
    code, text = update(rig, METADATA_VERSION, 29)
    assert code == 95
    assert text is not None
    assert text.endswith("controller 101 has not registered, and may not support this feature")
    request = ControllerRegistrationRequest(
        controller_id=101, features=[RegisteredFeature(name=METADATA_VERSION, max_supported_version=30)]
    )
    assert rig.ask(request).error_code == 0
    assert update(rig, METADATA_VERSION, 29) == (0, None)


def test_a_broker_that_cannot_hinders_all() -> None:
    quorum = MemoryQuorum()
    quorum.bootstrap_records = [VersionedRecord(FeatureLevelRecord(name=METADATA_VERSION, feature_level=28), 0)]
    rig = ControllerRig(quorum)
    rig.register(1, features=[Feature(name=METADATA_VERSION, min_supported_version=7, max_supported_version=28)])
    code, text = update(rig, METADATA_VERSION, 29)
    assert code == 95
    assert text is not None
    assert "Broker 1 only supports versions 7-28" in text


def test_answers_of_older_versions_list_the_features(rig: ControllerRig) -> None:
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=30)])
    for version in (0, 1):
        answer = rig.ask(request, version)
        assert [(each.feature, each.error_code) for each in answer.results] == [(METADATA_VERSION, 0)]
