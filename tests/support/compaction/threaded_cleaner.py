"""Our log manager with its cleaner, on a real data directory and on threads, as a broker would run it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from support.kafka.compaction_stages import cleaner_points
from tailrace.config.broker import BrokerConfig
from tailrace.config.log import LogConfig
from tailrace.env import Env
from tailrace.env.real import RealClock, RealFiles, ThreadJobs
from tailrace.model.ids import TopicPartition
from tailrace.storage.manager.log_directories import NodeIdentity
from tailrace.storage.manager.log_manager import LogManager
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE, MetaProperties
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

EPOCH = 50  # above what the broker before us had


def log_config(settings: Mapping[str, str]) -> LogConfig:
    """Of settings as a Kafka topic has them; segments may be as small as Kafka's tests make them."""
    sizes = {"internal.segment.bytes": "segment_bytes"}
    config = LogConfig.of({name: text for name, text in settings.items() if name not in sizes})
    return replace(config, **{sizes[name]: int(text) for name, text in settings.items() if name in sizes})


class OurBroker:
    """Leader of every partition in `log_dir`, whose topics have these `settings`. Leaving the block is a shutdown."""

    def __init__(
        self, log_dir: Path, settings: Mapping[str, Mapping[str, str]], cleaner: Mapping[str, str] | None = None
    ) -> None:
        clock, files = RealClock(), RealFiles()
        found = MetaProperties.read(files, str(log_dir / META_PROPERTIES_FILE))
        assert found is not None
        self._log_dir = log_dir
        self._jobs = ThreadJobs(clock, workers=3)
        self._configs = {topic: log_config(each) for topic, each in settings.items()}
        config = BrokerConfig.of({"log.dirs": str(log_dir), **(cleaner or {})})
        env = Env(files=files, clock=clock, jobs=self._jobs, random=random.Random())
        self.manager = LogManager(env, config, NodeIdentity(found.cluster_id, found.node_id), WarmSet(50))

    def __enter__(self) -> OurBroker:
        self.manager.start(lambda: None, self._configs)
        self._run_until(lambda: self.manager.is_started)
        for partition in self.manager.partitions():
            self._moved_to_end(self.log(partition.topic))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.manager.shutdown(lambda: None)
        self._run_until(lambda: self.manager.is_closed)
        self._jobs.close()

    def _run_until(self, is_reached: Callable[[], bool]) -> None:
        self._jobs.run_until(is_reached)

    def log(self, topic: str) -> UnifiedLog:
        log = self.manager.log(TopicPartition(topic, 0))
        assert log is not None
        return log

    def append(self, topic: str, batch: bytes) -> int:
        """Its base offset."""
        (result,) = self.log(topic).append_as_leader([bytearray(batch)], EPOCH)
        assert result.error is None, result.error
        self._moved_to_end(self.log(topic))
        return result.first_offset

    def _moved_to_end(self, log: UnifiedLog) -> None:
        log.update_high_watermark(log.log_end_offset)

    def clean(self, points: Mapping[str, int]) -> None:
        """Let the cleaner work until its checkpoint file says that these offsets are reached."""
        cleaner = self.manager.cleaner
        assert cleaner is not None
        cleaner.awake()

        def is_reached() -> bool:
            assert not cleaner.uncleanable(str(self._log_dir))
            found = cleaner_points(self._log_dir)
            return all(found.get(topic, -1) >= point for topic, point in points.items())

        self._run_until(is_reached)
