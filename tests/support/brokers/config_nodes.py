"""A node with real settings and logs, and a controller that decides about settings for real and at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from support.brokers.stub import CLUSTER_ID, broker, topic
from tailrace.broker.live_config import LiveConfig
from tailrace.config.server import ServerConfig
from tailrace.controller import configs
from tailrace.controller.state import ClusterState, ControllerIdentity
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.protocol.message import Record, Request
from tailrace.protocol.messages.alter_configs import AlterConfigsRequest
from tailrace.protocol.records.settings import ConfigRecord
from tailrace.sim import World
from tailrace.storage.manager.log_directories import NodeIdentity
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

TOPIC_ID = TopicId(bytes(range(16)))


class ConfigNode:
    """Broker 1 with the topic `orders`; `self` is the channel to the controller too."""

    def __init__(self, *records: Record, **settings: str) -> None:
        given = {"log.dirs": "/a,/b", **{name.replace("_", "."): text for name, text in settings.items()}}
        self.world = World(0, directories=())
        self.env = self.world.env
        self.node_id = 1
        self.image = MetadataImage()
        self.live = LiveConfig(ServerConfig.single_node(given))
        self.controller = self
        self.local_controller = None
        self.state = ClusterState(self.live, ControllerIdentity(1, CLUSTER_ID, bytes(16), (), {}), random.Random(0))
        self.passed_on: list[Request] = []
        self.logs = LogManager(self.env, self.live.static.broker, NodeIdentity(CLUSTER_ID, 1), WarmSet(50))
        self._replay([broker(1), *topic("orders"), *records])
        self.topic_configs = self.live.load(self.image)
        self.logs.start(lambda: None, self.topic_configs)
        self.run()
        self.live.attach(self.logs)

    @property
    def config(self) -> ServerConfig:
        return self.live.config

    def run(self) -> None:
        jobs = self.world.jobs
        while jobs.pending or any(left <= 0 for _, left in jobs.waiting):
            jobs.run_all()
            jobs.tick()

    def log(self, name: str = "orders") -> UnifiedLog:
        """Of partition 0; made when it is not there."""
        made: list[UnifiedLog] = []
        failures: list[TailraceError] = []
        self.logs.create(TopicPartition(name, 0), TOPIC_ID, made.append, failures.append)
        self.run()
        assert failures == []
        return made[0]

    def _replay(self, records: list[Record]) -> MetadataDelta:
        delta, of_controller = MetadataDelta(self.image), MetadataDelta(self.state.image)
        for record in records:
            delta.replay(record)
            of_controller.replay(record)
        return delta

    def learn(self, *records: Record) -> None:
        self.live.apply(self._replay(list(records)), self.image)
        self.run()

    def forward(self, request: Any, context: Any, done: Callable[[Any], None]) -> None:
        self.send(request, context.version, done)

    def send(self, request: Any, version: int, done: Callable[[Any], None]) -> None:
        self.passed_on.append(request)
        decide: Any = configs.legacy_alter if isinstance(request, AlterConfigsRequest) else configs.incremental_alter
        decision = decide(self.state, request)
        self.learn(*(each.record for each in decision.records))
        done(decision.response)


def override(resource_type: int, name: str, **settings: str | None) -> list[Record]:
    return [
        ConfigRecord(resource_type=resource_type, resource_name=name, name=key.replace("_", "."), value=value)
        for key, value in settings.items()
    ]
