"""What the controller must know of settings: which are legal, which are lists, what a new topic has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from tailrace.config.describe import Layers, describe_topic
from tailrace.config.server import ServerConfig
from tailrace.config.table import ConfigError
from tailrace.config.validation import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    check_elements,
    is_list,
    keys_of_resource,
    usable_topic_config,
    validate_broker_config,
    validate_client_metrics_config,
    validate_group_config,
    validate_topic_config,
)
from tailrace.model.errors import InvalidConfigError, RefusedRequestError
from tailrace.protocol.messages.create_topics import CreatableTopicConfigs

RESOURCES: Final = (TOPIC, BROKER, CLIENT_METRICS, GROUP)
"""Types of resources whose overrides are in the metadata."""


class Settings(Protocol):
    """The node's settings: as it was started, and as they are now."""

    @property
    def static(self) -> ServerConfig: ...
    @property
    def config(self) -> ServerConfig: ...


def check_overrides(
    resource_type: int, name: str, overrides: Mapping[str, str], config: ServerConfig | None = None
) -> None:
    """Raises InvalidConfigError; for brokers and client metrics RefusedRequestError, as Kafka has it."""
    try:
        check_elements(overrides)
        if resource_type == TOPIC:
            validate_topic_config(overrides)
        elif resource_type == BROKER:
            validate_broker_config(overrides, is_cluster_default=not name)
        elif resource_type == GROUP:
            validate_group_config(overrides, config)
        else:
            validate_client_metrics_config(overrides)
    except ConfigError as error:
        refusal = RefusedRequestError if resource_type in (BROKER, CLIENT_METRICS) else InvalidConfigError
        raise refusal(str(error)) from None


def can_be_appended_to(resource_type: int, key: str) -> bool:
    return is_list(resource_type, key)


def default_text(resource_type: int, key: str) -> str | None:
    """What a setting is where nothing says otherwise."""
    row = keys_of_resource(resource_type).get(key)
    return None if row is None else row.default_text


def described(
    settings: Settings,
    overrides: Mapping[str, str],
    cluster_overrides: Mapping[str, str],
    node_overrides: Mapping[str, str],
) -> list[CreatableTopicConfigs]:
    """Every setting of a new topic with these overrides, as the answer to its creation lists them."""
    layers = Layers(node_overrides, cluster_overrides, settings.static.settings)
    config, _ = usable_topic_config(overrides, settings.config.broker.topic_defaults)
    described = sorted(describe_topic(layers, config, overrides), key=lambda each: each.name)
    return [
        CreatableTopicConfigs(
            name=each.name,
            value=each.value,
            read_only=each.is_read_only,
            config_source=int(each.source),
            is_sensitive=each.is_sensitive,
        )
        for each in described
    ]
