"""Responses to transactional producers, compared with recorded responses of Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.conversations.simulated import check_recorded
from support.conversations.transactions import CONVERSATIONS_OF_TRANSACTIONS, used_up_epochs

SHORT = [each for each in CONVERSATIONS_OF_TRANSACTIONS if each is not used_up_epochs]


@pytest.mark.spec("CO-07", "CO-08", "CO-10")
@pytest.mark.parametrize("converse", SHORT, ids=lambda each: each.__name__)
def test_responses_match_recorded_kafka(converse: Callable[[Any], None]) -> None:
    check_recorded("transactions", converse)


@pytest.mark.long
@pytest.mark.spec("CO-07")
def test_responses_match_recorded_kafka_when_all_epochs_are_used_up() -> None:
    check_recorded("transactions", used_up_epochs)
