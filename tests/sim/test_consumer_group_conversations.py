"""Responses to members of consumer groups, compared with recorded responses of Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.conversations.consumer_groups import CONVERSATIONS_OF_CONSUMER_GROUPS
from support.conversations.simulated import check_recorded


@pytest.mark.spec("CO-05")
@pytest.mark.parametrize("converse", CONVERSATIONS_OF_CONSUMER_GROUPS, ids=lambda each: each.__name__)
def test_responses_match_recorded_kafka(converse: Callable[[Any], None]) -> None:
    check_recorded("consumer-groups", converse)
