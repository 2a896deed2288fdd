"""Topics that come into being because a client asked about them (`auto.create.topics.enable`).

A request is answered when the topic is there, with its logs where this broker leads it, or after LONGEST_WAIT_MS. Kafka
answers at once that there is no such topic, and the client retries: docs/compatibility.md has the reasons for the
difference. One creation of a topic is under way at a time, however many requests wait for it.

The topics of coordinators get the replication factor of their settings, or 1 if no registered broker can replicate.

Who may call. Handlers, on the node's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.broker.forwarding import LONGEST_WAIT_MS, when_logs_are_there
from tailrace.model.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, SHARE_GROUP_STATE, TRANSACTION_STATE
from tailrace.protocol.message import Response
from tailrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.node import Node
    from tailrace.config.server import ServerConfig

_log = logging.getLogger(__name__)

_VERSION: Final = 7


class AutoTopicCreation:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._under_way: dict[str, list[_Asked]] = {}

    def create(self, names: Iterable[str], done: Callable[[], None]) -> None:
        """Have the controller create them, each once. `done` is called when it has answered for all of them, or after
        LONGEST_WAIT_MS. The names must be legal.
        """
        asked = _Asked(set(names), done)
        self._node.env.jobs.later("answer-without-topics", LONGEST_WAIT_MS, partial(self._give_up, asked))
        new = [name for name in asked.missing if name not in self._under_way]
        for name in asked.missing:
            self._under_way.setdefault(name, []).append(asked)
        if not new:
            return
        config = self._node.config
        topics = [creatable_topic(name, config) for name in new]
        if not any(broker.can_replicate for broker in self._node.image.brokers.values()):
            for topic in topics:
                if topic.name in INTERNAL_TOPICS:
                    topic.replication_factor = 1
        request = CreateTopicsRequest(topics=topics, timeout_ms=config.request_timeout_ms)
        self._node.controller.send(request, _VERSION, partial(self._answered, new))

    def _give_up(self, asked: _Asked) -> None:
        for name in asked.missing:
            self._under_way[name].remove(asked)
        asked.end()

    def _answered(self, names: list[str], response: Response) -> None:
        if isinstance(response, CreateTopicsResponse):
            for result in response.topics:
                if result.error_code:
                    _log.info("topic %s was not created on first use: %s", result.name, result.error_message)
        when_logs_are_there(self._node, partial(self._made, names))

    def _made(self, names: list[str]) -> None:
        for name in names:
            for asked in self._under_way.pop(name):
                asked.missing.discard(name)
                if not asked.missing:
                    asked.end()


class _Asked:
    def __init__(self, missing: set[str], done: Callable[[], None]) -> None:
        self.missing = missing
        self._done: Callable[[], None] | None = done

    def end(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            done()


def creatable_topic(name: str, config: ServerConfig) -> CreatableTopic:
    """With the broker's defaults; the topics of coordinators have settings of their own."""
    partitions, replicas, overrides = config.num_partitions, config.default_replication_factor, {}
    if name == CONSUMER_OFFSETS:
        partitions, replicas = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
    elif name == TRANSACTION_STATE:
        partitions = config.transaction_state_log_num_partitions
        replicas = config.transaction_state_log_replication_factor
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }
    elif name == SHARE_GROUP_STATE:
        partitions = config.share_coordinator_state_topic_num_partitions
        replicas = config.share_coordinator_state_topic_replication_factor
        overrides = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
            "retention.ms": "-1",
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
        }
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in overrides.items()],
    )
