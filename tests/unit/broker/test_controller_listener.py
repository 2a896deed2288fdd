"""Requests of brokers and controllers to the active controller, over the wire: valid, stale and malformed ones."""

from __future__ import annotations

from typing import Any

import pytest

from support.brokers.handler_calls import versions_of
from support.brokers.simulated import CONTROLLER, SimBroker, SimClient
from tailrace.metadata.endpoint import Endpoint
from tailrace.model.errors import InvalidRequestError
from tailrace.protocol.frame import encode_request
from tailrace.protocol.message import Request
from tailrace.protocol.messages import assign_replicas_to_dirs as assigning
from tailrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from tailrace.protocol.messages.broker_registration import BrokerRegistrationRequest
from tailrace.protocol.messages.broker_registration import Feature as RegisteredFeature
from tailrace.protocol.messages.broker_registration import Listener as RegisteredListener
from tailrace.protocol.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

UNKNOWN_TOPIC, NOT_LEADER, NOT_CONTROLLER, INVALID_REQUEST = 3, 6, 41, 42
BROKER_ID_NOT_REGISTERED = 102
FENCED_LEADER_EPOCH, STALE_BROKER_EPOCH, INVALID_UPDATE_VERSION, UNKNOWN_TOPIC_ID = 74, 77, 95, 100
REQUESTS: list[Request] = [
    AlterPartitionRequest(topics=[RequestTopicData()]),
    AssignReplicasToDirsRequest(),
    ControllerRegistrationRequest(),
]


@pytest.fixture
def broker() -> SimBroker:
    broker = SimBroker().start()
    wanted = [CreatableTopic(name="t", num_partitions=2, replication_factor=1)]
    broker.client().ask(CreateTopicsRequest(topics=wanted, timeout_ms=1000), 7)
    return broker


@pytest.fixture
def client(broker: SimBroker) -> SimClient:
    return broker.client(CONTROLLER)


def epoch_of(broker: SimBroker) -> int:
    return broker.node.image.brokers[1].epoch


def proposal(broker: SimBroker, version: int, **fields: Any) -> RequestPartitionData:
    """The ISR as it is, of partition 0."""
    partition = broker.node.image.topics["t"].partitions[0]
    isr: dict[str, Any] = {"new_isr": [1]}
    if version >= 3:
        isr = {"new_isr_with_epochs": [BrokerState(broker_id=1, broker_epoch=epoch_of(broker))]}
    values = {"leader_epoch": partition.leader_epoch, "partition_epoch": partition.partition_epoch, **isr, **fields}
    return RequestPartitionData(**values)


def alter(
    broker: SimBroker, client: SimClient, version: int, *proposals: RequestPartitionData, **fields: Any
) -> list[int]:
    """The error of each proposal."""
    topic_id = fields.pop("topic_id", broker.node.image.topics["t"].id)
    request = AlterPartitionRequest(
        **({"broker_id": 1, "broker_epoch": epoch_of(broker)} | fields),
        topics=[RequestTopicData(topic_id=topic_id, partitions=list(proposals))],
    )
    answer = client.ask(request, version)
    assert answer.error_code == 0
    return [each.error_code for each in answer.topics[0].partitions]


@pytest.mark.spec("RP-02")
@pytest.mark.parametrize("version", versions_of(AlterPartitionRequest))
def test_leaders_alter_their_isr(broker: SimBroker, client: SimClient, version: int) -> None:
    assert alter(broker, client, version, proposal(broker, version)) == [0]
    stale = {"leader_epoch": -1}, {"partition_epoch": -1}
    ahead = {"leader_epoch": 9}, {"partition_epoch": 9}
    codes = [alter(broker, client, version, proposal(broker, version, **fields)) for fields in (*stale, *ahead)]
    assert codes == [[FENCED_LEADER_EPOCH], [INVALID_UPDATE_VERSION], [NOT_CONTROLLER], [NOT_CONTROLLER]]
    for state in (-1, 2):
        bad = proposal(broker, version, leader_recovery_state=state)
        assert alter(broker, client, version, bad) == [INVALID_REQUEST]
    assert alter(broker, client, version, proposal(broker, version, partition_index=9)) == [UNKNOWN_TOPIC]
    assert alter(broker, client, version, proposal(broker, version), topic_id=b"x" * 16) == [UNKNOWN_TOPIC_ID]
    twice = alter(broker, client, version, proposal(broker, version), proposal(broker, version))
    assert twice == [0, 0], "the first proposal changes nothing"


def assign(broker: SimBroker, client: SimClient, directory: bytes, **fields: Any) -> list[int]:
    values = {"topic_id": broker.node.image.topics["t"].id, "partition_index": 0, **fields}
    partitions = [assigning.RequestPartitionData(partition_index=values["partition_index"])]
    topics = [assigning.RequestTopicData(topic_id=values["topic_id"], partitions=partitions)]
    answer = client.ask(
        AssignReplicasToDirsRequest(
            broker_id=1,
            broker_epoch=epoch_of(broker),
            directories=[assigning.RequestDirectoryData(id=directory, topics=topics)],
        ),
        0,
    )
    assert answer.error_code == 0
    return [each.error_code for each in answer.directories[0].topics[0].partitions]


def test_brokers_assign_their_replicas_to_directories(broker: SimBroker, client: SimClient) -> None:
    (directory,) = broker.node.image.brokers[1].directories
    assert assign(broker, client, directory) == [0]
    assert assign(broker, client, directory, topic_id=b"x" * 16) == [UNKNOWN_TOPIC_ID]
    assert assign(broker, client, directory, partition_index=9) == [UNKNOWN_TOPIC]
    before = broker.node.image.topics["t"].partitions[0]
    assert before.leader == 1
    assert assign(broker, client, b"gone" * 4) == [0]
    after = broker.node.image.topics["t"].partitions[0]
    lost_and_corrected_by_the_broker = 2
    assert (after.leader, after.leader_epoch - before.leader_epoch) == (1, lost_and_corrected_by_the_broker)


def test_controllers_register(broker: SimBroker, client: SimClient) -> None:
    request = ControllerRegistrationRequest(
        controller_id=2,
        incarnation_id=b"i" * 16,
        listeners=[Listener(name="CONTROLLER", host="c2", port=9093)],
        features=[Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
    )
    answer = client.ask(request, 0)
    assert (answer.error_code, answer.error_message) == (0, None)
    registered = broker.node.image.controllers[2]
    assert registered.endpoints == (Endpoint("CONTROLLER", "c2", 9093, 0),)
    assert registered.features == {"metadata.version": (7, 30)}


@pytest.mark.parametrize("request_", REQUESTS[:2], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(("broker_id", "epoch"), [(1, -1), (1, 10**6), (9, 0)])
def test_stale_broker_epochs_are_refused(client: SimClient, request_: Any, broker_id: int, epoch: int) -> None:
    request_.broker_id, request_.broker_epoch = broker_id, epoch
    assert client.ask(request_, request_.VERSIONS[1]).error_code == STALE_BROKER_EPOCH


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_malformed_requests_close_the_connection(broker: SimBroker, request_: Request) -> None:
    whole = b"".join(encode_request(request_, request_.VERSIONS[1], 1, "c"))[4:]
    for end in range(len(whole) - 6, len(whole)):
        data = whole[:end]
        with pytest.raises(InvalidRequestError):
            broker.client(CONTROLLER).write(len(data).to_bytes(4, "big") + data)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_an_inactive_controller_refuses(broker: SimBroker, client: SimClient, request_: Request) -> None:
    assert broker.node.local_controller is not None
    broker.node.local_controller.resigned()
    assert client.ask(request_, request_.VERSIONS[1]).error_code == NOT_CONTROLLER


def test_the_controller_listener_advertises_them(broker: SimBroker, client: SimClient) -> None:
    request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
    rows = {row.api_key: (row.min_version, row.max_version) for row in client.ask(request, 4).api_keys}
    assert {key: rows.get(key) for key in (56, 58, 70, 73)} == {56: (2, 3), 58: (0, 0), 70: (0, 0), 73: (0, 0)}
    assert not {56, 58, 70, 73} & {row.api_key for row in broker.client().ask(request, 4).api_keys}


def test_the_controller_listener_takes_settings_of_any_registered_broker(broker: SimBroker, client: SimClient) -> None:
    """Also of one that is down; a broker listener takes only those of the broker that it belongs to."""
    first = broker.node.image.brokers[1]
    registration = BrokerRegistrationRequest(
        broker_id=7,
        cluster_id=broker.node.cluster_id,
        incarnation_id=b"7" * 16,
        listeners=[RegisteredListener(name="PLAINTEXT", host="h", port=1)],
        features=[
            RegisteredFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in first.features.items()
        ],
        log_dirs=[b"d" * 16],
    )
    assert client.ask(registration, 4).error_code == 0

    def altered(asking: SimClient, name: str, value: str = "2") -> int:
        change = AlterableConfig(name="log.cleaner.threads", value=value)
        resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=[change])
        code: int = asking.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code
        return code

    assert altered(client, "7") == 0
    assert altered(client, "7", "many") == INVALID_REQUEST
    assert altered(client, "8") == BROKER_ID_NOT_REGISTERED
    assert altered(client, "1") == altered(client, "") == altered(broker.client(), "1") == 0
    assert altered(broker.client(), "7") == INVALID_REQUEST
    assert broker.node.image.broker_config("7") == {"log.cleaner.threads": "2"}
