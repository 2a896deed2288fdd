"""APPEND and SUBTRACT where a broker checks a change of the settings it runs with."""

from __future__ import annotations

import pytest

from tailrace.config.table import ConfigError
from tailrace.config.validation import APPEND, BROKER, CLIENT_METRICS, SUBTRACT, incrementally_altered

KEY = "log.cleanup.policy"


@pytest.mark.spec("CF-02")
@pytest.mark.parametrize(
    ("present", "operation", "operand", "value"),
    [
        (None, APPEND, "compact", "delete,compact"),
        (None, APPEND, "delete", "delete"),
        ("compact", APPEND, "compact", "compact"),
        ("delete,delete", SUBTRACT, "delete", "delete"),
        ("delete,compact", SUBTRACT, "delete,compact", ""),
        ("compact", SUBTRACT, "delete", "compact"),
        ("compact", APPEND, ",", "compact"),
        ("compact", SUBTRACT, ",", "compact"),
    ],
)
def test_a_brokers_list_is_edited_as_a_topics(present: str | None, operation: int, operand: str, value: str) -> None:
    overrides = {} if present is None else {KEY: present}
    assert incrementally_altered(BROKER, overrides, [(KEY, operation, operand)]) == {KEY: value}


@pytest.mark.parametrize(("resource_type", "key"), [(BROKER, "log.retention.ms"), (CLIENT_METRICS, "metrics")])
def test_other_settings_cannot_be_appended_to(resource_type: int, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        incrementally_altered(resource_type, {}, [(key, APPEND, "1")])
