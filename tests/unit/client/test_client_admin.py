from __future__ import annotations

from typing import Any

import pytest

from support.brokers.scripted import HANG_UP, Pauses, ScriptedBroker
from tailrace.client.admin import TO_HIGH_WATERMARK, Admin
from tailrace.client.cluster import Cluster
from tailrace.client.cluster_admin import ClusterAdmin
from tailrace.client.config_admin import ConfigAdmin, Resource
from tailrace.client.errors import NoAnswerError, class_of
from tailrace.client.feature_admin import FeatureAdmin
from tailrace.client.offsets import EARLIEST, LATEST
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.api_versions import (
    ApiVersionsRequest,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tailrace.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tailrace.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tailrace.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

ZERO = TopicPartition("orders", 0)


def creates(broker: ScriptedBroker, request: CreateTopicsRequest, code: int = 0) -> CreateTopicsResponse:
    (wanted,) = request.topics
    if not code and wanted.name in broker.topics:
        code = 36
    if not code:
        broker.add_topic(wanted.name, max(wanted.num_partitions, 1))
    said = CreatableTopicResult(name=wanted.name, error_code=code, num_partitions=3, replication_factor=1)
    return CreateTopicsResponse(topics=[said])


def test_creating_waits_until_the_topic_can_be_used(broker: ScriptedBroker, cluster: Cluster, pauses: Pauses) -> None:
    broker.answers[CreateTopicsRequest] = lambda request: creates(broker, request)
    created = Admin(cluster).create_topic("orders", partitions=3, configs={"retention.ms": "1"})
    assert (created.name, created.partitions) == ("orders", 3)
    (request,) = broker.requests(CreateTopicsRequest)
    assert [(each.name, each.value) for each in request.topics[0].configs] == [("retention.ms", "1")]
    assert request.topics[0].replication_factor == -1


def test_a_topic_that_we_made_ourselves_before_the_answer_was_lost(broker: ScriptedBroker, cluster: Cluster) -> None:
    def unheard(request: CreateTopicsRequest) -> Any:
        response = creates(broker, request)
        return HANG_UP if len(broker.requests(CreateTopicsRequest)) == 1 else response

    broker.answers[CreateTopicsRequest] = unheard
    Admin(cluster).create_topic("orders")
    assert len(broker.requests(CreateTopicsRequest)) == 2


def test_a_topic_that_was_there_before(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders")
    broker.answers[CreateTopicsRequest] = lambda request: creates(broker, request)
    with pytest.raises(class_of(36)):
        Admin(cluster).create_topic("orders")


def test_a_controller_that_moves_is_waited_for(broker: ScriptedBroker, cluster: Cluster, pauses: Pauses) -> None:
    codes = iter([41, 41, 0])
    broker.answers[CreateTopicsRequest] = lambda request: creates(broker, request, next(codes))
    Admin(cluster).create_topic("orders")
    assert pauses.seconds[:2] == [0.05, 0.1]


def test_an_assignment_stands_for_the_numbers(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.answers[CreateTopicsRequest] = lambda request: creates(broker, request)
    Admin(cluster).create_topic("orders", partitions=9, assignment={0: [1], 1: [1]})
    (request,) = broker.requests(CreateTopicsRequest)
    assert request.topics[0].num_partitions == -1
    assert [(each.partition_index, each.broker_ids) for each in request.topics[0].assignments] == [(0, [1]), (1, [1])]


@pytest.mark.parametrize("newest", [5, 6])
def test_deleting_waits_until_it_is_gone(broker: ScriptedBroker, cluster: Cluster, newest: int) -> None:
    broker.versions[DeleteTopicsRequest.KEY] = (1, newest)
    broker.add_topic("orders")

    def delete(request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        names = [each.name for each in request.topics] or request.topic_names
        assert names == ["orders"]
        code = 0 if broker.topics.pop("orders", None) else 3
        return DeleteTopicsResponse(responses=[DeletableTopicResult(name="orders", error_code=code)])

    broker.answers[DeleteTopicsRequest] = delete
    admin = Admin(cluster)
    admin.delete_topic("orders")
    with pytest.raises(class_of(3)):
        admin.delete_topic("orders")


def test_a_topic_that_does_not_go_is_told(broker: ScriptedBroker) -> None:
    broker.add_topic("orders")
    gone = DeleteTopicsResponse(responses=[DeletableTopicResult(name="orders")])
    broker.answers[DeleteTopicsRequest] = lambda _: gone
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    with (
        Cluster(broker.address, timeout_s=5, pause=pause, clock=lambda: now[0]) as cluster,
        pytest.raises(NoAnswerError, match="waited 5 s for topic orders to go"),
    ):
        Admin(cluster).delete_topic("orders")


def test_partitions_are_added(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.add_topic("orders")

    def add(request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        (wanted,) = request.topics
        if wanted.count <= len(broker.topics["orders"]):
            result = CreatePartitionsTopicResult(name="orders", error_code=37, error_message="too few")
        else:
            broker.add_topic("orders", wanted.count)
            result = CreatePartitionsTopicResult(name="orders")
        return CreatePartitionsResponse(results=[result])

    broker.answers[CreatePartitionsRequest] = add
    Admin(cluster).add_partitions("orders", 4)
    with pytest.raises(class_of(37), match="too few"):
        Admin(cluster).add_partitions("orders", 2)


def test_offsets_and_deleted_records(broker: ScriptedBroker, cluster: Cluster) -> None:
    (log,) = broker.add_topic("orders")
    log.start, log.end = 3, 9

    def delete(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        (each,) = request.topics[0].partitions
        log.start = log.end if each.offset == TO_HIGH_WATERMARK else each.offset
        code = 1 if log.start > log.end else 0
        result = DeleteRecordsPartitionResult(partition_index=0, low_watermark=log.start, error_code=code)
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="orders", partitions=[result])])

    broker.answers[DeleteRecordsRequest] = delete
    admin = Admin(cluster)
    assert admin.offsets_of([ZERO], EARLIEST) == {ZERO: 3}
    assert admin.find_offsets({ZERO: LATEST})[ZERO].offset == 9
    assert admin.delete_records({ZERO: 5}) == {ZERO: 5}
    assert admin.delete_records({ZERO: TO_HIGH_WATERMARK}) == {ZERO: 9}
    with pytest.raises(class_of(1), match="deleting records of orders-0 below 99"):
        admin.delete_records({ZERO: 99})


def test_settings_are_described_and_changed(broker: ScriptedBroker, cluster: Cluster) -> None:
    entries = [
        DescribeConfigsResourceResult(name="b", value="2", config_source=1, config_type=3),
        DescribeConfigsResourceResult(name="a", value=None, config_source=5, is_sensitive=True, read_only=True),
    ]
    broker.answers[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(
        results=[DescribeConfigsResult(configs=entries)]
    )
    codes = iter([0, 40])
    broker.answers[IncrementalAlterConfigsRequest] = lambda _: IncrementalAlterConfigsResponse(
        responses=[AlterConfigsResourceResponse(error_code=next(codes), error_message="no")]
    )
    admin = ConfigAdmin(cluster)
    first, second = admin.describe(Resource.topic("orders"))
    assert (first.name, first.is_override, first.source, first.is_sensitive) == ("a", False, "default", True)
    assert (second.name, second.is_override, second.source, second.type) == ("b", True, "topic", "int")
    admin.alter(
        Resource.broker(1), values={"x": "1"}, unset=["y"], append={"z": "2"}, subtract={"w": "3"}, validate_only=True
    )
    (request,) = broker.requests(IncrementalAlterConfigsRequest)
    changes = [(each.name, each.config_operation, each.value) for each in request.resources[0].configs]
    assert changes == [("x", 0, "1"), ("y", 1, None), ("z", 2, "2"), ("w", 3, "3")]
    assert request.validate_only
    with pytest.raises(class_of(40), match="no"):
        admin.alter(Resource.topic("orders"), values={"x": "1"})


@pytest.mark.parametrize(
    ("resource", "overrides"),
    [
        (Resource.topic("orders"), {"topic"}),
        (Resource.broker(1), {"broker"}),
        (Resource.cluster_default(), {"cluster default"}),
    ],
)
def test_a_value_set_for_the_resource_itself_is_its_override(
    broker: ScriptedBroker, cluster: Cluster, resource: Resource, overrides: set[str]
) -> None:
    entries = [
        DescribeConfigsResourceResult(name=f"{source}", value="1", config_source=source) for source in range(1, 6)
    ]
    broker.answers[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(
        results=[DescribeConfigsResult(configs=entries)]
    )
    described = ConfigAdmin(cluster).describe(resource)
    assert {entry.source for entry in described if entry.is_override} == overrides


def test_directories_features_and_a_disk_that_is_gone(broker: ScriptedBroker, cluster: Cluster) -> None:
    parts = [DescribeLogDirsPartition(partition_index=at, partition_size=size) for at, size in enumerate([1, 9])]
    good = DescribeLogDirsResult(log_dir="/b", topics=[DescribeLogDirsTopic(name="orders", partitions=parts)])
    lost = DescribeLogDirsResult(log_dir="/a", error_code=56)
    broker.answers[DescribeLogDirsRequest] = lambda _: DescribeLogDirsResponse(results=[good, lost])
    first, second = ClusterAdmin(cluster).log_dirs([1], [ZERO])
    assert first.error is not None
    assert first.error.code == 56
    assert [(str(each.partition), each.size_bytes) for each in second.partitions] == [("orders-1", 9), ("orders-0", 1)]
    (request,) = broker.requests(DescribeLogDirsRequest)
    assert request.topics is not None
    assert [(each.topic, each.partitions) for each in request.topics] == [("orders", [0])]

    def versions(_: object) -> Any:
        response = broker._api_versions(0)
        response.supported_features = [SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30)]
        response.finalized_features = [FinalizedFeatureKey(name="metadata.version", max_version_level=29)]
        return response

    broker.answers[ApiVersionsRequest] = versions
    assert FeatureAdmin(cluster).features() == [("metadata.version", (7, 30), 29)]
