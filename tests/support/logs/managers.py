"""A log manager on a simulated machine, with jobs run to their end, and shortcuts for what tests do to it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from support.logs.builders import Tape, batch, holds
from tailrace.config.broker import BrokerConfig
from tailrace.config.log import LogConfig
from tailrace.env import Mode
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.sim import World
from tailrace.storage.manager.log_directories import NodeIdentity
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

DIRECTORIES = ("/a", "/b")
IDENTITY = NodeIdentity("uViM5VGiQUWqVVgvr1gYxQ", 1)
TOPIC_ID = TopicId(bytes(range(16)))
LOG_CONFIG = LogConfig(segment_bytes=3000, segment_index_bytes=96, index_interval_bytes=200, retention_ms=-1)
P0 = TopicPartition("orders", 0)
P1 = TopicPartition("orders", 1)


def broker_config(directories: tuple[str, ...] = DIRECTORIES, **changes: Any) -> BrokerConfig:
    return replace(BrokerConfig(log_dirs=directories, topic_defaults=LOG_CONFIG), **changes)


class ManagedWorld:
    """One broker's logs. `restart` is a new process on the same disks."""

    def __init__(self, directories: tuple[str, ...] = DIRECTORIES, seed: int = 0, **changes: Any) -> None:
        self.tape = Tape()
        self.world = World(seed, directories=(), faults=self.tape)
        self.disk = self.world.disk
        self.jobs = self.world.jobs
        self.config = broker_config(directories, **changes)
        self.order: random.Random | None = None  # any order of jobs, when set
        self.manager = self.new()

    def new(self, config: BrokerConfig | None = None, identity: NodeIdentity = IDENTITY) -> LogManager:
        self.manager = LogManager(self.world.env, config or self.config, identity, WarmSet(50))
        return self.manager

    def start(self, run: bool = True, **options: Any) -> LogManager:
        self.has_started = False

        def started() -> None:
            self.has_started = True

        self.manager.start(started, **options)
        if run:
            self.run()
        return self.manager

    def start_only(self, **options: Any) -> LogManager:
        """Until every log is open, and no further."""
        manager = self.start(run=False, **options)
        while not self.has_started:
            assert self.jobs.run_one(self.order)
        return manager

    def restart(self, power: bool = False, **options: Any) -> LogManager:
        """After the process was killed, or the power was lost."""
        (self.world.restart if power else self.world.kill)()
        self.new()
        return self.start(**options)

    def run(self) -> None:
        """All jobs, and what is due now."""
        while self.jobs.pending or any(left <= 0 for _, left in self.jobs.waiting):
            self.jobs.run_all(self.order)
            self.jobs.tick()

    def pass_time(self, ms: int) -> None:
        """Step by step, so that jobs end as they would."""
        end = self.world.clock.now_ms() + ms
        while self.world.clock.now_ms() < end:
            soonest = min((left for _, left in self.jobs.waiting), default=ms)
            now = self.world.clock.now_ms()
            self.jobs.tick(min(end, now + max(soonest, 1)))
            self.jobs.run_all(self.order)

    def shutdown(self, epoch: int = 7) -> None:
        ended: list[bool] = []
        self.manager.shutdown(lambda: ended.append(True), epoch)
        self.run()
        assert ended == [True]

    def create(self, partition: TopicPartition = P0, directory: str | None = None, **options: Any) -> UnifiedLog:
        made: list[UnifiedLog] = []
        failures: list[TailraceError] = []
        options.setdefault("topic_id", TOPIC_ID)
        where = None if directory is None else self.manager.directories.at(directory)
        self.manager.create(partition, done=made.append, failed=failures.append, directory=where, **options)
        self.run()
        if failures:
            raise failures[0]
        return made[0]

    def create_future(self, partition: TopicPartition, directory: str) -> UnifiedLog:
        made: list[UnifiedLog] = []
        failures: list[TailraceError] = []
        self.manager.create_future(partition, self.manager.directories.at(directory), made.append, failures.append)
        self.run()
        if failures:
            raise failures[0]
        return made[0]

    def delete(self, *partitions: TopicPartition, **options: Any) -> Mapping[TopicPartition, TailraceError]:
        outcomes: list[Mapping[TopicPartition, TailraceError]] = []
        self.manager.delete(partitions, outcomes.append, **options)
        self.run()
        return outcomes[0]

    def append(self, partition: TopicPartition = P0, count: int = 1, value_bytes: int = 100, **fields: Any) -> None:
        log = self.log(partition)
        for _ in range(count):
            result = log.append_as_leader((batch(1, value_bytes, **fields),), 0)[0]
            if result.error is not None:
                raise result.error

    def truncate_to(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises what went wrong. Runs jobs only as long as the truncation takes."""
        outcomes: list[Mapping[TopicPartition, TailraceError]] = []
        self.manager.truncate_to(offsets, outcomes.append)
        self._wait_for(outcomes)

    def truncate_fully(self, partition: TopicPartition, offset: int, log_start: int | None = None) -> None:
        outcomes: list[Mapping[TopicPartition, TailraceError]] = []
        self.manager.truncate_fully_and_start_at(partition, offset, outcomes.append, log_start)
        self._wait_for(outcomes)

    def _wait_for(self, outcomes: list[Mapping[TopicPartition, TailraceError]]) -> None:
        while not outcomes:
            assert self.jobs.run_one(self.order)
        for error in outcomes[0].values():
            raise error

    def flush(self, partition: TopicPartition = P0) -> None:
        self.log(partition).flush()
        self.run()

    def log(self, partition: TopicPartition = P0) -> UnifiedLog:
        log = self.manager.log(partition)
        assert log is not None
        return log

    def names(self, directory: str) -> list[str]:
        return [entry.name for entry in self.disk.list(directory)]

    def read(self, path: str) -> bytes:
        return self.disk.open(path, Mode.READ).read_at(self.disk.size(path), 0)

    def write(self, path: str, data: bytes) -> None:
        self.disk.open(path, Mode.REPLACE).write_at((data,), 0)


def offsets_in(log: UnifiedLog) -> list[int]:
    return [first for first, _ in holds(log)]
