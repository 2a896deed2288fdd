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
    ("setting", "shown"),
    [
        ("broker.rack=row 7", "'broker.rack=row 7'"),
        ("ssl.key.password=secret", "ssl.key.password=VALUE"),
    ],
)
def test_the_option_of_serve_is_quoted_and_shows_no_secret(refused: Refused, setting: str, shown: str) -> None:
    _, hint = refused("config", "set", "--broker", "1", setting)
    assert hint.startswith(f"restart the broker with `tailrace serve --set {shown}`")


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


@pytest.mark.parametrize(
    "command",
    [
        "topic describe ordres",
        "topic alter ordres --partitions 4",
        "topic delete ordres --yes",
        "config describe --topic ordres",
        "config set --topic ordres retention.ms=5",
        "group reset-offsets g --to earliest --topic ordres",
        "cluster dirs --topic ordres",
        "txn producers ordres",
        "txn abort --topic ordres --partition 0 --start-offset 0",
    ],
)
def test_a_command_on_an_existing_topic_does_not_suggest_to_create_one(refused: Refused, command: str) -> None:
    error, hint = refused(*command.split())
    assert error == "there is no topic ordres"
    is_delete = command.startswith("topic delete")
    next_step = "to ignore it, pass --if-exists" if is_delete else "see which there are: tailrace topic list"
    assert hint == f"did you mean orders? else {next_step}"


@pytest.mark.parametrize("command", ["produce ordres", "consume ordres", "consume ordres --group g"])
def test_a_command_that_may_begin_a_topic_names_how_to_create_it(refused: Refused, command: str) -> None:
    _, hint = refused(*command.split())
    assert hint == "did you mean orders? else create it: tailrace topic create ordres"
