"""The logs of a broker on a real disk, with small numbers everywhere and jobs on threads."""

from __future__ import annotations

import random
import time
from pathlib import Path

from support.stress.log_kills.workload import DIRECTORIES, PARTITIONS, Partition
from tailrace.config.broker import BrokerConfig
from tailrace.config.cleaner import CleanerConfig
from tailrace.env import Env
from tailrace.env.real import RealClock, RealFiles, ThreadJobs
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicId, TopicPartition
from tailrace.storage.manager.log_directories import NodeIdentity
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

IDENTITY = NodeIdentity("uViM5VGiQUWqVVgvr1gYxQ", 1)
TOPIC_ID = TopicId(bytes(range(16)))
OPEN_FILES = 6  # of old segments and indexes: most are opened anew for each use
SLOW_SHARE = 0.3
SLOW_SECONDS = 0.003


def broker_config(root: Path) -> BrokerConfig:
    return BrokerConfig(
        log_dirs=tuple(str(root / each) for each in DIRECTORIES),
        log_retention_check_interval_ms=20,
        log_flush_offset_checkpoint_interval_ms=40,
        log_flush_start_offset_checkpoint_interval_ms=50,
        log_initial_task_delay_ms=0,
        cleaner=CleanerConfig(
            log_cleaner_threads=2,
            log_cleaner_dedupe_buffer_size=4 << 20,
            log_cleaner_io_buffer_size=8192,
            log_cleaner_backoff_ms=2,
        ),
    )


class SlowFiles(RealFiles):
    """A disk that takes its time with names, so that kills fall between any two of them."""

    def rename(self, old: str, new: str) -> None:
        _wait()
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        _wait()
        super().unlink(path)

    def sync_dir(self, path: str) -> None:
        _wait()
        super().sync_dir(path)


def _wait() -> None:
    if random.random() < SLOW_SHARE:
        time.sleep(random.uniform(0, SLOW_SECONDS))


class Broker:
    """The log manager, with its jobs on threads."""

    def __init__(self, root: Path, seed: int) -> None:
        clock = RealClock()
        self.files = SlowFiles()
        self.jobs = ThreadJobs(clock, workers=4)
        env = Env(files=self.files, clock=clock, jobs=self.jobs, random=random.Random(seed))
        self.manager = LogManager(env, broker_config(root), IDENTITY, WarmSet(OPEN_FILES))

    def open(self) -> None:
        started: list[bool] = []
        configs = {partition.topic: partition.config for partition in PARTITIONS.values()}
        self.manager.start(lambda: started.append(True), configs)
        self.jobs.run_until(lambda: bool(started))

    def create_missing(self) -> None:
        made: list[UnifiedLog] = []
        wanted = 0
        for partition in PARTITIONS.values():
            if self.manager.log(TopicPartition(partition.topic, 0)) is None:
                wanted += 1
                directory = next(
                    each for each in self.manager.directories if each.path.endswith(f"/{partition.directory}")
                )
                self.manager.create(
                    TopicPartition(partition.topic, 0),
                    TOPIC_ID,
                    made.append,
                    fail,
                    is_new=True,
                    directory=directory,
                )
        self.jobs.run_until(lambda: len(made) == wanted)

    def log(self, partition: Partition) -> UnifiedLog:
        log = self.manager.log(TopicPartition(partition.topic, 0))
        if log is None:
            raise AssertionError(f"{partition.name} is not there: {self.manager.unloadable}")
        return log

    def cleaner_point(self, log: UnifiedLog) -> int:
        directory, _, name = log.dir.rpartition("/")
        return self.manager.cleaner.cleaner_point(directory, TopicPartition(name.rpartition("-")[0], 0)) or 0

    def close(self) -> None:
        closed: list[bool] = []
        self.manager.shutdown(lambda: closed.append(True))
        self.jobs.run_until(lambda: bool(closed))
        self.jobs.close()


def fail(error: TailraceError) -> None:
    raise error
