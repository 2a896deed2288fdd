"""Requests about ACLs on a server without an authorizer. The expected responses are those of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from support.brokers.handler_calls import BROKER_LISTENER, CONTROLLER_LISTENER, ask, versions_of
from support.brokers.simulated import BROKER, CONTROLLER, SimBroker
from support.brokers.stub import StubNode
from tailrace.config.listeners import Listener
from tailrace.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tailrace.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest
from tailrace.protocol.messages.metadata import MetadataRequest

SECURITY_DISABLED = 54
ANY, TOPIC, LITERAL, READ, ALLOW = 1, 2, 3, 3, 3

both_listeners = pytest.mark.parametrize("listener", [BROKER_LISTENER, CONTROLLER_LISTENER])


def creation(**fields: Any) -> AclCreation:
    given = {"resource_name": "t", "principal": "User:alice", "host": "*"}
    codes = {"resource_type": TOPIC, "operation": READ, "permission_type": ALLOW, "resource_pattern_type": LITERAL}
    return AclCreation(**given | codes | fields)


def acl_filter(kind: type[DeleteAclsFilter] | type[DescribeAclsRequest], **fields: Any) -> Any:
    given = {"resource_type_filter": ANY, "operation": ANY, "permission_type": ANY, "pattern_type_filter": LITERAL}
    return kind(**given | fields)  # type: ignore[arg-type]


@both_listeners
@pytest.mark.parametrize("version", versions_of(DescribeAclsRequest))
def test_describe_acls_returns_security_disabled(version: int, listener: str) -> None:
    response = ask(StubNode(), acl_filter(DescribeAclsRequest), version, listener=listener)
    assert (response.error_code, response.error_message) == (
        SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
    )
    assert response.resources == []


@both_listeners
@pytest.mark.parametrize("version", versions_of(CreateAclsRequest))
def test_create_acls_returns_security_disabled_for_each_acl(version: int, listener: str) -> None:
    request = CreateAclsRequest(creations=[creation(), creation(resource_name="", principal="nonsense")])
    results = ask(StubNode(), request, version, listener=listener).results
    assert [(each.error_code, each.error_message) for each in results] == [
        (SECURITY_DISABLED, "No Authorizer is configured.")
    ] * 2


@both_listeners
@pytest.mark.parametrize("version", versions_of(DeleteAclsRequest))
def test_delete_acls_returns_security_disabled_for_each_filter(version: int, listener: str) -> None:
    request = DeleteAclsRequest(filters=[acl_filter(DeleteAclsFilter)] * 3)
    results = ask(StubNode(), request, version, listener=listener).filter_results
    assert [(each.error_code, each.error_message, each.matching_acls) for each in results] == [
        (SECURITY_DISABLED, "No Authorizer is configured.", [])
    ] * 3


def test_nothing_asked_is_nothing_refused() -> None:
    assert ask(StubNode(), CreateAclsRequest()).results == []
    assert ask(StubNode(), DeleteAclsRequest()).filter_results == []


UNKNOWN = (
    *(
        CreateAclsRequest(creations=[creation(), creation(**{name: 0})])
        for name in ("resource_type", "resource_pattern_type", "operation", "permission_type")
    ),
    *(
        request
        for name in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
        for request in (
            DeleteAclsRequest(filters=[acl_filter(DeleteAclsFilter, **{name: 0})]),
            acl_filter(DescribeAclsRequest, **{name: 0}),
        )
    ),
)


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER])
def test_unknown_types_close_the_connection(listener: Listener) -> None:
    broker = SimBroker().start()
    for request in UNKNOWN:
        client = broker.client(listener)
        client.post(request, 3)
        client.post(MetadataRequest(), 12)
        broker.run()
        assert client.is_closed, request
        assert client.read() == {}


def test_codes_that_no_type_has_are_not_refused() -> None:
    request = CreateAclsRequest(creations=[creation(resource_type=99, operation=99)])
    (result,) = ask(StubNode(), request).results
    assert result.error_code == SECURITY_DISABLED
