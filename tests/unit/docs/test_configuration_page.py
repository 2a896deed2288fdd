"""docs/configuration.md says what the tables say, of every key."""

from __future__ import annotations

import re

import pytest

import make_configuration_page
from tailrace.config.log import LogConfig
from tailrace.config.overrides import ClientMetricsConfig, GroupOverrides
from tailrace.config.server import server_keys
from tailrace.config.table import keys_of

EVERY_KEY = {**server_keys(), **keys_of(LogConfig), **keys_of(GroupOverrides), **keys_of(ClientMetricsConfig)}


def test_the_page_is_up_to_date() -> None:
    text = make_configuration_page.PAGE.read_text(encoding="utf-8")
    assert text == make_configuration_page.page(), "run tools/make_configuration_page.py"


def test_every_key_is_there() -> None:
    listed = set(re.findall(r"^\| `([a-z0-9.]+)` \|", make_configuration_page.page(), re.MULTILINE))
    assert listed == EVERY_KEY.keys()


@pytest.mark.parametrize("name", EVERY_KEY)
def test_every_key_is_documented(name: str) -> None:
    doc = EVERY_KEY[name].doc
    assert len(doc) > 10
    assert not doc.endswith(".")
