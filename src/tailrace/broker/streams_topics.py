"""Makes the internal topics of streams applications: whatever a heartbeat finds missing.

Nobody waits for them: members are told that they are missing, and come again. One creation of a topic is under way at
a time. What failed is remembered for a while, told to the members, and not tried again before: an application with a
hundred threads shall not ask the controller a hundred times.

Who may call. The handler of heartbeats, on the node's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.protocol.message import Response
from tailrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node
    from tailrace.coordinator.streams.configured import InternalTopic

_log = logging.getLogger(__name__)

_VERSION: Final = 7
DEFAULT_REPLICATION: Final = -1
MOST_REMEMBERED: Final = 1_000
"""Failures, of all applications together: the oldest are forgotten first."""


class _Failure(NamedTuple):
    message: str
    until_ms: int


class StreamsTopics:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._under_way: set[str] = set()
        self._failures: dict[str, _Failure] = {}

    def create(self, topics: Iterable[InternalTopic], remember_ms: int) -> None:
        """Have the controller make those that are not being made. A failure is remembered for `remember_ms`."""
        new = [topic for topic in topics if topic.name not in self._under_way and self.failure(topic.name) is None]
        if not new:
            return
        names = [topic.name for topic in new]
        self._under_way.update(names)
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in new], timeout_ms=self._node.config.request_timeout_ms
        )
        self._node.controller.send(request, _VERSION, partial(self._answered, names, remember_ms))

    def failure(self, topic: str) -> str | None:
        """Why it could not be made, if that was not long ago."""
        found = self._failures.get(topic)
        if found is None:
            return None
        if found.until_ms <= self._node.env.clock.monotonic_ms():
            del self._failures[topic]
            return None
        return found.message

    def _answered(self, names: list[str], remember_ms: int, response: Response) -> None:
        self._under_way.difference_update(names)
        if not isinstance(response, CreateTopicsResponse):
            return
        until_ms = self._node.env.clock.monotonic_ms() + remember_ms
        for result in response.topics:
            if result.error_code:
                message = result.error_message or f"error {result.error_code}"
                _log.info("internal topic %s was not created: %s", result.name, message)
                self._failures.pop(result.name, None)
                self._failures[result.name] = _Failure(message, until_ms)
        while len(self._failures) > MOST_REMEMBERED:
            del self._failures[next(iter(self._failures))]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or DEFAULT_REPLICATION,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in sorted(topic.configs.items())],
    )
