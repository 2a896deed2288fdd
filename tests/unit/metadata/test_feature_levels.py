"""Feature levels of releases, as Kafka 4.3.1's StorageTool states them."""

from __future__ import annotations

import pytest

from tailrace.metadata.feature_levels import (
    FeatureLevel,
    default_levels,
    metadata_version_of,
    requirements,
    unmet_requirements,
)
from tailrace.metadata.versions import (
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    MINIMUM_METADATA_VERSION,
    NAMES,
    NEW_CLUSTER_FEATURES,
    SUPPORTED_FEATURES,
)


def test_the_latest_defaults_are_those_of_a_new_cluster() -> None:
    levels = default_levels(LATEST_METADATA_VERSION)
    assert levels.pop(KRAFT_VERSION) == 1
    assert levels == NEW_CLUSTER_FEATURES


@pytest.mark.parametrize(
    ("release", "version", "levels"),
    [
        ("3.8", 20, (0, 0, 0, 0, 0, 0)),
        ("3.9", 21, (1, 0, 0, 0, 0, 0)),
        ("4.0-IV0", 22, (1, 0, 1, 0, 0, 0)),
        ("4.0.2", 25, (1, 2, 1, 0, 0, 0)),
        ("4.1", 27, (1, 2, 1, 1, 0, 0)),
        ("4.2-IV0", 28, (1, 2, 1, 1, 1, 0)),
        ("4.2", 29, (1, 2, 1, 1, 1, 1)),
        ("4.3-IV0", 30, (1, 2, 1, 1, 1, 1)),
    ],
)
def test_a_release_has_kafkas_default_levels(release: str, version: int, levels: tuple[int, ...]) -> None:
    """The table that `kafka-storage version-mapping` of 4.3.1 prints, in its order."""
    assert metadata_version_of(release) == version
    assert tuple(default_levels(version).values()) == levels
    assert list(default_levels(version)) == [
        "kraft.version",
        "transaction.version",
        "group.version",
        "eligible.leader.replicas.version",
        "share.version",
        "streams.version",
    ]


def test_every_level_has_a_name_that_is_understood() -> None:
    assert sorted(NAMES) == list(range(MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION + 1))
    for level, name in NAMES.items():
        assert metadata_version_of(name) == level


@pytest.mark.parametrize("text", ["", "4", "4.", "4.9", "3.2", "4.0-IV9", "4.0-IV", "4.00", "v4.0", " 4.0", "٤.0"])
def test_what_is_not_a_release_has_no_level(text: str) -> None:
    assert metadata_version_of(text) is None


def test_default_levels_meet_their_own_requirements() -> None:
    for version in NAMES:
        assert list(unmet_requirements({"metadata.version": version, **default_levels(version)})) == []


def test_eligible_leader_replicas_require_a_metadata_version() -> None:
    elr = FeatureLevel("eligible.leader.replicas.version", 1)
    required = FeatureLevel("metadata.version", 23)
    assert requirements(elr) == (required,)
    assert list(unmet_requirements({**dict([elr]), "metadata.version": 22})) == [(elr, required)]
    assert list(unmet_requirements({**dict([elr]), "metadata.version": 23})) == []
    assert list(unmet_requirements(dict([elr]))) == [(elr, required)]
    others = [FeatureLevel(name, last) for name, (_, last) in SUPPORTED_FEATURES.items() if name != elr.feature]
    assert [requirements(each) for each in others] == [()] * len(others)
    assert str(required) == "metadata.version=23 (4.0-IV1)"
    assert str(elr) == "eligible.leader.replicas.version=1"
