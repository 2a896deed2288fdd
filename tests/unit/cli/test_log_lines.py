"""Log lines stay lines, whatever clients have said."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from tailrace.cli.log_lines import MAX_MESSAGE_CHARACTERS, JsonLines, TextLines, write_log_lines


def line(formatter: logging.Formatter, message: str, *args: object, error: BaseException | None = None) -> str:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("tailrace.test", logging.INFO, "", 0, message, args, exc_info)
    record.created, record.msecs = 1_700_000_000.5, 500
    return formatter.format(record)


def test_a_line_of_text() -> None:
    assert line(TextLines(), "%s is there", "orders") == (
        "2023-11-14T22:13:20.500Z INFO    [tailrace.test] orders is there"
    )


@pytest.mark.parametrize("character", ["\n", "\r", "\x1b", "\x00", "\x85", "\u2028"])
def test_no_client_can_write_lines_of_its_own(character: str) -> None:
    written = line(TextLines(), "client %s", f"a{character}2026 ERROR b")
    assert len(written.splitlines()) == 1
    assert character not in written
    assert character.encode("unicode_escape").decode() in written


def test_a_traceback_has_lines_of_its_own() -> None:
    written = line(TextLines(), "it failed", error=ValueError("no"))
    assert written.splitlines()[-1] == "ValueError: no"


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()])
def test_a_message_has_an_end(formatter: logging.Formatter) -> None:
    assert len(line(formatter, "%s", "x" * 10**6)) < MAX_MESSAGE_CHARACTERS + 200


def test_a_line_of_json() -> None:
    assert json.loads(line(JsonLines(), "%s", "a\nb")) == {
        "time": "2023-11-14T22:13:20.500Z",
        "level": "INFO",
        "logger": "tailrace.test",
        "message": "a\nb",
    }


def test_a_line_of_json_keeps_letters_that_are_not_ascii() -> None:
    """An operator searches the log for the name of a client as it is."""
    written = line(JsonLines(), "client %s", "café 東京")
    assert '"message": "client café 東京"' in written


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """With its level and handlers restored."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield root
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.mark.parametrize(
    ("form", "expected"), [("text", "INFO    [tailrace.test] once"), ("json", '"message": "once"')]
)
def test_an_event_is_written_once_in_the_form_of_the_last_call(
    capsys: pytest.CaptureFixture[str], root_logger: logging.Logger, form: str, expected: str
) -> None:
    write_log_lines("info", "json" if form == "text" else "text")
    write_log_lines("info", form)
    logging.getLogger("tailrace.test").info("once")
    logging.getLogger("tailrace.test").debug("below the level")
    (written,) = capsys.readouterr().err.splitlines()
    assert expected in written
