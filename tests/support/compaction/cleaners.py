"""A broker's logs under a cleaner, on a simulated machine, and what tests do to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from support.logs.managers import LOG_CONFIG, P0, ManagedWorld
from tailrace.config.cleaner import CleanerConfig
from tailrace.config.log import LogConfig
from tailrace.model.ids import TopicPartition
from tailrace.record.builder import BatchBuilder
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches
from tailrace.storage.cleaner.cleaner import LogCleaner
from tailrace.storage.manager.log_manager import LogManager

COMPACT = replace(LOG_CONFIG, cleanup_policy=("compact",))
BACKOFF_MS = 15_000
SMALL_MAP_BYTES = 24 * 100


class CleanedWorld(ManagedWorld):
    """Topics compact unless `topics` says otherwise."""

    def __init__(
        self, topics: Mapping[str, LogConfig] | None = None, directories: tuple[str, ...] = ("/a",), **changes: Any
    ) -> None:
        cleaner = {name: changes.pop(name) for name in list(changes) if name.startswith("log_cleaner_")}
        cleaner.setdefault("log_cleaner_dedupe_buffer_size", SMALL_MAP_BYTES)
        super().__init__(
            directories,
            topic_defaults=COMPACT,
            cleaner=CleanerConfig(**cleaner),
            log_initial_task_delay_ms=10**12,
            **changes,
        )
        self.topics = dict(topics or {})
        self.cleaned: list[TopicPartition] = []
        self.start()

    def start(self, run: bool = True, **options: Any) -> LogManager:
        manager = super().start(run=False, topic_configs=self.topics, **options)
        if manager.cleaner is not None:
            manager.cleaner.on_cleaned.add(lambda partition, _: self.cleaned.append(partition))
        if run:
            self.run()
            for log in map(self.log, manager.partitions()):
                log.update_high_watermark(log.log_end_offset)
        return manager

    @property
    def cleaner(self) -> LogCleaner:
        assert self.manager.cleaner is not None
        return self.manager.cleaner

    def put(self, partition: TopicPartition = P0, count: int = 60, keys: int = 5, value_bytes: int = 100) -> None:
        """Records one by one, all of them committed."""
        log = self.log(partition)
        for n in range(count):
            builder = BatchBuilder()
            builder.append(self.world.clock.now_ms(), b"%d" % (n % keys), bytes(value_bytes))
            result = log.append_as_leader((builder.build(),), 0)[0]
            assert result.error is None
        log.update_high_watermark(log.log_end_offset)

    def dirty(self, partition: TopicPartition = P0, directory: str | None = None, **options: Any) -> None:
        self.create(partition, directory)
        self.put(partition, **options)

    def clean(self) -> list[TopicPartition]:
        """Let the cleaner look, work and come to rest; which partitions it has cleaned."""
        before = len(self.cleaned)
        self.cleaner.awake()
        self.run()
        return self.cleaned[before:]

    def begin(self, partition: TopicPartition = P0, steps: int = 8) -> None:
        """Run the cleaner until it is in the middle of the partition's clean."""
        self.cleaner.awake()
        self.jobs.tick()
        while not any(each.partition == partition for each in self.cleaner.progress):
            assert self.jobs.run_one() or self.jobs.tick() is None
        for _ in range(steps):
            self.jobs.run_one()

    def keys_at(self, partition: TopicPartition = P0) -> list[tuple[int, bytes]]:
        """Offset and key of all records, in the order of the log."""
        found = []
        for segment in self.log(partition).local.segments:
            data = segment.records.read(0, segment.size)
            for batch in batches(data):
                found += [(record.offset, bytes(record.key or b"")) for record in records_of(data, batch)]
        return found

    def gauge(self, name: str) -> dict[tuple[str, ...], float]:
        return {tuple(tag for _, tag in each.tags): each.value for each in self.manager.gauges() if each.name == name}

    def checkpoint(self, directory: str = "/a") -> bytes:
        return self.read(f"{directory}/cleaner-offset-checkpoint")
