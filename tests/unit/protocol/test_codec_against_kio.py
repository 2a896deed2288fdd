"""Every message in every version, there and back, against kio: another implementation from the same schemas."""

from __future__ import annotations

from random import Random

import pytest
from kio.schema.index import api_key_map, schema_name_map

from support.protocol.kio_messages import as_ours, kio_bytes, kio_class, kio_read, random_entity, versions_of
from tailrace.protocol.apis import APIS
from tailrace.protocol.codec import decode, encode
from tailrace.protocol.headers import RequestHeader, ResponseHeader
from tailrace.protocol.message import Message
from tailrace.protocol.records import control

INSTANCES = 4
LONG_INSTANCES = 150

MESSAGES: list[type[Message]] = [
    *(kind for api in APIS.values() for kind in (api.request, api.response)),
    RequestHeader,
    ResponseHeader,
    control.LeaderChangeMessage,
    control.SnapshotHeaderRecord,
    control.SnapshotFooterRecord,
    control.KRaftVersionRecord,
    control.VotersRecord,
]


def compare(message: type[Message], instances: int) -> None:
    for version in versions_of(message):
        kind = kio_class(message, version)
        assert kind is not None, f"kio has no {message.__name__} v{version}"
        random = Random(f"{message.__name__} {version}")
        for _ in range(instances):
            entity = random_entity(kind, random)
            data = kio_bytes(entity)
            ours = as_ours(message, version, entity)
            assert decode(message, version, data) == ours
            assert encode(ours, version) == data
            assert kio_bytes(kio_read(kind, encode(ours, version))) == data
            assert encode(decode(message, version, data), version) == data


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_agrees_with_kio(message: type[Message]) -> None:
    compare(message, INSTANCES)


@pytest.mark.long
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_agrees_with_kio_at_length(message: type[Message]) -> None:
    compare(message, LONG_INSTANCES)


def test_has_the_apis_and_versions_of_kio() -> None:
    theirs = {key: set(schema_name_map[name]) for key, name in api_key_map.items()}
    assert theirs == {api.key: set(range(api.first_version, api.last_version + 1)) for api in APIS.values()}
