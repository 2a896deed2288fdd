"""`tailrace cluster quorum`, `controllers`, `features` and `unregister`, against a scripted quorum."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from support.brokers.quorate import LEADER, QuorumNode, Replica, controller_file, directory
from support.brokers.scripted import NO_ANSWER
from tailrace.cli import quorum_run
from tailrace.cli.main import INTERRUPTED, main
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE

COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
DEAD = 60_000
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def node() -> Iterator[QuorumNode]:
    with QuorumNode({1: Replica(), 2: Replica(), 3: Replica()}) as node:
        yield node


@pytest.fixture
def run(node: QuorumNode, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: object, terminal: int | None = None) -> tuple[int, str, str]:
        monkeypatch.setenv("TAILRACE_BOOTSTRAP", node.address)
        if terminal is not None:
            monkeypatch.setenv("COLUMNS", str(terminal))
            monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        code = main(["cluster", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, COLOURS.sub("", captured.out), captured.err

    return run


def items(run: Run, *arguments: object) -> list[dict[str, Any]]:
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


# Showing


def test_health_of_voters(node: QuorumNode, run: Run) -> None:
    node.voters[2] = Replica(caught_up_ms_ago=DEAD, log_end=20)
    node.voters[3] = Replica(DEAD, DEAD, log_end=10)
    node.observers[9] = Replica(directory="e")
    quorum, *replicas = items(run, "quorum")
    assert [(each["node"], each["role"], each["health"], each["lag"]) for each in replicas] == [
        (1, "leader", "leader", 0),
        (2, "voter", "lagging", 100),
        (3, "voter", "not fetching", 110),
        (9, "observer", "caught up", 0),
    ]
    assert (quorum["kraft_version"], quorum["majority"], quorum["caught_up"], quorum["may_fail"]) == (1, 2, 1, 0)
    assert quorum["problems"] == [
        "voter 2 has not caught up: look at its disk and its network",
        "voter 3 does not fetch: start it, or replace it",
        "1 of 3 voters have caught up, a majority is 2",
    ]
    picture = run("quorum", terminal=130)[1]
    assert "records of the metadata log (kraft.version 1)" in picture
    assert "not fetching" in picture


def test_quorum_by_its_controllers(node: QuorumNode, run: Run) -> None:
    code, _, err = run("quorum", "--bootstrap-controller", node.address)
    assert (code, err.splitlines()[0]) == (1, f"error: {node.address} is a listener of a broker, not of a controller")
    node.is_controller = True
    assert items(run, "quorum", "--bootstrap-controller", node.address)[0]["voters"] == 3
    code, _, err = run("quorum", "--bootstrap-controller", "127.0.0.1:1")
    assert (code, err.splitlines()[0]) == (1, "error: no controller at 127.0.0.1:1: Connection refused")


def test_a_quorum_without_leader_is_an_error_that_names_its_controllers(node: QuorumNode, run: Run) -> None:
    node.is_controller, node.has_leader = True, False
    node.dead = {2: 1}
    code, out, err = run("quorum", "--bootstrap-controller", node.address, "--timeout", "0.2")
    assert (code, out) == (1, "")
    first, hint = err.splitlines()
    assert first == (
        "error: the metadata quorum has no leader; controllers that accept connections: 1, 3; controllers that do not: "
        "2"
    )
    assert hint.startswith("hint: a majority of the controllers must run")


def test_an_active_controller_that_is_gone_is_named(node: QuorumNode, run: Run) -> None:
    node.is_controller = True
    node.dead = {LEADER: 1}
    code, _, err = run("quorum", "--bootstrap-controller", node.address, "--timeout", "0.2")
    assert (code, err.splitlines()[0]) == (
        1,
        "error: the active controller, node 1, is not at 127.0.0.1:1: Connection refused; controllers that accept "
        "connections: 2, 3; controllers that do not: 1",
    )


def test_a_silent_broker_may_have_no_active_controller(node: QuorumNode, run: Run) -> None:
    node.answers[DescribeQuorumRequest] = lambda _: NO_ANSWER
    code, _, err = run("quorum", "--timeout", "0.2")
    assert code == 1
    first, hint = err.splitlines()
    assert re.fullmatch(rf"error: no response of {node.address} for 0\.\d+ s: no controller may be active", first)
    assert "--bootstrap-controller HOST:PORT" in hint


def test_the_listener_of_a_controller_is_no_broker(
    node: QuorumNode, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    node.is_controller = True
    code, _, err = run("describe")
    expected = f"error: {node.address} is a listener of a controller, not of a broker\nhint: pass addresses"
    assert code == 1
    assert err.startswith(expected)
    del node.versions[MetadataRequest.KEY]
    assert main(["topic", "list", "--bootstrap", node.address]) == 1
    assert capsys.readouterr().err.startswith(expected)


@pytest.mark.parametrize("width", [None, 100])
def test_live_view_shows_a_quorum_without_leader(
    node: QuorumNode, run: Run, monkeypatch: pytest.MonkeyPatch, width: int | None
) -> None:
    turns = count()
    follow = quorum_run.follow

    def pause(_: float) -> None:
        turn = next(turns)
        if turn == (1 if width else 2):  # standard output is no terminal: only the last frame is written
            raise KeyboardInterrupt
        node.has_leader = turn != 0
        monkeypatch.setattr(quorum_run, "MAX_LIVE_WAIT_S", 5 if node.has_leader else 0.01)

    monkeypatch.setattr(quorum_run, "follow", lambda args, caller: follow(args, caller, pause=pause))
    code, out, _ = run("quorum", "--live", *(() if width else ("--json",)), terminal=width)
    assert code == INTERRUPTED
    if width is None:
        leaders = [found["leader"] for found in map(json.loads, out.splitlines()) if found["type"] == "quorum"]
        assert leaders == [1, -1, 1]
    else:
        assert "leader  none" in out
        assert out.rstrip().endswith("Ctrl-C ends it.")


# Adding


def test_adding_a_controller(node: QuorumNode, run: Run, tmp_path: Path) -> None:
    file = controller_file(tmp_path)
    code, _, err = run("controllers", "add", "--config", file)
    assert (code, err.splitlines()[0]) == (1, "error: controller 4 does not fetch from the leader, node 1")
    node.observers[4] = Replica()
    (plan,) = items(run, "controllers", "add", "--config", file, "--dry-run")
    assert (plan["voters_after"], plan["majority_after"], plan["may_fail_after"]) == ([1, 2, 3, 4], 3, 1)
    assert 4 not in node.voters
    node.lost_responses = 1
    (done,) = items(run, "controllers", "add", "--config", file)
    assert (done["action"], done["voters"]) == ("added", [1, 2, 3, 4])
    (again,) = items(run, "controllers", "add", "--config", file)
    assert again["action"] == "found"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"cluster_id": "other"}, "belongs to cluster other, not test"),
        ({"node_id": 3, "directory_name": "new"}, "node 3 is a voter with another directory, "),
    ],
)
def test_controllers_that_cannot_be_added(run: Run, tmp_path: Path, change: dict[str, Any], error: str) -> None:
    code, _, err = run("controllers", "add", "--config", controller_file(tmp_path, **change))
    assert code == 1
    assert error in err.splitlines()[0]
    assert err.splitlines()[1].startswith("hint: ")


def test_controller_without_a_formatted_directory(run: Run, tmp_path: Path) -> None:
    file = controller_file(tmp_path)
    (tmp_path / "data-4" / META_PROPERTIES_FILE).unlink()
    code, _, err = run("controllers", "add", "--config", file)
    assert (code, err.splitlines()[0]) == (1, f"error: {tmp_path}/data-4 is not formatted")
    assert "--no-initial-controllers" in err


# Removing


def test_removing_a_controller(node: QuorumNode, run: Run) -> None:
    code, out, err = run("controllers", "remove", 3, "--dry-run", terminal=100)
    assert (code, 3 in node.voters) == (1, True)
    assert "2 of 3 → 2 of 2" in out
    assert err.splitlines()[0].startswith("error: after this change no voter may fail")
    node.lost_responses = 1
    (done,) = items(run, "controllers", "remove", 3, "--force")
    assert (done["action"], done["voters"]) == ("removed", [1, 2])
    code, _, err = run("controllers", "remove", 3)
    assert (code, err) == (1, "error: node 3 is not a voter\nhint: the voters are 1, 2\n")


def test_lost_voter_is_removed_without_force(node: QuorumNode, run: Run) -> None:
    node.voters[3] = Replica(DEAD, DEAD)
    code, _, err = run("controllers", "remove", 2, "--force")
    assert code == 1
    assert "only 1 of the 2 new voters have caught up" in err
    code, _, err = run("controllers", "remove", 3, "--directory-id", directory("other"))
    assert (code, 3 in node.voters) == (1, True)
    assert items(run, "controllers", "remove", 3, "--directory-id", directory("d"))[0]["voters"] == [1, 2]


def test_the_last_voter_stays(node: QuorumNode, run: Run) -> None:
    node.voters = {1: Replica()}
    code, _, err = run("controllers", "remove", 1, "--force")
    assert (code, err.splitlines()[0]) == (1, "error: node 1 is the only voter")


def test_static_voters_are_not_changed(node: QuorumNode, run: Run, tmp_path: Path) -> None:
    node.levels["kraft.version"] = 0
    assert items(run, "quorum")[0]["kraft_version"] == 0
    for change in (("remove", 3), ("add", "--config", controller_file(tmp_path))):
        code, _, err = run("controllers", *change)
        assert code == 1
        assert err.splitlines()[1].endswith("tailrace cluster features upgrade --feature kraft.version=1")


# Features and brokers


def test_changing_features(node: QuorumNode, run: Run) -> None:
    (checked,) = items(run, "features", "upgrade", "--feature", "metadata.version=4.3", "--dry-run")
    assert (checked["action"], checked["from"], checked["to"]) == ("checked", 29, 30)
    assert node.levels["metadata.version"] == 29
    found = items(run, "features", "upgrade", "--release-version", "4.3")
    assert [(each["feature"], each["to"]) for each in found] == [("metadata.version", 30), ("group.version", 1)]
    (found,) = items(run, "features", "upgrade", "--release-version", "4.3")
    assert found == {"type": "done", "action": "found", "release": "4.3"}
    assert items(run, "features", "disable", "--feature", "group.version")[0]["action"] == "disabled"
    assert node.levels["group.version"] == 0
    assert items(run, "features", "downgrade", "--feature", "kraft.version=1")[0]["action"] == "found"
    code, _, err = run("features", "upgrade", "--feature", "metadata.version=99")
    assert (code, err.splitlines()[0]) == (1, "error: Invalid update version")


def test_options_before_the_change_of_features(node: QuorumNode, run: Run) -> None:
    code, out, _ = run("features", "--bootstrap", "127.0.0.1:1", "downgrade", "--feature", "metadata.version=7")
    assert (code, out, node.levels["metadata.version"]) == (1, "", 29)


def test_unregistering_a_broker(node: QuorumNode, run: Run) -> None:
    node.running = {1, 2}
    node.add_topic("orders")
    code, _, err = run("unregister", 2, "--yes")
    assert (code, err.splitlines()[0]) == (1, "error: broker 2 is running and would register again")
    node.running = set()
    code, _, err = run("unregister", 1)
    assert code == 1
    assert "It has the only replica of 1 partition." in err
    assert items(run, "unregister", 1, "--yes")[0]["action"] == "unregistered"
    code, _, err = run("unregister", 9, "--yes")
    assert err == (
        "error: Broker ID 9 is not currently registered\nhint: `tailrace cluster describe` lists the brokers\n"
    )
