"""Log lines of a server: one line an event, for people or for machines, on standard error.

What clients have said may be part of a message. It is cut where it is too long, and its control characters are
written as escapes: nobody can put a line of his own into the log.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import Final

MAX_MESSAGE_CHARACTERS: Final = 4000

_TEXT: Final = "%(asctime)s.%(msecs)03dZ %(levelname)-7s [%(name)s] %(message)s"
_TIME: Final = "%Y-%m-%dT%H:%M:%S"
_CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class TextLines(logging.Formatter):
    """A traceback, where there is one, follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__(_TEXT, _TIME)
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = _CONTROL_CHARACTER.sub(_escape, _cut(record.message))
        return super().formatMessage(record)


class JsonLines(logging.Formatter):
    """One object a line: time, level, logger, message, and the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        when = f"{time.strftime(_TIME, time.gmtime(record.created))}.{int(record.msecs):03d}Z"
        line = {"time": when, "level": record.levelname, "logger": record.name, "message": _cut(record.getMessage())}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def write_log_lines(level: str, form: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _cut(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE_CHARACTERS else message[:MAX_MESSAGE_CHARACTERS] + "…"


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
