"""The levels of this process's loggers, as settings of the resource BROKER_LOGGER. They last as long as the process.

Names are those of Python's loggers, `root` is above all of them. Levels have Kafka's names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from tailrace.config.validation import DELETE, SET
from tailrace.model.errors import InvalidConfigError, RefusedRequestError

ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


class Loggers:
    def levels(self) -> dict[str, str]:
        """The level that holds for each logger."""
        return {name: _name_of(logger.getEffectiveLevel()) for name, logger in sorted(_loggers().items())}

    def alter(self, changes: Iterable[tuple[str, int | None, str | None]], *, validate_only: bool) -> None:
        """Set levels, or let loggers have the level of the one above them again. All of it, or nothing."""
        loggers, altered = _loggers(), dict[str, int]()
        for name, operation, level in changes:
            if operation not in (SET, DELETE):
                raise RefusedRequestError(f"{name}: a level can be set or deleted, not operation {operation}")
            if name not in loggers:
                raise InvalidConfigError(f"{name}: there is no such logger")
            if operation == DELETE and name == ROOT:
                raise RefusedRequestError("the root logger must have a level")
            if operation == SET and level not in LEVELS:
                raise InvalidConfigError(f"{name}={level}: a level is one of {', '.join(LEVELS)}")
            altered[name] = logging.NOTSET if operation == DELETE else LEVELS[level or ""]
        if not validate_only:
            for name, number in altered.items():
                loggers[name].setLevel(number)


def _loggers() -> dict[str, logging.Logger]:
    known = logging.Logger.manager.loggerDict
    found = {name: logger for name, logger in known.items() if isinstance(logger, logging.Logger)}
    return {ROOT: logging.getLogger(), **found}


def _name_of(level: int) -> str:
    """The coarsest of Kafka's levels that lets as much through."""
    return next((name for name, number in LEVELS.items() if level <= number), "FATAL")
