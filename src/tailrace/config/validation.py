"""Whether overrides can be: of a topic, of one broker or all of them, of a group, of a client metrics subscription.

Used by the controller before it writes them, by brokers before they pass changes of their own settings on, and by
brokers that find overrides in the metadata which another version, or Kafka, has let through. Everything raises
ConfigError with the key named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tailrace.config.log import LogConfig
from tailrace.config.overrides import ClientMetricsConfig, GroupOverrides
from tailrace.config.server import ServerConfig, server_keys
from tailrace.config.server_checks import check_listener_prefix
from tailrace.config.table import ConfigError, Key, Kind, Mode, keys_of, parsed
from tailrace.config.topic_defaults import synonyms

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

SET, DELETE, APPEND, SUBTRACT = range(4)

_POOLS: Final = (
    "num_io_threads",
    "num_network_threads",
    "num_replica_fetchers",
    "background_threads",
)
_WITHOUT_EMPTY_ELEMENTS: Final = frozenset({"cleanup.policy", "log.cleanup.policy"})
_LISTENER_PREFIX: Final = re.compile(r"listener\.name\.[^.]*\..*")


def validate_topic_config(overrides: Mapping[str, str]) -> LogConfig:
    """The configuration that a topic with these overrides has, on a broker whose own settings are the defaults."""
    return LogConfig.of(overrides)


def validate_broker_config(overrides: Mapping[str, str], *, is_cluster_default: bool) -> None:
    """Names and values, each by itself. Keys that nobody knows may be set, as in Kafka: they have no effect."""
    known = server_keys()
    fixed = [name for name in overrides if name in known and known[name].mode is Mode.READ_ONLY]
    if fixed:
        raise ConfigError(f"{', '.join(fixed)}: cannot be changed at run time; set it where the broker is started")
    for name, text in overrides.items():
        if name in known:
            known[name].parsed(text)
        elif _LISTENER_PREFIX.fullmatch(name):
            check_listener_prefix(name, text)
            raise ConfigError(f"{name}: settings of single listeners do not exist yet")
    if is_cluster_default:
        own = [name for name in overrides if name in known and known[name].mode is Mode.PER_BROKER]
        if own:
            raise ConfigError(f"{', '.join(own)}: is of each broker; name the broker whose setting to change")


def validate_group_config(overrides: Mapping[str, str], config: ServerConfig | None = None) -> None:
    """Within the bounds that the broker sets, `group.consumer.min.session.timeout.ms` and their like."""
    parsed(GroupOverrides, overrides, "group")
    for name, text in overrides.items():
        protocol, _, rest = name.partition(".")
        for bound in ("min", "max"):
            row = server_keys().get(f"group.{protocol}.{bound}.{rest}")
            if row is None:
                continue
            limit = row.default if config is None else getattr(config, row.field)
            if (int(text) < limit) if bound == "min" else (int(text) > limit):
                raise ConfigError(
                    f"{name}={text}: must not be {'below' if bound == 'min' else 'above'} {row.name}={limit}"
                )


def validate_client_metrics_config(overrides: Mapping[str, str]) -> None:
    parsed(ClientMetricsConfig, overrides, "client metrics")


def check_reconfiguration(old: ServerConfig, new: ServerConfig) -> None:
    """What cannot be changed so far at once: a pool grows or shrinks by a factor of two at most, lest a slip of the
    pen starts a thousand threads."""
    for field in _POOLS:
        _check_pool(field.replace("_", "."), getattr(old, field), getattr(new, field))
    recovery = "num_recovery_threads_per_data_dir"
    _check_pool(recovery.replace("_", "."), getattr(old.broker, recovery), getattr(new.broker, recovery))
    old.broker.cleaner.check_change(new.broker.cleaner)


def _check_pool(name: str, current: int, wanted: int) -> None:
    if not current // 2 <= wanted <= current * 2:
        raise ConfigError(f"{name}={wanted}: is {current} and can be halved or doubled at most; take several steps")


def usable_broker_overrides(
    overrides: Mapping[str, str], *, is_cluster_default: bool
) -> tuple[dict[str, str], list[ConfigError]]:
    """Those that can be, and why the others cannot: a broker goes on without them rather than not at all."""
    usable, refused = dict[str, str](), list[ConfigError]()
    for name, text in overrides.items():
        try:
            validate_broker_config({name: text}, is_cluster_default=is_cluster_default)
        except ConfigError as error:
            refused.append(error)
        else:
            usable[name] = text
    return usable, refused


def usable_topic_config(overrides: Mapping[str, str], defaults: LogConfig) -> tuple[LogConfig, list[ConfigError]]:
    """The topic's configuration without the overrides that cannot be, and why they cannot."""
    try:
        return LogConfig.of(overrides, defaults), []
    except ConfigError:
        config, refused = defaults, list[ConfigError]()
        for name, text in overrides.items():
            try:
                config = LogConfig.of({name: text}, config)
            except ConfigError as error:
                refused.append(error)
        return config, refused


def layered(*layers: Mapping[str, str]) -> dict[str, str]:
    """One set of settings from several, the later ones stronger.

    A setting that means the same in another unit gives way: `log.retention.ms` at run time to `log.retention.hours`
    in a file.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        for name in layer:
            for other in synonyms(name):
                merged.pop(other, None)
        merged.update(layer)
    return merged


def is_list(resource_type: int, name: str) -> bool:
    """Whether elements can be appended to the value or removed from it.

    Kafka can do that to lists of topics and brokers, not to those of client metrics subscriptions.
    """
    row = keys_of_resource(resource_type).get(name)
    return row is not None and row.kind is Kind.LIST and resource_type in (TOPIC, BROKER)


def check_elements(overrides: Mapping[str, str]) -> None:
    """Refuse lists with empty elements where Kafka does. The whole list may be empty.

    Only for changes: an override that is stored already still counts, without its empty elements.
    """
    for name in _WITHOUT_EMPTY_ELEMENTS & overrides.keys():
        text = overrides[name]
        if text.strip() and not all(element.strip() for element in text.split(",")):
            raise ConfigError(f"{name}={text}: must not have empty elements")


def edited_list(present: str, operation: int, operand: str) -> str:
    """The list `present` after APPEND or SUBTRACT of the elements in `operand`, as Kafka edits it.

    An element that is in the list is not added again. Each element of `operand` removes one occurrence; one that is
    not in the list changes nothing. Empty elements at the end of `operand` do not count, unless it is empty itself.
    """
    elements = [each for each in present.split(",") if each]
    named = operand.rstrip(",").split(",") if operand.strip(",") or not operand else []
    for element in named:
        if operation == APPEND and element not in elements:
            elements.append(element)
        elif operation == SUBTRACT and element in elements:
            elements.remove(element)
    return ",".join(elements)


def incrementally_altered(
    resource_type: int, current: Mapping[str, str], operations: Iterable[tuple[str, int, str | None]]
) -> dict[str, str]:
    """`current` overrides after the operations of an IncrementalAlterConfigs request: (key, what, value)."""
    altered = dict(current)
    for name, operation, value in operations:
        if operation == SET:
            altered[name] = value or ""
        elif operation == DELETE:
            altered.pop(name, None)
        elif not is_list(resource_type, name):
            raise ConfigError(f"{name}: is no list, so nothing can be appended to it or taken from it")
        else:
            row = keys_of_resource(resource_type)[name]
            altered[name] = edited_list(altered.get(name, row.default_text or ""), operation, value or "")
    return altered


def keys_of_resource(resource_type: int) -> Mapping[str, Key]:
    """The keys that a resource's overrides may name."""
    if resource_type == TOPIC:
        return _TOPIC_KEYS
    if resource_type == BROKER:
        return server_keys()
    if resource_type == GROUP:
        return _GROUP_KEYS
    return _CLIENT_METRICS_KEYS if resource_type == CLIENT_METRICS else {}


_TOPIC_KEYS: Final = keys_of(LogConfig)
_GROUP_KEYS: Final = keys_of(GroupOverrides)
_CLIENT_METRICS_KEYS: Final = keys_of(ClientMetricsConfig)
