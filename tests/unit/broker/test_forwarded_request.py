"""Requests of clients on their way to an active controller in another process: envelopes and their errors."""

from __future__ import annotations

from typing import Any

import pytest

from support.brokers.remote_controllers import (
    CORRELATION_ID,
    FIRST,
    SECOND,
    LinkWorld,
    ScriptedConnection,
    enveloped,
    versions,
)
from tailrace.protocol.frame import decode_request, decode_request_header
from tailrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest
from tailrace.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tailrace.protocol.principal import ANONYMOUS, decode_principal

UNKNOWN_SERVER_ERROR, UNSUPPORTED_VERSION, NOT_CONTROLLER = -1, 35, 41


def topics(name: str = "t") -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def created(name: str = "t") -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=name)])


def elected() -> LinkWorld:
    world = LinkWorld()
    world.quorum.elect(7, 1, FIRST)
    return world


def test_a_clients_request_goes_in_an_envelope() -> None:
    for version in range(2, 8):
        world = elected()
        world.forward("a", topics("x"), version)
        stream = world.connected()
        envelope = stream.request()
        assert isinstance(envelope, EnvelopeRequest)
        assert decode_principal(envelope.request_principal) == ANONYMOUS
        assert envelope.client_host_address == bytes([10, 0, 0, 7])
        data = bytes(envelope.request_data)
        header, position = decode_request_header(data)
        assert (header.request_api_key, header.request_api_version) == (19, version)
        assert (header.correlation_id, header.client_id) == (CORRELATION_ID, "client")
        assert decode_request(header, data, position) == topics("x")
        stream.respond(enveloped(created("x"), version))
        assert [row.name for row in world.results["a"].topics] == ["x"]


@pytest.mark.parametrize(
    ("host", "address"),
    [("::1", bytes(15) + b"\x01"), ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\x01"), ("client-3", bytes(4))],
)
def test_addresses_of_clients(host: str, address: bytes) -> None:
    world = elected()
    world.forward("a", topics(), 7, host=host)
    envelope: Any = world.connected().request()
    assert envelope.client_host_address == address


def test_an_envelope_for_another_controller_is_sent_there() -> None:
    world = elected()
    world.forward("a", topics(), 7)
    stream = world.connected()
    stream.request()
    stream.respond(EnvelopeResponse(error_code=NOT_CONTROLLER))
    world.quorum.elect(8, 2, SECOND)
    stream = world.connected(SECOND)
    stream.request()
    stream.respond(enveloped(created(), 7))
    assert world.results["a"].topics[0].error_code == 0


@pytest.mark.parametrize(
    "response",
    [
        EnvelopeResponse(error_code=97),
        EnvelopeResponse(error_code=42),
        EnvelopeResponse(),
        EnvelopeResponse(response_data=b"\x00"),
        EnvelopeResponse(response_data=b"\x00\x00\x00\x4d\x00" + b"\xff" * 40),
        enveloped(created(), 7, correlation_id=78),
    ],
)
def test_faults_of_the_cluster_are_not_those_of_the_client(response: EnvelopeResponse) -> None:
    world = elected()
    world.forward("a", topics("x"), 7)
    stream = world.connected()
    stream.request()
    stream.respond(response)
    assert [(row.name, row.error_code) for row in world.results["a"].topics] == [("x", UNKNOWN_SERVER_ERROR)]


def test_a_controller_without_envelopes_is_a_fault_of_the_cluster() -> None:
    world = elected()
    world.forward("a", DescribeQuorumRequest(), 2)
    world.network.last.agree(versions(without=[58]))
    assert world.results["a"].error_code == UNKNOWN_SERVER_ERROR


def test_a_request_that_the_controller_cannot_decode_closes_the_connection_of_its_client() -> None:
    world, connection = elected(), ScriptedConnection()
    world.forward("a", topics(), 7, connection)
    stream = world.connected()
    stream.request()
    stream.respond(EnvelopeResponse(error_code=UNSUPPORTED_VERSION))
    assert len(connection.errors) == 1
    assert world.results == {}
