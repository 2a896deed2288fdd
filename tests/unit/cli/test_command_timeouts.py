"""Every command with --timeout ends when it is over, whatever a broker does. Pauses move the clock and take no time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from support.brokers.quorate import controller_file
from support.brokers.scripted import HANG_UP, NO_ANSWER, ScriptedBroker
from tailrace.cli import remote
from tailrace.cli.command_tree import tree_of
from tailrace.cli.main import COMMANDS, build_parser, main
from tailrace.client.cluster import Cluster
from tailrace.protocol.message import Request
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_offsets import ListOffsetsRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.record.builder import batch_of

SUCCEED_WITH_METADATA = {"topic list", "cluster features"}
COMMANDS_WITH_A_TIMEOUT = """
    topic list
    topic list --sizes
    topic describe orders
    topic create other
    topic alter orders --partitions 4
    topic alter orders --set retention.ms=5
    topic alter orders --delete-records-before end --yes
    topic delete orders --yes
    produce orders --file LINES
    produce orders --file LINES --acks 1
    consume orders
    consume orders --follow
    consume orders --from latest --follow
    consume orders --group g
    consume orders --group g --follow
    group list
    group list --lag
    group describe g
    group lag g
    group lag g --live
    group reset-offsets g --to earliest
    group reset-offsets g --to earliest --topic orders --execute
    group delete g --yes
    group delete g --topic orders --yes
    config describe --topic orders
    config describe --broker 1
    config describe --cluster
    config set --topic orders retention.ms=5
    config unset --topic orders retention.ms
    cluster describe
    cluster quorum
    cluster dirs
    cluster features
    cluster features upgrade --feature metadata.version=30
    cluster features downgrade --feature transaction.version=1
    cluster features disable --feature group.version
    cluster controllers add --config CONTROLLER
    cluster controllers remove 3
    cluster unregister 3 --yes
    txn list
    txn describe x
    txn producers orders
    txn find-hanging
    txn abort x
    txn abort --topic orders --partition 0 --start-offset 0
"""
LINES = [line.strip() for line in COMMANDS_WITH_A_TIMEOUT.strip().splitlines()]


class Clock:
    """Real time, and what pauses skipped."""

    def __init__(self) -> None:
        self._skipped_s = 0.0

    def now_s(self) -> float:
        return time.monotonic() + self._skipped_s

    def pause(self, seconds: float) -> None:
        self._skipped_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(remote, "Cluster", partial(Cluster, pause=clock.pause, clock=clock.now_s))
    return clock


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        (log,) = broker.add_topic("orders")
        log.append(batch_of([(0, None, b"unread")]))
        yield broker


def answers_only(broker: ScriptedBroker, kinds: tuple[type[Request], ...], other: object) -> None:
    """The broker answers requests of these kinds, and responds with `other` to the rest."""
    usual = broker._usual

    def answer(request: Request) -> object:
        if not isinstance(request, kinds):
            return other
        if isinstance(request, FindCoordinatorRequest):
            here = partial(Coordinator, node_id=1, host="127.0.0.1", port=broker.port)
            return FindCoordinatorResponse(coordinators=[here(key=key) for key in request.coordinator_keys])
        return usual(request)

    broker._usual = answer  # type: ignore[method-assign]


@pytest.fixture
def seconds_of(broker: ScriptedBroker, clock: Clock, tmp_path: Path) -> Callable[[str, float], float]:
    """How long a command took, which must fail."""
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    files = {"LINES": lines, "CONTROLLER": controller_file(tmp_path)}

    def seconds_of(command: str, timeout_s: float) -> float:
        arguments = [str(files.get(word, word)) for word in command.split()]
        began_s = clock.now_s()
        assert main([*arguments, "--bootstrap", broker.address, "--timeout", str(timeout_s)]) == 1
        return clock.now_s() - began_s

    return seconds_of


def test_every_command_with_a_timeout_is_tried() -> None:
    tree = tree_of(build_parser(COMMANDS))
    timed = {node.path[1:] for node in tree.walk() if any("--timeout" in option.flags for option in node.options)}
    assert {path for path in timed for line in LINES if tuple(line.split())[: len(path)] == path} == timed


@pytest.mark.parametrize("command", [line for line in LINES if line not in SUCCEED_WITH_METADATA])
def test_a_command_gives_up_on_a_broker_that_hangs_up(
    broker: ScriptedBroker, seconds_of: Callable[[str, float], float], command: str
) -> None:
    answers_only(broker, (ApiVersionsRequest, MetadataRequest, FindCoordinatorRequest), HANG_UP)
    assert 20 <= seconds_of(command, 20) <= 26


@pytest.mark.parametrize("command", [line for line in LINES if "group " in line or "txn describe" in line])
def test_a_command_gives_up_when_no_coordinator_is_found(
    broker: ScriptedBroker, seconds_of: Callable[[str, float], float], command: str
) -> None:
    answers_only(broker, (ApiVersionsRequest, MetadataRequest), HANG_UP)
    assert 20 <= seconds_of(command, 20) <= 26


def test_a_group_reader_reports_the_broker_and_not_other_members(
    broker: ScriptedBroker, seconds_of: Callable[[str, float], float], capsys: pytest.CaptureFixture[str]
) -> None:
    answers_only(broker, (ApiVersionsRequest, MetadataRequest), HANG_UP)
    seconds_of("consume orders --group g", 5)
    assert capsys.readouterr().err.startswith("error: lost the connection")


@pytest.mark.parametrize("command", [line for line in LINES if line.partition(" ")[0] in ("produce", "consume")])
def test_a_command_gives_up_on_a_silent_broker(
    broker: ScriptedBroker, seconds_of: Callable[[str, float], float], command: str
) -> None:
    answers_only(broker, (ApiVersionsRequest, MetadataRequest, InitProducerIdRequest, ListOffsetsRequest), NO_ANSWER)
    assert seconds_of(command, 0.5) <= 5


def test_produce_gives_up_on_a_full_disk_and_reports_it(
    broker: ScriptedBroker, seconds_of: Callable[[str, float], float], capsys: pytest.CaptureFixture[str]
) -> None:
    broker.answers[ProduceRequest] = lambda request: broker.produce(request, 56, "append: No space left on device")
    assert 5 <= seconds_of("produce orders --file LINES", 5) <= 6
    error, hint = capsys.readouterr().err.splitlines()
    assert error.endswith("to orders-0: append: No space left on device")
    assert "its disk may be full" in hint
