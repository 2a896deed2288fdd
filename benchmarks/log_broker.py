"""A LogManager whose jobs run on threads: as much of a broker as opens, cleans and closes the logs of a directory."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from tailrace.config.broker import BrokerConfig
from tailrace.config.log import LogConfig
from tailrace.env import Env
from tailrace.env.real import RealClock, RealFiles, ThreadJobs
from tailrace.model.ids import TopicPartition
from tailrace.storage.manager.log_directories import NodeIdentity
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

NODE = NodeIdentity("benchmark", 1)
WARM = 1000


class LogBroker:
    def __init__(self, directory: Path, threads: int, settings: Mapping[str, str]) -> None:
        clock = RealClock()
        self.jobs = ThreadJobs(clock, threads)
        env = Env(files=RealFiles(), clock=clock, jobs=self.jobs, random=random.Random())
        config = BrokerConfig.of({"log.dirs": str(directory), **settings})
        self.manager = LogManager(env, config, NODE, WarmSet(WARM))

    def start(self, topic_configs: Mapping[str, LogConfig] | None = None) -> None:
        self.manager.start(lambda: None, topic_configs)
        self.jobs.run_until(lambda: self.manager.is_started)

    def stop(self) -> None:
        """As it should be: the next start finds a clean shutdown."""
        self.manager.shutdown(lambda: None)
        self.jobs.run_until(lambda: self.manager.is_closed)
        self.jobs.close()

    def die(self) -> None:
        """The next start has to recover every log from its beginning."""
        self.jobs.close()
        for log in self.logs().values():
            log.abandon()
        self.manager.directories.unlock()

    def create(self, partition: TopicPartition) -> UnifiedLog:
        made: list[UnifiedLog] = []
        self.manager.create(partition, None, made.append, raise_it, is_new=True)
        self.jobs.run_until(lambda: bool(made))
        return made[0]

    def logs(self) -> dict[TopicPartition, UnifiedLog]:
        found = ((partition, self.manager.log(partition)) for partition in self.manager.partitions())
        return {partition: log for partition, log in found if log is not None}


def raise_it(error: Exception) -> None:
    raise error
