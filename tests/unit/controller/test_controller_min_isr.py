"""The minimum of in-sync replicas where replicas can be eligible to lead. Kafka 4.3.1 writes the same records."""

from __future__ import annotations

from support.metadata.controllers import BOOTSTRAP, ControllerRig, MemoryQuorum, topic
from tailrace.metadata.image import BROKER_RESOURCE, CLUSTER_DEFAULT
from tailrace.metadata.versions import ELR_VERSION
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.settings import ConfigRecord, FeatureLevelRecord

MIN_ISR = "min.insync.replicas"
ELR = FeatureLevelRecord(name=ELR_VERSION, feature_level=1)


def setting(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=broker, name=MIN_ISR, value=value)


def new_cluster(level: int = 1, **settings: str) -> ControllerRig:
    quorum = MemoryQuorum()
    feature = VersionedRecord(FeatureLevelRecord(name=ELR_VERSION, feature_level=level), 0)
    quorum.bootstrap_records = [*BOOTSTRAP, feature]
    return ControllerRig(quorum, **settings).brokers(1)


def set_feature(rig: ControllerRig, level: int) -> None:
    kind = 1 if level else 2
    key = FeatureUpdateKey(feature=ELR_VERSION, max_version_level=level, upgrade_type=kind)
    assert rig.ask(UpdateFeaturesRequest(feature_updates=[key])).error_code == 0


def alter(rig: ControllerRig, broker: str, value: str | None) -> tuple[int, str | None]:
    operation = 1 if value is None else 0
    config = AlterableConfig(name=MIN_ISR, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name=broker, configs=[config])
    (answer,) = rig.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
    return answer.error_code, answer.error_message


def test_a_new_cluster_has_the_configured_minimum_as_default_of_all_brokers() -> None:
    rig = new_cluster(min_insync_replicas="2")
    assert [each.record for each in rig.quorum.batches[0]][2:-1] == [ELR, setting(CLUSTER_DEFAULT, "2")]
    assert rig.image.broker_config(CLUSTER_DEFAULT) == {MIN_ISR: "2"}


def test_a_new_cluster_without_the_feature_has_no_default() -> None:
    assert new_cluster(level=0).image.broker_config(CLUSTER_DEFAULT) == {}


def test_enabling_the_feature_leaves_one_minimum_for_all_brokers() -> None:
    rig = new_cluster(level=0, min_insync_replicas="3").brokers(2)
    assert alter(rig, "1", "2")[0] == 0
    set_feature(rig, 1)
    assert [each.record for each in rig.quorum.batches[-1]] == [setting(CLUSTER_DEFAULT, "3"), setting("1", None), ELR]
    assert rig.image.configs == {(BROKER_RESOURCE, CLUSTER_DEFAULT): {MIN_ISR: "3"}}


def test_enabling_the_feature_keeps_a_default_that_is_there() -> None:
    rig = new_cluster(level=0)
    assert alter(rig, CLUSTER_DEFAULT, "2")[0] == 0
    set_feature(rig, 1)
    assert [each.record for each in rig.quorum.batches[-1]] == [ELR]
    set_feature(rig, 0)
    set_feature(rig, 1)
    assert [each.record for each in rig.quorum.batches[-1]] == [ELR]
    assert rig.image.broker_config(CLUSTER_DEFAULT) == {MIN_ISR: "2"}


def test_the_minimum_stays_the_same_for_all_brokers() -> None:
    rig = new_cluster()
    rig.create(topic("t"))
    assert alter(rig, "1", "2") == (40, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.")
    assert alter(rig, CLUSTER_DEFAULT, None) == (40, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.")
    assert alter(rig, CLUSTER_DEFAULT, "2")[0] == 0
