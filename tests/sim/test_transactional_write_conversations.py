"""What writers in transactions are answered, word by word as Kafka 4.3.1 has answered it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.brokers.simulated import BROKER, SimBroker, SimClient
from support.conversations.transactional_writes import CONVERSATIONS_OF_TRANSACTIONAL_WRITES
from support.conversations.transactions import answers, use_up_an_id
from support.requests.response_values import differences

RECORDED = Path(__file__).parents[1] / "support" / "recorded" / "transactional-writes-4.3.1.json"


class PausingClient(SimClient):
    """Whose pauses are the machine's."""

    def __init__(self, broker: SimBroker) -> None:
        super().__init__(broker, BROKER)
        self.pause = lambda seconds: broker.pass_time(round(seconds * 1000))
        self.now_ms = broker.world.clock.now_ms


@pytest.mark.spec("CO-08", "CO-09", "CO-10")
@pytest.mark.parametrize("converse", CONVERSATIONS_OF_TRANSACTIONAL_WRITES, ids=lambda each: each.__name__)
def test_the_answers_are_kafkas(converse: Callable[[Any], None]) -> None:
    expected = json.loads(RECORDED.read_text())[converse.__name__]
    client = PausingClient(SimBroker().start())
    use_up_an_id(client)
    found = answers(client, converse)
    assert [name for name, _ in found] == [name for name, _ in expected]
    different = [
        f"{name}, {path}: Kafka {theirs}, ours {own}"
        for (name, answer), (_, recorded) in zip(found, expected, strict=True)
        for path, theirs, own in differences(recorded, json.loads(json.dumps(answer)))
    ]
    assert not different, "\n".join(different)
