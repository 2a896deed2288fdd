"""Bytes of a foreign client, kafka-python: its requests are understood, and it understands our responses."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsRequest as ForeignCreateTopics
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import FetchRequest as ForeignFetch
from kafka.protocol.consumer import ListOffsetsRequest as ForeignListOffsets
from kafka.protocol.metadata import ApiVersionsRequest as ForeignApiVersions
from kafka.protocol.metadata import ApiVersionsResponse as ForeignApiVersionsResponse
from kafka.protocol.metadata import MetadataRequest as ForeignMetadata
from kafka.protocol.metadata import MetadataResponse as ForeignMetadataResponse
from kafka.protocol.producer import ProduceRequest as ForeignProduce

from tailrace.protocol.frame import decode_request, decode_request_header, encode_request, encode_response, frame_bytes
from tailrace.protocol.headers import RequestHeader
from tailrace.protocol.message import Request
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tailrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def foreign_frame(message: ApiMessage, version: int) -> bytes:
    """As kafka-python would send it."""
    message.with_header(correlation_id=11, client_id="kafka-python")
    return bytes(message.encode(version=version, header=True, framed=True))


def foreign_requests() -> dict[str, tuple[Any, Request, range]]:
    """What kafka-python sends, what that is to us, and the versions to try."""
    partition = {"partition": 3, "fetch_offset": 77, "partition_max_bytes": 1024}
    foreign_topic = ForeignFetch.FetchTopic
    topic = {"name": "new", "num_partitions": 3, "replication_factor": 1}
    config = {"name": "retention.ms", "value": "1000"}
    foreign_creatable = ForeignCreateTopics.CreatableTopic
    offset = {"partition_index": 1, "timestamp": -1}
    foreign_offsets = ForeignListOffsets.ListOffsetsTopic
    foreign_data = ForeignProduce.TopicProduceData
    software = {"client_software_name": "kafka-python", "client_software_version": "3.0"}
    return {
        "fetch": (
            ForeignFetch(
                max_wait_ms=500,
                min_bytes=1,
                topics=[foreign_topic(topic="orders", partitions=[foreign_topic.FetchPartition(**partition)])],
            ),
            FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                topics=[FetchTopic(topic="orders", partitions=[FetchPartition(**partition)])],
            ),
            range(4, 13),
        ),
        "produce": (
            ForeignProduce(
                acks=-1,
                timeout_ms=30_000,
                topic_data=[
                    foreign_data(
                        name="orders", partition_data=[foreign_data.PartitionProduceData(index=0, records=b"batch")]
                    )
                ],
            ),
            ProduceRequest(
                transactional_id=None,
                acks=-1,
                timeout_ms=30_000,
                topic_data=[TopicProduceData(name="orders", partition_data=[PartitionProduceData(records=b"batch")])],
            ),
            range(3, 13),
        ),
        "create topics": (
            ForeignCreateTopics(
                topics=[
                    foreign_creatable(
                        **topic, assignments=[], configs=[foreign_creatable.CreatableTopicConfig(**config)]
                    )
                ],
                timeout_ms=500,
            ),
            CreateTopicsRequest(
                topics=[CreatableTopic(**topic, configs=[CreatableTopicConfig(**config)])],  # type: ignore[arg-type]
                timeout_ms=500,
            ),
            range(2, 8),
        ),
        "list offsets": (
            ForeignListOffsets(
                replica_id=-1,
                topics=[foreign_offsets(name="orders", partitions=[foreign_offsets.ListOffsetsPartition(**offset)])],
            ),
            ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(**offset)])]
            ),
            range(1, 9),
        ),
        "metadata": (
            ForeignMetadata(topics=[ForeignMetadata.MetadataRequestTopic(name=name) for name in ("orders", "ключ")]),
            MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("orders", "ключ")]),
            range(4, 10),
        ),
        "api versions": (ForeignApiVersions(**software), ApiVersionsRequest(**software), range(3, 5)),
    }


@pytest.mark.parametrize("name", list(foreign_requests()))
def test_requests_of_kafka_python_are_understood(name: str) -> None:
    theirs, ours, versions = foreign_requests()[name]
    for version in versions:
        frame = foreign_frame(theirs, version)
        assert frame_bytes(frame, 0, 1000) == len(frame) - 4
        header, position = decode_request_header(frame[4:])
        request = decode_request(header, frame[4:], position)
        assert (header.correlation_id, header.client_id) == (11, "kafka-python")
        assert request == ours, version
        assert b"".join(encode_request(ours, version, 11, "kafka-python")) == frame


def test_kafka_python_understands_our_responses() -> None:
    header = RequestHeader(request_api_key=3, request_api_version=8, correlation_id=11)
    partition = MetadataResponsePartition(
        partition_index=2, leader_id=1, leader_epoch=4, replica_nodes=[1, 2], isr_nodes=[1]
    )
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="localhost", port=9092)],
        cluster_id="lab",
        controller_id=1,
        topics=[MetadataResponseTopic(name="orders", partitions=[partition])],
    )
    for version in range(14):
        header.request_api_version = version
        whole = b"".join(encode_response(header, response))
        theirs = ForeignMetadataResponse.decode(whole, version=version, header=True, framed=True)
        assert (theirs.brokers[0].host, theirs.brokers[0].port) == ("localhost", 9092)
        topic = theirs.topics[0]
        assert (topic.name, topic.partitions[0].replica_nodes, topic.partitions[0].isr_nodes) == ("orders", [1, 2], [1])


def test_kafka_python_understands_our_api_versions() -> None:
    header = RequestHeader(request_api_key=18, correlation_id=11)
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=0, max_version=13)])
    for version in range(5):
        header.request_api_version = version
        whole = b"".join(encode_response(header, response))
        theirs = ForeignApiVersionsResponse.decode(whole, version=version, header=True, framed=True)
        assert (theirs.api_keys[0].api_key, theirs.api_keys[0].max_version) == (3, 13)
