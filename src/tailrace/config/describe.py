"""What DescribeConfigs says of settings: value, where it comes from, what else it could have come from.

A broker's setting comes from the strongest of four layers that has it: the broker's own override, the override for all
brokers, the properties file, the default. A topic's setting comes from the topic's override, or from the broker's
setting that is its default. Several keys of a broker may mean the same; those weaker than the key in question are
listed behind it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tailrace.config.log import LogConfig
from tailrace.config.overrides import ClientMetricsConfig, GroupOverrides
from tailrace.config.server import server_keys
from tailrace.config.table import Key, Mode, keys_of, value_text
from tailrace.config.topic_defaults import TOPIC_DEFAULTS, synonyms
from tailrace.config.validation import layered

UNKNOWN_KIND: Final = 0


class Source(enum.IntEnum):
    TOPIC = 1
    BROKER = 2
    CLUSTER_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class Description:
    name: str
    value: str | None
    source: Source
    synonyms: tuple[Synonym, ...] = ()
    is_read_only: bool = False
    is_sensitive: bool = False
    kind: int = UNKNOWN_KIND
    documentation: str | None = None


@dataclass(frozen=True, slots=True)
class Layers:
    """A broker's settings as given, the strongest first."""

    broker: Mapping[str, str]
    cluster: Mapping[str, str]
    static: Mapping[str, str]

    def effective(self) -> dict[str, str]:
        return layered(self.static, self.cluster, self.broker)

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """Where the value of a broker's key comes from, and what is hidden behind it."""
        names, found = synonyms(name), list[Synonym]()
        given = ((self.broker, Source.BROKER), (self.cluster, Source.CLUSTER_DEFAULT), (self.static, Source.STATIC))
        for layer, source in given:
            found += [Synonym(each, _shown(each, layer[each]), source) for each in names if each in layer]
        for each in names:
            row = server_keys().get(each)
            if row is not None and row.default_text is not None and not _is_of_run_time_only(row):
                found.append(Synonym(each, _shown(each, row.default_text), Source.DEFAULT))
        while found and found[0].name != name:
            del found[0]
        return tuple(found)


def _is_of_run_time_only(row: Key) -> bool:
    """In no properties file of Kafka's: such a setting is there once it is set, and has no default to speak of."""
    return row.is_internal and row.mode is not Mode.READ_ONLY


def describe_broker(layers: Layers) -> Iterator[Description]:
    """Everything about one broker."""
    effective = layers.effective()
    for name, row in server_keys().items():
        if name in effective:
            yield _of_broker(name, row.text_of(effective[name]), layers.synonyms(name))
        elif not row.is_internal:
            yield _of_broker(name, row.default_text, layers.synonyms(name))
    for name in effective.keys() - server_keys().keys():
        yield _of_broker(name, effective[name], layers.synonyms(name))


def describe_cluster_default(layers: Layers) -> Iterator[Description]:
    """What was set for all brokers."""
    for name, text in layers.cluster.items():
        found = tuple(each for each in layers.synonyms(name) if each.source is Source.CLUSTER_DEFAULT)
        yield _of_broker(name, text, found)


def _of_broker(name: str, value: str | None, found: tuple[Synonym, ...]) -> Description:
    row = server_keys().get(name)
    return Description(
        name,
        value if value is None else _shown(name, value),
        found[0].source if found else Source.DEFAULT,
        found,
        is_read_only=row is None or row.mode is Mode.READ_ONLY,
        is_sensitive=row is None or row.is_sensitive,
        kind=UNKNOWN_KIND if row is None else row.kind,
        documentation=None if row is None else row.doc,
    )


def _shown(name: str, text: str) -> str | None:
    """Secrets are not told; what nobody knows may be one."""
    row = server_keys().get(name)
    return None if row is None or row.is_sensitive else text


def describe_topic(layers: Layers, config: LogConfig, overrides: Mapping[str, str]) -> Iterator[Description]:
    """`config` is what the topic has with its `overrides`."""
    for name, row in _TOPIC_KEYS.items():
        if row.is_internal and name not in overrides:
            continue
        value = value_text(row.kind, getattr(config, row.field))
        default = _BROKER_KEYS.get(name)
        found = () if default is None else layers.synonyms(default)
        if name in overrides:
            found = (Synonym(name, value, Source.TOPIC), *found)
        yield _described(row, value, found)


def describe_group(layers: Layers, overrides: Mapping[str, str]) -> Iterator[Description]:
    effective = layers.effective()
    for name, row in _GROUP_KEYS.items():
        broker_key = f"group.{name}"
        if broker_key in server_keys():
            found = layers.synonyms(broker_key)
            value = effective.get(broker_key, server_keys()[broker_key].default_text)
        else:
            found, value = (Synonym(name, row.default_text, Source.DEFAULT),), row.default_text
        if name in overrides:
            value = row.text_of(overrides[name])
            found = (Synonym(name, value, Source.GROUP), *found)
        yield _described(row, value, found)


def describe_client_metrics(overrides: Mapping[str, str]) -> Iterator[Description]:
    for name, row in _CLIENT_METRICS_KEYS.items():
        if name in overrides:
            value: str | None = row.text_of(overrides[name])
            yield _described(row, value, (Synonym(name, value, Source.CLIENT_METRICS),))
        else:
            yield _described(row, row.default_text, ())


def _described(row: Key, value: str | None, found: tuple[Synonym, ...]) -> Description:
    source = found[0].source if found else Source.DEFAULT
    return Description(row.name, value, source, found, kind=row.kind, documentation=row.doc)


_TOPIC_KEYS: Final = keys_of(LogConfig)
_GROUP_KEYS: Final = keys_of(GroupOverrides)
_CLIENT_METRICS_KEYS: Final = keys_of(ClientMetricsConfig)

# The broker's key that a topic's default is described by: of several units the finest.
_BROKER_KEYS: Final[dict[str, str]] = {}
for _name, _default in TOPIC_DEFAULTS.items():
    _BROKER_KEYS.setdefault(_default.topic_key, _name)
