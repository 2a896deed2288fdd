"""The settings that hold now: those of the properties file, with what was set at run time on top.

Overrides are in the metadata: for one broker, for all brokers, for single topics. `apply` takes what a delta changed
and hands it to whoever lives by it: logs, the cleaner, moves between directories; others read `config` each time, or
listen to `on_change`. It must run before the replicas take the same delta: a new log is made with its
topic's settings.

Overrides that cannot be (Kafka, or another version, wrote them) are left out with a warning: a broker with a default
too many is better than none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from tailrace.config.cleaner import CleanerConfig
from tailrace.config.describe import Layers
from tailrace.config.log import LogConfig
from tailrace.config.server import ServerConfig
from tailrace.config.table import ConfigError
from tailrace.config.validation import (
    BROKER,
    TOPIC,
    check_reconfiguration,
    layered,
    usable_broker_overrides,
    usable_topic_config,
    validate_broker_config,
)
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import CLUSTER_DEFAULT, MetadataImage
from tailrace.model.listeners import Listeners
from tailrace.storage.cleaner.cleaner import LogCleaner
from tailrace.storage.manager.log_manager import LogManager

_log = logging.getLogger(__name__)

_NOTHING: Final[Mapping[str, str]] = {}


class LiveConfig:
    def __init__(self, static: ServerConfig) -> None:
        self.static = static
        """As the process was started."""
        self.config = static
        """What holds now."""
        self.on_change: Listeners[ServerConfig, ServerConfig] = Listeners()
        """Settings have changed: those before and those after."""
        self._cluster: Mapping[str, str] = _NOTHING
        self._broker: Mapping[str, str] = _NOTHING
        self._logs: LogManager | None = None

    # Taking what the metadata says

    def load(self, image: MetadataImage) -> dict[str, LogConfig]:
        """All of the metadata, before any log is open. Returns the settings of topics that have some of their own."""
        self._take_broker_overrides(image)
        names = [name for kind, name in image.configs if kind == TOPIC and name in image.topics]
        return {name: self.topic_config(image, name) for name in names}

    def attach(self, logs: LogManager) -> None:
        """What holds now, and what changes later, holds for these logs."""
        self._logs = logs
        _push(self.config, logs)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        own = {(BROKER, CLUSTER_DEFAULT), (BROKER, str(self.static.node_id))}
        changed = {name for kind, name in delta.changed_configs if kind == TOPIC}
        if own & delta.changed_configs:
            before = self.config
            self._take_broker_overrides(image)
            if before.broker.topic_defaults != self.config.broker.topic_defaults:
                changed |= {name for kind, name in image.configs if kind == TOPIC}
        if changed and self._logs is not None:
            self._logs.update_configs(self._topic_configs(image, changed))

    def _topic_configs(self, image: MetadataImage, names: Iterable[str]) -> dict[str, LogConfig | None]:
        return {name: self.topic_config(image, name) if image.topic_config(name) else None for name in names}

    def _take_broker_overrides(self, image: MetadataImage) -> None:
        self._cluster = self._usable(image, CLUSTER_DEFAULT)
        self._broker = self._usable(image, str(self.static.node_id))
        before = self.config
        try:
            after = self.static.with_settings(layered(self.static.settings, self._cluster, self._broker))
        except ConfigError as error:
            _log.error("settings from the metadata do not go together, and those before stay: %s", error)
            return
        if after == before:
            return
        self.config = after
        if self._logs is not None:
            _push(after, self._logs)
        self.on_change(before, after)

    def _usable(self, image: MetadataImage, name: str) -> Mapping[str, str]:
        usable, refused = usable_broker_overrides(image.broker_config(name), is_cluster_default=not name)
        for error in refused:
            _log.warning(
                "a setting of %s in the metadata is left out: %s", f"broker {name}" if name else "all brokers", error
            )
        return usable

    # Asking

    @property
    def layers(self) -> Layers:
        """For descriptions."""
        return Layers(self._broker, self._cluster, self.static.settings)

    def topic_config(self, image: MetadataImage, name: str) -> LogConfig:
        """What holds for a topic: its own settings on top of this broker's defaults."""
        config, refused = usable_topic_config(image.topic_config(name), self.config.broker.topic_defaults)
        for error in refused:
            _log.warning("a setting of topic %s in the metadata is left out: %s", name, error)
        return config

    def validate(self, overrides: Mapping[str, str], *, is_cluster_default: bool) -> None:
        """ConfigError if these overrides, in the place of the present ones, could not hold on this broker."""
        validate_broker_config(overrides, is_cluster_default=is_cluster_default)
        if is_cluster_default:
            merged = layered(self.static.settings, overrides, self._broker)
        else:
            merged = layered(self.static.settings, self._cluster, overrides)
        check_reconfiguration(self.config, self.static.with_settings(merged))


def _push(config: ServerConfig, logs: LogManager) -> None:
    logs.update_default_config(config.broker.topic_defaults)
    logs.update_producer_expiration(config.producer_id_expiration_ms)
    logs.update_transaction_verification(config.transaction_partition_verification_enable)
    logs.move_throttle.bytes_per_second = max(config.broker.replica_alter_log_dirs_io_max_bytes_per_second, 1)
    for directory in logs.directories:
        directory.is_cordoned = config.broker.is_cordoned(directory.path)
    if logs.cleaner is not None:
        _reconfigure(logs.cleaner, config.broker.cleaner)


def _reconfigure(cleaner: LogCleaner, wanted: CleanerConfig) -> None:
    """In as many steps as it takes: several changes may have come at once, each of them allowed."""
    while (present := cleaner.config) != wanted:
        least, most = present.log_cleaner_threads // 2, present.log_cleaner_threads * 2
        cleaner.reconfigure(replace(wanted, log_cleaner_threads=min(max(wanted.log_cleaner_threads, least), most)))
