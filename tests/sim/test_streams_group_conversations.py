"""Responses to members of streams groups, compared with recorded responses of Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.conversations.simulated import check_recorded
from support.conversations.streams_groups import CONVERSATIONS_OF_STREAMS_GROUPS


@pytest.mark.parametrize("converse", CONVERSATIONS_OF_STREAMS_GROUPS, ids=lambda each: each.__name__)
def test_responses_match_recorded_kafka(converse: Callable[[Any], None]) -> None:
    check_recorded("streams-groups", converse)
