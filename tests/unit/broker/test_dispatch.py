"""The table of APIs: what it lists is served, and what it does not list is refused."""

from __future__ import annotations

from importlib import import_module

import pytest

from tailrace.broker.dispatch import BROKER_HANDLERS, CONTROLLER_HANDLERS, PRODUCE, Dispatch
from tailrace.model.errors import InvalidRequestError, UnsupportedVersionError
from tailrace.protocol.apis import APIS

TABLES = [(False, BROKER_HANDLERS), (True, CONTROLLER_HANDLERS)]
METADATA, SASL_HANDSHAKE, API_VERSIONS = 3, 17, 18


@pytest.mark.parametrize(("is_controller", "table"), TABLES)
def test_every_api_in_the_table_has_a_handler(is_controller: bool, table: dict[int, str]) -> None:
    dispatch = Dispatch(is_controller=is_controller)
    assert [row.api_key for row in dispatch.rows()] == sorted(table)
    for row in dispatch.rows():
        api = APIS[row.api_key]
        assert row.max_version == api.last_stable_version
        if row.api_key != PRODUCE:
            assert row.min_version == api.first_version
            handle = import_module(f"tailrace.broker.handlers.{table[row.api_key]}").handle
            assert dispatch.handler(row.api_key, row.min_version) is handle
            assert dispatch.handler(row.api_key, row.max_version) is handle


@pytest.mark.parametrize("is_controller", [False, True])
def test_what_is_not_in_it_is_refused(is_controller: bool) -> None:
    dispatch = Dispatch(is_controller=is_controller)
    assert not dispatch.serves(SASL_HANDSHAKE)
    with pytest.raises(InvalidRequestError, match="api key 17 is not served"):
        dispatch.handler(SASL_HANDSHAKE, 0)


def test_versions_that_do_not_exist() -> None:
    dispatch = Dispatch(is_controller=False)
    with pytest.raises(UnsupportedVersionError, match=r"Metadata has versions 0 to 13, not 99"):
        dispatch.handler(METADATA, 99)
    assert dispatch.handler(API_VERSIONS, 99) is None
    answer = dispatch.unknown_api_versions()
    assert (answer.error_code, [row.api_key for row in answer.api_keys]) == (
        UnsupportedVersionError.code,
        [API_VERSIONS],
    )
