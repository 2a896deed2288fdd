"""From a properties file and arguments to the configuration of a server."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tailrace.cli.output import CommandError
from tailrace.config.properties import parse_properties
from tailrace.config.server import ServerConfig
from tailrace.config.table import ConfigError

_log = logging.getLogger(__name__)


def server_config(file: str | None, settings: Mapping[str, str], data: str | None, listen: str | None) -> ServerConfig:
    """Arguments go over the file. Unknown keys are warned about; what is wrong is a CommandError with the key in it."""
    given: dict[str, str] = {}
    if file is not None:
        try:
            with open(file, "rb") as properties:
                given.update(parse_properties(properties.read()))
        except OSError as error:
            raise CommandError(f"cannot read {file}: {error.strerror}", "check the path and its permissions") from None
    if data is not None:
        given["log.dirs"] = data
        given.pop("log.dir", None)
    if listen is not None:
        given["listeners"] = _with_address(
            given.get("listeners", ""), given.get("controller.listener.names", ""), listen
        )
        given.pop("advertised.listeners", None)
    given.update(settings)
    try:
        config = ServerConfig.of(given) if file is not None else ServerConfig.single_node(given)
    except ConfigError as error:
        raise CommandError(str(error), error.hint or "correct the setting and start again") from None
    for key in config.unknown:
        _log.warning("%s: no such setting; it is ignored", key)
    return config


def _with_address(listeners: str, controllers: str, address: str) -> str:
    """The listeners with `address` for the first that is not a controller's."""
    names = {name.strip().upper() for name in controllers.split(",")}
    given = [part.strip() for part in listeners.split(",") if part.strip()]
    for place, part in enumerate(given):
        name = part.partition("://")[0]
        if name.upper() not in names:
            given[place] = f"{name}://{address}"
            return ",".join(given)
    return ",".join([f"PLAINTEXT://{address}", *given])
