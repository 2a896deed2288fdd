"""Responses to members of share groups, compared with recorded responses of Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.conversations.share_groups import CONVERSATIONS_OF_SHARE_GROUPS
from support.conversations.simulated import check_recorded


@pytest.mark.parametrize("converse", CONVERSATIONS_OF_SHARE_GROUPS, ids=lambda each: each.__name__)
def test_responses_match_recorded_kafka(converse: Callable[[Any], None]) -> None:
    check_recorded("share-groups", converse)
