"""A group's settings: the broker's, under those that somebody gave this group, within what the broker allows.

A setting of a group is checked when it is made; the broker's bounds may have moved since, and then they hold.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from tailrace.config.overrides import GroupOverrides
from tailrace.config.server import ServerConfig
from tailrace.config.table import parsed
from tailrace.config.validation import GROUP
from tailrace.metadata.image import MetadataImage

_FIELDS: Final = tuple(each.name for each in fields(GroupOverrides))
_NAMED_OTHERWISE: Final = {"streams_num_standby_replicas": "streams_standby_replicas"}


class _Defaults:
    """Of the broker's settings that were asked about last: they change rarely."""

    config: ServerConfig | None = None
    settings = GroupOverrides()


_last: Final = _Defaults()


def settings_of_group(config: ServerConfig, image: MetadataImage, group_id: str) -> GroupOverrides:
    if _last.config is not config:
        _last.settings = GroupOverrides(**_defaults(config))
        _last.config = config
    overrides = image.configs.get((GROUP, group_id))
    if not overrides:
        return _last.settings
    values = _defaults(config)
    for name, value in parsed(GroupOverrides, overrides, "group").items():
        values[name] = _bounded(config, name, value)
    return GroupOverrides(**values)


def _defaults(config: ServerConfig) -> dict[str, Any]:
    return {name: getattr(config, f"group_{name}") for name in _FIELDS if hasattr(config, f"group_{name}")}


def _bounded(config: ServerConfig, name: str, value: Any) -> Any:
    kind, _, rest = _NAMED_OTHERWISE.get(name, name).partition("_")
    lowest = getattr(config, f"group_{kind}_min_{rest}", None)
    highest = getattr(config, f"group_{kind}_max_{rest}", None)
    if lowest is not None:
        value = max(value, lowest)
    return value if highest is None else min(value, highest)
