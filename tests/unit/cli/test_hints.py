"""Hints of commands that a running broker refuses: each names a next step that works."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator

import pytest

from support.brokers.threaded import ThreadedBroker
from tailrace.cli.main import main

Refused = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    broker = ThreadedBroker(tmp_path_factory.mktemp("data"))
    try:
        address = f"127.0.0.1:{broker.port}"
        assert main(["topic", "create", "orders", "--bootstrap", address]) == 0
        yield address
    finally:
        broker.close()


@pytest.fixture
def refused(bootstrap: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """The error and the hint of a command that fails."""

    def refused(*arguments: str) -> tuple[str, str]:
        monkeypatch.setenv("TAILRACE_BOOTSTRAP", bootstrap)
        assert main(arguments) == 1
        error, hint = capsys.readouterr().err.splitlines()
        return error.removeprefix("error: "), hint.removeprefix("hint: ")

    return refused


@pytest.mark.parametrize("resource", [("--broker", "1"), ("--cluster",)], ids=" ".join)
def test_a_setting_that_needs_a_restart_names_the_option_of_serve(refused: Refused, resource: tuple[str, ...]) -> None:
    error, hint = refused("config", "set", *resource, "num.partitions=9")
    assert "num.partitions: cannot be changed at run time" in error
    assert hint == "restart the broker with `tailrace serve --set num.partitions=9`, or edit the file of its --config"


@pytest.mark.parametrize(
    ("resource", "key"),
    [
        (("--topic", "orders"), "retention.ms"),
        (("--broker", "1"), "log.retention.ms"),
        (("--cluster",), "log.retention.ms"),
    ],
    ids=["topic", "broker", "cluster"],
)
def test_a_wrong_value_names_the_command_that_describes_the_setting(
    refused: Refused, bootstrap: str, capsys: pytest.CaptureFixture[str], resource: tuple[str, ...], key: str
) -> None:
    error, hint = refused("config", "set", *resource, f"{key}=oops")
    assert f"{key}=oops: must be a whole number" in error
    (command,) = re.findall("`tailrace (.*)`", hint)
    assert main(shlex.split(command)) == 0
    assert f"key={key} " in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        ("topic", "create", "other", "--config", "retention.ms=oops"),
        ("topic", "alter", "orders", "--set", "retention.ms=oops"),
    ],
    ids=["create", "alter"],
)
def test_a_wrong_topic_setting_names_the_command_that_lists_settings(
    refused: Refused, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    _, hint = refused(*command)
    (command_line,) = re.findall("`tailrace (.*)`", hint)
    assert main(shlex.split(command_line.replace("TOPIC", "orders"))) == 0
    assert "key=retention.ms" in capsys.readouterr().out
