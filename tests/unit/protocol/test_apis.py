"""The table of APIs agrees with the messages, and with what Kafka 4.3.1 says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.model.errors import InvalidRequestError
from tailrace.protocol.apis import APIS, Api, api_of
from tailrace.protocol.message import Request, Response


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_row_says_what_its_messages_say(api: Api) -> None:
    for message, kind in ((api.request, Request), (api.response, Response)):
        assert issubclass(message, kind)
        assert api.key == message.KEY
        assert (api.first_version, api.last_version) == message.VERSIONS
        for version in range(api.first_version, api.last_version + 1):
            assert message.is_flexible(version) == (version >= api.flexible_from)
            assert api.has_version(version)
    assert not api.has_version(api.first_version - 1)
    assert not api.has_version(api.last_version + 1)


@pytest.mark.parametrize("key", [-1, 4, 5, 6, 7, 93, 32767])
def test_a_key_that_no_api_has(key: int) -> None:
    with pytest.raises(InvalidRequestError, match=f"no API with key {key}"):
        api_of(key)


def test_headers_by_version() -> None:
    metadata, api_versions, handshake = api_of(3), api_of(18), api_of(17)
    assert [metadata.request_header_version(version) for version in (8, 9, 99)] == [1, 2, 2]
    assert [metadata.response_header_version(version) for version in (8, 9, 99)] == [0, 1, 1]
    assert [api_versions.request_header_version(version) for version in (2, 3, 99)] == [1, 2, 2]
    assert [api_versions.response_header_version(version) for version in (2, 3, 99)] == [0, 0, 0]
    assert handshake.request_header_version(32767) == 1


def test_an_unstable_version_exists_but_is_not_the_last_stable_one() -> None:
    init_producer_id = api_of(22)
    assert init_producer_id.has_version(6)
    assert init_producer_id.last_stable_version == 5
    assert api_of(0).last_stable_version == api_of(0).last_version == 13


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_the_table_is_what_kafka_advertises(listener: str) -> None:
    """Kafka hides telemetry where no reporter is configured, and lists versions of Produce that it then refuses."""
    lines = Path(__file__).with_name("kafka_api_versions.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line.startswith(listener)]
    kafkas = {int(key): (int(first), int(last)) for _, key, first, last in rows}
    ours = {key: (api.first_version, api.last_stable_version) for key, api in APIS.items() if listener in api.listeners}
    if listener == "broker":
        assert kafkas[0] == (0, 13)
        kafkas[0] = (3, 13)
        kafkas |= {71: (0, 0), 72: (0, 0)}
    assert ours == kafkas
