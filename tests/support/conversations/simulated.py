"""Conversations with a simulated broker, compared with recorded responses of Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.brokers.simulated import BROKER, SimBroker, SimClient
from support.conversations.conversation import Talk
from support.conversations.series import SETTINGS, furnished
from support.coordinators.group_records import texts
from support.kafka.recordings import disagreements, load
from tailrace.protocol.message import Request

WAIT_MS = 10
MAX_WAITS = 1000


class PausingClient(SimClient):
    """A client whose pauses and waits for responses take simulated time."""

    def __init__(self, broker: SimBroker) -> None:
        super().__init__(broker, BROKER)
        self._machine = broker
        self.now_ms = broker.clock.now_ms

    def pause(self, seconds: float) -> None:
        self._machine.pass_time(round(seconds * 1000))

    def ask(self, request: Request, version: int) -> Any:
        correlation_id = self.post(request, version)
        for _ in range(MAX_WAITS):
            self._machine.run()
            if correlation_id in self.read():
                break
            self._machine.pass_time(WAIT_MS)
        return self.answers.pop(correlation_id)


def simulated_broker() -> SimBroker:
    """A broker with the settings of the recorded Kafka."""
    return SimBroker(**texts(SETTINGS)).start()


def talk_to(broker: SimBroker) -> Talk:
    client = PausingClient(broker)
    return Talk(client, furnished(client))


def check_recorded(kind: str, converse: Callable[[Any], None]) -> None:
    """Have the conversation, and compare all responses with the recorded ones."""
    series = f"{kind}/{converse.__name__}"
    talk = talk_to(simulated_broker())
    converse(talk)
    found = disagreements(series, load(series), talk.exchanges(), set())
    assert not found, "\n".join(found)
