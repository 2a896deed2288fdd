"""Envelope: forwarded requests are decided as if their clients had asked the controller, and bad ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from support.brokers.simulated import CONTROLLER, SimBroker, SimClient
from tailrace.model.errors import PrincipalDeserializationError
from tailrace.protocol.apis import APIS, FORWARDABLE
from tailrace.protocol.codec import encode
from tailrace.protocol.frame import SIZE_BYTES, decode_response, encode_request
from tailrace.protocol.message import Request
from tailrace.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.controller_registration import ControllerRegistrationRequest
from tailrace.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tailrace.protocol.principal import DefaultPrincipalData, decode_principal
from tailrace.raft.quorum import Quorum

UNSUPPORTED_VERSION, NOT_CONTROLLER, INVALID_REQUEST, INVALID_PRINCIPAL = 35, 41, 42, 97
PRINCIPAL = bytes(2) + encode(DefaultPrincipalData(type="User", name="ANONYMOUS"), 0)
ADDRESS = bytes([10, 0, 0, 7])


@pytest.fixture
def broker() -> SimBroker:
    return SimBroker().start()


@pytest.fixture
def client(broker: SimBroker) -> SimClient:
    return broker.client(CONTROLLER)


def framed(request: Request, version: int) -> bytes:
    return b"".join(encode_request(request, version, 77, "client"))[SIZE_BYTES:]


def envelope(data: bytes, principal: bytes | None = PRINCIPAL, address: bytes = ADDRESS) -> EnvelopeRequest:
    return EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=address)


def forward(client: SimClient, request: Request, version: int) -> Any:
    """The response as the client gets it."""
    answer: EnvelopeResponse = client.ask(envelope(framed(request, version)), 0)
    assert answer.error_code == 0
    assert answer.response_data is not None
    correlation_id, response = decode_response(request.KEY, version, bytes(answer.response_data))
    assert correlation_id == 77
    return response


def topics(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=1000
    )


@pytest.mark.parametrize("address", [ADDRESS, bytes(15) + b"\x01"])
@pytest.mark.parametrize("version", range(2, 8))
def test_a_forwarded_request_is_decided_in_the_version_of_its_client(
    broker: SimBroker, client: SimClient, version: int, address: bytes
) -> None:
    answer = client.ask(envelope(framed(topics("t"), version), address=address), 0)
    _, response = decode_response(19, version, bytes(answer.response_data))
    assert isinstance(response, type(APIS[19].response()))
    assert [row.error_code for row in response.topics] == [0]  # type: ignore[attr-defined]
    assert "t" in broker.node.image.topics


def test_errors_of_the_request_are_in_its_own_response(client: SimClient) -> None:
    assert forward(client, UnregisterBrokerRequest(broker_id=99), 0).error_code == 102


def test_the_settings_of_another_node_can_be_forwarded(broker: SimBroker, client: SimClient) -> None:
    """The broker that forwards them has checked them. On a broker listener they are refused."""
    assert client.ask(ControllerRegistrationRequest(controller_id=9), 0).error_code == 0
    config = AlterableConfig(name="log.cleaner.threads", value="2")
    request = AlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name="9", configs=[config])]
    )
    (refused,) = broker.client().ask(request, 2).responses
    assert refused.error_code == INVALID_REQUEST
    (altered,) = forward(client, request, 2).responses
    assert altered.error_code == 0
    assert broker.node.image.broker_config("9") == {"log.cleaner.threads": "2"}


@pytest.mark.parametrize("name", ["x", "-1", "9" * 5000])
def test_the_controller_checks_the_names_of_forwarded_settings(client: SimClient, name: str) -> None:
    request = AlterConfigsRequest(resources=[AlterConfigsResource(resource_type=4, resource_name=name)])
    for answer in (forward(client, request, 2), client.ask(request, 2)):
        assert [each.error_code for each in answer.responses] == [INVALID_REQUEST]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (envelope(framed(topics("t"), 7), principal=None), INVALID_PRINCIPAL),
        (envelope(framed(topics("t"), 7), principal=b""), INVALID_PRINCIPAL),
        (envelope(framed(topics("t"), 7), principal=b"\x00\x01" + PRINCIPAL[2:]), INVALID_PRINCIPAL),
        (envelope(framed(topics("t"), 7), principal=PRINCIPAL[:-3]), INVALID_PRINCIPAL),
        (envelope(framed(topics("t"), 7), address=b""), INVALID_REQUEST),
        (envelope(framed(topics("t"), 7), address=bytes(5)), INVALID_REQUEST),
        (envelope(framed(MetadataRequest(), 12)), INVALID_REQUEST),
        (envelope(framed(BrokerHeartbeatRequest(), 0)), INVALID_REQUEST),
        (envelope(framed(envelope(framed(topics("t"), 7)), 0)), INVALID_REQUEST),
        (envelope(b""), UNSUPPORTED_VERSION),
        (envelope(framed(topics("t"), 7)[:12]), UNSUPPORTED_VERSION),
        (envelope(framed(topics("t"), 7)[:-8]), UNSUPPORTED_VERSION),
        (envelope(b"\x7f\xff" + framed(topics("t"), 7)[2:]), UNSUPPORTED_VERSION),
        (envelope(b"\x00\x13\x00\x63" + framed(topics("t"), 7)[4:]), UNSUPPORTED_VERSION),
        (envelope(framed(CreateAclsRequest(creations=[AclCreation()]), 3)), INVALID_REQUEST),
    ],
)
def test_bad_envelopes_are_refused(broker: SimBroker, client: SimClient, bad: EnvelopeRequest, code: int) -> None:
    answer = client.ask(bad, 0)
    assert (answer.error_code, answer.response_data) == (code, None)
    assert not client.is_closed
    assert not broker.node.image.topics


def test_apis_that_are_not_served_are_refused(client: SimClient) -> None:
    served = {row.api_key for row in client._broker.node.dispatch(True).rows()}
    missing = sorted(FORWARDABLE - served)
    for key in missing:
        request = APIS[key].request()
        answer = client.ask(envelope(framed(request, APIS[key].first_version)), 0)
        assert answer.error_code == INVALID_REQUEST


def test_an_inactive_controller_is_reported_in_the_envelope(
    broker: SimBroker, client: SimClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = broker.node.local_controller
    assert controller is not None
    controller.resigned()
    monkeypatch.setattr(Quorum, "is_leader", False)
    asked = [RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])]
    for request, version in ((topics("t"), 7), (DescribeQuorumRequest(topics=asked), 2)):
        answer = client.ask(envelope(framed(request, version)), 0)
        assert (answer.error_code, answer.response_data) == (NOT_CONTROLLER, None)


def test_envelopes_are_for_controllers(broker: SimBroker) -> None:
    assert not broker.node.dispatch(False).serves(58)


def test_a_principal() -> None:
    principal = DefaultPrincipalData(type="User", name="alice", token_authenticated=True)
    assert decode_principal(bytes(2) + encode(principal, 0)) == principal
    # As Kafka writes it: version, compact strings, a boolean, no tagged fields.
    assert decode_principal(b"\x00\x00\x05User\x06alice\x01\x00") == principal
    assert decode_principal(b"\x00\x00\x05User\x06alice\x01\x00more") == principal
    assert decode_principal(b"\x00\x00\x05User\x02\xff\x00\x00").name == "\ufffd"
    for invalid in (b"\x00", b"\x00\x01\x05User\x06alice\x01\x00", b"\x00\x00\x05User\x06alice"):
        with pytest.raises(PrincipalDeserializationError):
            decode_principal(invalid)
