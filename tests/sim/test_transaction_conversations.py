"""What transactional producers are answered, word by word as Kafka 4.3.1 has answered it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.brokers.simulated import BROKER, SimBroker, SimClient
from support.conversations.transactions import (
    CONVERSATIONS_OF_TRANSACTIONS,
    answers,
    make_topics,
    use_up_an_id,
    used_up_epochs,
)
from support.requests.response_values import differences

RECORDED = Path(__file__).parents[1] / "support" / "recorded" / "transactions-4.3.1.json"
SHORT = [each for each in CONVERSATIONS_OF_TRANSACTIONS if each is not used_up_epochs]


class PausingClient(SimClient):
    """Whose pauses are the machine's."""

    def __init__(self, broker: SimBroker) -> None:
        super().__init__(broker, BROKER)
        self.pause = lambda seconds: broker.pass_time(round(seconds * 1000))


def client() -> PausingClient:
    made = PausingClient(SimBroker().start())
    make_topics(made)
    use_up_an_id(made)
    return made


def compare(converse: Callable[[Any], None]) -> None:
    expected = json.loads(RECORDED.read_text())[converse.__name__]
    found = answers(client(), converse)
    assert [name for name, _ in found] == [name for name, _ in expected]
    different = [
        f"{name}, {path}: Kafka {theirs}, ours {own}"
        for (name, answer), (_, recorded) in zip(found, expected, strict=True)
        for path, theirs, own in differences(recorded, json.loads(json.dumps(answer)))
    ]
    assert not different, "\n".join(different)


@pytest.mark.spec("CO-07", "CO-08", "CO-10")
@pytest.mark.parametrize("converse", SHORT, ids=lambda each: each.__name__)
def test_the_answers_are_kafkas(converse: Callable[[Any], None]) -> None:
    compare(converse)


@pytest.mark.long
@pytest.mark.spec("CO-07")
def test_the_answers_are_kafkas_when_all_epochs_are_used_up() -> None:
    compare(used_up_epochs)
