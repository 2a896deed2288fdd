"""Requests that only the controller can answer, but for those about topics."""

from __future__ import annotations

from collections.abc import Iterator

from support.requests.case import DATA, Case, ServerFacts, versions
from tailrace.protocol.message import Request
from tailrace.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tailrace.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest
from tailrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

METADATA_VERSION, ELR_VERSION = "metadata.version", "eligible.leader.replicas.version"
EXISTING = {METADATA_VERSION, ELR_VERSION}
LEVELS = {METADATA_VERSION: (99, 0, 29), ELR_VERSION: (2, 1, 0, -1), "nope": (1, 0), "": (1,)}


def elect_leaders(facts: ServerFacts) -> Iterator[Case]:
    for version in versions(ElectLeadersRequest):
        some = [TopicPartitions(topic=DATA, partitions=[0, 9]), TopicPartitions(topic="nope", partitions=[0])]
        for kind in (0, 1, 2) if version >= 1 else (0,):
            yield Case(f"some, type {kind}", ElectLeadersRequest(topic_partitions=some, election_type=kind), version)
        yield Case("all", ElectLeadersRequest(topic_partitions=None), version)
        yield Case("nothing", ElectLeadersRequest(topic_partitions=[]), version)


def describe_quorum(facts: ServerFacts) -> Iterator[Case]:
    def of(*topics: tuple[str, list[int]]) -> Request:
        return DescribeQuorumRequest(
            topics=[
                RequestTopicData(
                    topic_name=name, partitions=[RequestPartitionData(partition_index=index) for index in indexes]
                )
                for name, indexes in topics
            ]
        )

    quorum = "__cluster_metadata"
    for version in versions(DescribeQuorumRequest):
        yield Case("the quorum", of((quorum, [0])), version)
        yield Case("another", of(("nope", [0])), version)
        yield Case("nothing", of(), version)
        yield Case("partition 1", of((quorum, [1])), version)
        yield Case("two partitions", of((quorum, [0, 1])), version)
        yield Case("two topics", of((quorum, [0]), ("nope", [0])), version)


def acls(facts: ServerFacts) -> Iterator[Case]:
    """On servers without an authorizer. 0 is an unknown resource type, operation or kind of permission."""
    for version in versions(CreateAclsRequest):
        for resource, operation, permission in ((2, 3, 3), (99, 99, 99), (0, 3, 3), (2, 0, 3), (2, 3, 0)):
            what = f"type {resource}, operation {operation}, permission {permission}"
            created = AclCreation(resource_name="t", principal="User:a", host="*")
            created.resource_type, created.operation, created.permission_type = resource, operation, permission
            yield Case(what, CreateAclsRequest(creations=[created, created]), version)
            deleted = DeleteAclsFilter(resource_type_filter=resource, operation=operation, permission_type=permission)
            yield Case(what, DeleteAclsRequest(filters=[deleted, deleted]), version)
            described = DescribeAclsRequest(
                resource_type_filter=resource, operation=operation, permission_type=permission
            )
            yield Case(what, described, version)
        yield Case("nothing", CreateAclsRequest(), version)
        yield Case("nothing", DeleteAclsRequest(), version)


def update_features(facts: ServerFacts) -> Iterator[Case]:
    """Only tried, but for those that are refused in any case: version 0 cannot just try."""
    for version in versions(UpdateFeaturesRequest):
        for feature, levels in LEVELS.items():
            if version == 0 and feature in EXISTING:
                continue
            for level in levels:
                for kind in (1, 2, 3, 9) if version >= 1 else (1,):
                    key = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
                    request = UpdateFeaturesRequest(feature_updates=[key], validate_only=version >= 1)
                    yield Case(f"{feature!r} to {level}, type {kind}", request, version)
        yield Case("nothing", UpdateFeaturesRequest(), version)


def unregister_broker(facts: ServerFacts) -> Iterator[Case]:
    for broker_id in (7, -1):
        yield Case(f"broker {broker_id}", UnregisterBrokerRequest(broker_id=broker_id), 0)
