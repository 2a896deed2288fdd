"""Requests within an Envelope, and envelopes that are invalid."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from support.requests.case import Case, ServerFacts
from support.requests.cluster import describe_quorum, elect_leaders, update_features
from support.requests.configs import alter_configs, incremental_alter_configs
from support.requests.reassignments import alter_partition_reassignments, list_partition_reassignments
from support.requests.response_values import Shape, shape
from support.requests.topics import create_partitions, create_topics, delete_topics
from tailrace.protocol.apis import APIS
from tailrace.protocol.frame import SIZE_BYTES, decode_response, encode_request
from tailrace.protocol.message import Request, Response
from tailrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tailrace.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest

CORRELATION_ID = 7
HOST = bytes([127, 0, 0, 1])
KEY_AND_VERSION = struct.Struct(">hh")
FORWARDED_OF_EACH = 3
"""Requests of each API and version that are also sent in an envelope: none of them contains an id."""


def principal(kind: str = "User", name: str = "ANONYMOUS", version: int = 0) -> bytes:
    texts = b"".join(bytes([len(text) + 1]) + text.encode() for text in (kind, name))
    return struct.pack(">h", version) + texts + b"\0\0"


PRINCIPAL = principal()


def frame(request: Request, version: int, client_id: str | None = "inner") -> bytes:
    return b"".join(map(bytes, encode_request(request, version, CORRELATION_ID, client_id)))[SIZE_BYTES:]


def envelope(data: bytes, who: bytes | None = PRINCIPAL, host: bytes = HOST) -> Case:
    return Case("", EnvelopeRequest(request_data=data, request_principal=who, client_host_address=host), 0)


def opened(request: Request, response: Response) -> Shape:
    """The shape of a response; that of an Envelope has the shape of the response within."""
    found: Any = shape(response)
    if isinstance(request, EnvelopeRequest) and isinstance(response, EnvelopeResponse) and response.response_data:
        key, version = KEY_AND_VERSION.unpack_from(bytes(request.request_data))
        correlation_id, within = decode_response(key, version, bytes(response.response_data))
        found["response_data"] = {"correlation_id": correlation_id, "response": shape(within)}
    return found


def envelopes(facts: ServerFacts) -> Iterator[Case]:
    yield from _forwarded(facts)
    asked = frame(ListPartitionReassignmentsRequest(topics=None), 0)
    cases = {
        "without a principal": envelope(asked, None),
        "with an empty principal": envelope(asked, b""),
        "with a principal of version 1": envelope(asked, principal(version=1)),
        "with a principal of version -1": envelope(asked, principal(version=-1)),
        "with a short principal": envelope(asked, PRINCIPAL[:-3]),
        "with a principal that does not end": envelope(asked, b"\0\0\xff\xff\xff\xff\xff\xff"),
        "with a long principal": envelope(asked, PRINCIPAL + b"junk"),
        "with a principal that is no text": envelope(asked, b"\0\0\3\xff\xff\3\xff\xff\0\0"),
        "with a principal without a name": envelope(asked, principal("", "")),
        "with another principal": envelope(asked, principal("Group", "somebody")),
        "of nothing": envelope(b""),
        "of a short header": envelope(asked[:6]),
        "of half a header": envelope(asked[:12]),
        "of an unknown key": envelope(KEY_AND_VERSION.pack(9999, 0) + asked[4:]),
        "of key -1": envelope(KEY_AND_VERSION.pack(-1, 0) + asked[4:]),
        "of version 99": envelope(KEY_AND_VERSION.pack(46, 99) + asked[4:]),
        "of version -1": envelope(KEY_AND_VERSION.pack(46, -1) + asked[4:]),
        "of a short request": envelope(asked[:-1]),
        "of half a request": envelope(asked[:-4]),
        "of a request with junk": envelope(asked + b"\0junk"),
        "of a request without a client id": envelope(
            frame(ListPartitionReassignmentsRequest(topics=None), 0, client_id=None)
        ),
        "of ApiVersions": envelope(frame(ApiVersionsRequest(), 4)),
        "of Metadata": envelope(frame(MetadataRequest(topics=None), 12)),
        "of DescribeCluster": envelope(frame(DescribeClusterRequest(), 1)),
        "of DescribeAcls": envelope(frame(DescribeAclsRequest(), 3)),
        "of AllocateProducerIds": envelope(frame(AllocateProducerIdsRequest(broker_id=1), 0)),
        "of an envelope": envelope(frame(envelope(asked).request, 0)),
        "of UnregisterBroker": envelope(frame(UnregisterBrokerRequest(broker_id=7), 0)),
        "of everything wrong": envelope(b"junk", b"junk", b"junk!"),
    }
    for count in (0, 1, 3, 5, 15, 16, 17):
        cases[f"from an address of {count} bytes"] = envelope(asked, host=bytes(count))
    for name, case in cases.items():
        yield case._replace(name=name)


def _forwarded(facts: ServerFacts) -> Iterator[Case]:
    groups = (
        *(elect_leaders, describe_quorum, update_features, alter_configs, incremental_alter_configs),
        *(create_topics, create_partitions, delete_topics),
        *(alter_partition_reassignments, list_partition_reassignments),
    )
    counts: dict[tuple[int, int], int] = {}
    for group in groups:
        for case in group(facts):
            key = case.request.KEY, case.version
            counts[key] = counts.get(key, 0) + 1
            if counts[key] <= FORWARDED_OF_EACH:
                yield envelope(frame(case.request, case.version))._replace(
                    name=f"of {APIS[case.request.KEY].name} v{case.version} {case.name}"
                )
