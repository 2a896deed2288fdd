"""What members of streams groups are answered, as Kafka 4.3.1 has answered it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_consumer_group_conversations import PausingClient

from support.brokers.simulated import SimBroker
from support.conversations.streams_groups import CONVERSATIONS_OF_STREAMS_GROUPS, SETTINGS, answers
from support.coordinators.group_records import texts
from support.requests.response_values import differences

RECORDED = Path(__file__).parents[1] / "support" / "recorded" / "streams-groups-4.3.1.json"
TOLD_AGAIN = {"epoch 2, having nothing", "epoch 3, having nothing", "a holds on"}
"""Heartbeats that show that the member has missed an answer. Kafka does not tell it its tasks again."""
TASKS = {"active_tasks", "standby_tasks", "warmup_tasks"}


@pytest.mark.parametrize("converse", CONVERSATIONS_OF_STREAMS_GROUPS, ids=lambda each: each.__name__)
def test_the_answers_are_kafkas(converse: Callable[[Any], None]) -> None:
    expected = json.loads(RECORDED.read_text())[converse.__name__]
    found = answers(PausingClient(SimBroker(**texts(SETTINGS)).start()), converse)
    assert [name for name, _ in found] == [name for name, _ in expected]
    different = [
        f"{name}, {path}: Kafka {theirs}, ours {own}"
        for (name, answer), (_, recorded) in zip(found, expected, strict=True)
        for path, theirs, own in differences(recorded, json.loads(json.dumps(answer)))
        if not (name in TOLD_AGAIN and path in TASKS and theirs is None)
    ]
    assert not different, "\n".join(different)
