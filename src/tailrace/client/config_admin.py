"""Settings of topics, brokers and the whole cluster: what they are, where each comes from, and changing them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.errors import NONE, error_of
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPIC: Final = 2
BROKER: Final = 4
CLUSTER_DEFAULT: Final = ""

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "cluster default",
    4: "static",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
OVERRIDES: Final = {TOPIC: {1}, BROKER: {2, 3}}
TYPES: Final = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}


class Resource(NamedTuple):
    """A topic; a broker by its id; or with BROKER and CLUSTER_DEFAULT what holds for brokers without an own value."""

    type: int
    name: str

    @classmethod
    def topic(cls, name: str) -> Resource:
        return cls(TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> Resource:
        return cls(BROKER, str(node_id))

    @classmethod
    def cluster_default(cls) -> Resource:
        return cls(BROKER, CLUSTER_DEFAULT)

    @property
    def node_id(self) -> int | None:
        """Who alone can tell of it; None where any broker can."""
        return int(self.name) if self.type == BROKER and self.name else None


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: str


class ConfigEntry(NamedTuple):
    """`value` is None where it is sensitive. `is_override`: set for this very resource."""

    name: str
    value: str | None
    source: str
    is_override: bool
    is_read_only: bool
    is_sensitive: bool
    type: str
    synonyms: tuple[Synonym, ...]
    documentation: str | None


class ConfigAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def describe(
        self, resource: Resource, keys: Iterable[str] | None = None, *, with_documentation: bool = False
    ) -> list[ConfigEntry]:
        """Of all keys, or of these; by name."""
        wanted = DescribeConfigsResource(
            resource_type=resource.type,
            resource_name=resource.name,
            configuration_keys=None if keys is None else list(keys),
        )
        request = DescribeConfigsRequest(
            resources=[wanted], include_synonyms=True, include_documentation=with_documentation
        )

        def ask() -> list[ConfigEntry]:
            response: DescribeConfigsResponse = self._cluster.call(request, node_id=resource.node_id)
            (said,) = response.results
            if said.error_code != NONE:
                raise error_of(said.error_code, said.error_message)
            return sorted(_entry(resource, each) for each in said.configs)

        return self._cluster.retry("describing settings", ask)

    def alter(
        self,
        resource: Resource,
        *,
        values: Mapping[str, str] | None = None,
        unset: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Set these, take back those; `append` and `subtract` change settings that are lists. All or nothing."""
        changes = [
            *(_change(key, SET, value) for key, value in (values or {}).items()),
            *(_change(key, DELETE, None) for key in unset),
            *(_change(key, APPEND, value) for key, value in (append or {}).items()),
            *(_change(key, SUBTRACT, value) for key, value in (subtract or {}).items()),
        ]
        wanted = AlterConfigsResource(resource_type=resource.type, resource_name=resource.name, configs=changes)
        request = IncrementalAlterConfigsRequest(resources=[wanted], validate_only=validate_only)

        def ask() -> None:
            response: IncrementalAlterConfigsResponse = self._cluster.call(request, node_id=resource.node_id)
            (said,) = response.responses
            if said.error_code != NONE:
                raise error_of(said.error_code, said.error_message)

        self._cluster.retry("changing settings", ask)


def _change(key: str, operation: int, value: str | None) -> AlterableConfig:
    return AlterableConfig(name=key, config_operation=operation, value=value)


def _entry(resource: Resource, said: DescribeConfigsResourceResult) -> ConfigEntry:
    own = {3} if resource == Resource.cluster_default() else OVERRIDES.get(resource.type, set()) - {3}
    return ConfigEntry(
        said.name,
        said.value,
        SOURCES.get(said.config_source, f"source {said.config_source}"),
        said.config_source in own,
        said.read_only,
        said.is_sensitive,
        TYPES.get(said.config_type, "unknown"),
        tuple(
            Synonym(each.name, each.value, SOURCES.get(each.source, f"source {each.source}")) for each in said.synonyms
        ),
        said.documentation,
    )
