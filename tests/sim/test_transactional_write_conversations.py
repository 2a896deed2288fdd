"""Responses to writes in transactions, compared with recorded responses of Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.conversations.simulated import check_recorded
from support.conversations.transactional_writes import CONVERSATIONS_OF_TRANSACTIONAL_WRITES


@pytest.mark.spec("CO-08", "CO-09", "CO-10")
@pytest.mark.parametrize("converse", CONVERSATIONS_OF_TRANSACTIONAL_WRITES, ids=lambda each: each.__name__)
def test_responses_match_recorded_kafka(converse: Callable[[Any], None]) -> None:
    check_recorded("transactional-writes", converse)
