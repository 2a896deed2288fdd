"""A scripted broker that can also be administered: topics, settings, directories, the quorum, all in memory."""

from __future__ import annotations

from support.brokers.scripted import Log, ScriptedBroker, topic_id
from tailrace.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
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
from tailrace.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
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
from tailrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

DEFAULTS = {
    2: {"cleanup.policy": "delete", "retention.ms": "604800000", "segment.bytes": "1073741824"},
    4: {"log.cleaner.threads": "1", "log.retention.ms": "604800000", "ssl.key.password": None},
}


class AdministeredBroker(ScriptedBroker):
    def __init__(self) -> None:
        super().__init__()
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.answers = {
            ApiVersionsRequest: lambda _: self.versions_with_features(),
            CreateTopicsRequest: self.create,
            DeleteTopicsRequest: self.delete,
            CreatePartitionsRequest: self.add_partitions,
            DeleteRecordsRequest: self.delete_records,
            DescribeConfigsRequest: self.describe_configs,
            IncrementalAlterConfigsRequest: self.alter_configs,
            DescribeClusterRequest: self.describe_cluster,
            DescribeLogDirsRequest: self.log_dirs,
            DescribeQuorumRequest: self.quorum,
        }

    def versions_with_features(self) -> ApiVersionsResponse:
        response = self._api_versions(0)
        response.supported_features = [
            SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1),
            SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30),
        ]
        response.finalized_features = [FinalizedFeatureKey(name="metadata.version", max_version_level=29)]
        return response

    def create(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        (wanted,) = request.topics
        code = 36 if wanted.name in self.topics else 17 if "/" in wanted.name else 0
        if not code and not request.validate_only:
            self.add_topic(wanted.name, max(wanted.num_partitions, 1))
            self.configs[2, wanted.name] = {each.name: each.value or "" for each in wanted.configs}
        message = {36: f"Topic '{wanted.name}' already exists.", 17: "not a name"}.get(code)
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name=wanted.name, error_code=code, error_message=message)]
        )

    def delete(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        (wanted,) = request.topics
        code = 0 if self.topics.pop(wanted.name or "", None) else 3
        return DeleteTopicsResponse(responses=[DeletableTopicResult(name=wanted.name, error_code=code)])

    def add_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        (wanted,) = request.topics
        logs = self.topics[wanted.name]
        code = 37 if wanted.count <= len(logs) else 0
        logs += [Log() for _ in range(wanted.count - len(logs))]
        result = CreatePartitionsTopicResult(name=wanted.name, error_code=code, error_message="too few")
        return CreatePartitionsResponse(results=[result])

    def delete_records(self, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        topics = []
        for topic in request.topics:
            results = []
            for each in topic.partitions:
                log = self.topics[topic.name][each.partition_index]
                log.start = log.end if each.offset < 0 else each.offset
                results.append(
                    DeleteRecordsPartitionResult(partition_index=each.partition_index, low_watermark=log.start)
                )
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
        return DeleteRecordsResponse(topics=topics)

    def describe_configs(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        (wanted,) = request.resources
        own = self.configs.get((wanted.resource_type, wanted.resource_name), {})
        source = 1 if wanted.resource_type == 2 else 2 if wanted.resource_name else 3
        keys = own if not wanted.resource_name else DEFAULTS[wanted.resource_type] | own
        configs = [
            DescribeConfigsResourceResult(
                name=key,
                value=value,
                config_source=source if key in own else 5,
                is_sensitive=key.endswith("password"),
                documentation="what it is for" if request.include_documentation else None,
            )
            for key, value in keys.items()
        ]
        return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=configs)])

    def alter_configs(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        (wanted,) = request.resources
        bad = next((each for each in wanted.configs if each.value == "oops"), None)
        own = self.configs.setdefault((wanted.resource_type, wanted.resource_name), {})
        if bad is None and not request.validate_only:
            for each in wanted.configs:
                if each.config_operation == 0:
                    own[each.name] = each.value or ""
                else:
                    own.pop(each.name, None)
        said = AlterConfigsResourceResponse(
            error_code=40 if bad else 0, error_message=f"Invalid value oops for {bad.name}" if bad else None
        )
        return IncrementalAlterConfigsResponse(responses=[said])

    def describe_cluster(self, _: object) -> DescribeClusterResponse:
        broker = DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=self.port, rack="west")
        return DescribeClusterResponse(cluster_id="a-cluster", controller_id=1, brokers=[broker])

    def log_dirs(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        wanted = None if request.topics is None else {each.topic for each in request.topics}
        topics = [
            DescribeLogDirsTopic(
                name=name,
                partitions=[
                    DescribeLogDirsPartition(partition_index=at, partition_size=sum(map(len, log.batches)))
                    for at, log in enumerate(logs)
                ],
            )
            for name, logs in self.topics.items()
            if wanted is None or name in wanted
        ]
        good = DescribeLogDirsResult(
            log_dir="/data/one", topics=topics, total_bytes=1 << 40, usable_bytes=1 << 38, is_cordoned=True
        )
        return DescribeLogDirsResponse(results=[good, DescribeLogDirsResult(log_dir="/data/two", error_code=56)])

    def quorum(self, _: object) -> DescribeQuorumResponse:
        voters = [
            ReplicaState(replica_id=1, replica_directory_id=topic_id("d"), log_end_offset=120),
            ReplicaState(replica_id=2, log_end_offset=110),
        ]
        part = ResponsePartitionData(leader_id=1, leader_epoch=4, high_watermark=115, current_voters=voters)
        topic = ResponseTopicData(topic_name="__cluster_metadata", partitions=[part])
        node = Node(node_id=1, listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=9093)])
        return DescribeQuorumResponse(topics=[topic], nodes=[node])
