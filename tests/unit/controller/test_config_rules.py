"""What the controller checks of lists, beyond what a broker needs to read them."""

from __future__ import annotations

import pytest

from tailrace.config.log import LogConfig
from tailrace.config.validation import BROKER, TOPIC
from tailrace.controller.config_rules import check_overrides
from tailrace.model.errors import InvalidConfigError, RefusedRequestError, TailraceError


# With the errors of Kafka 4.3.1.
@pytest.mark.spec("CF-02")
@pytest.mark.parametrize("text", ["delete,", ",delete", "delete,,compact", ",", ", "])
@pytest.mark.parametrize(
    ("resource_type", "key", "refusal"),
    [
        (TOPIC, "cleanup.policy", InvalidConfigError),
        (BROKER, "log.cleanup.policy", RefusedRequestError),
    ],
)
def test_empty_elements_are_refused(resource_type: int, key: str, refusal: type[TailraceError], text: str) -> None:
    with pytest.raises(refusal, match="must not have empty elements"):
        check_overrides(resource_type, "", {key: text})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", " "),
        ("cleanup.policy", " delete , compact "),
        ("leader.replication.throttled.replicas", "0:1,,0:2"),
    ],
)
def test_empty_lists_and_blanks_are_allowed(key: str, text: str) -> None:
    check_overrides(TOPIC, "orders", {key: text})


def test_a_stored_list_with_empty_elements_still_counts() -> None:
    """An earlier version stored it: without it a compacted topic would be one that deletes."""
    assert LogConfig.of({"cleanup.policy": "compact,"}).cleanup_policy == ("compact",)
