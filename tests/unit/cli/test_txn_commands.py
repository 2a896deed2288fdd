"""`tailrace txn` against a scripted broker: what it prints, to whom, and its exit codes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.brokers.transacting import FakeTransaction, TransactingBroker
from tailrace.cli import txn_hanging
from tailrace.cli.main import main
from tailrace.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

Captured = pytest.CaptureFixture[str]
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def broker() -> Iterator[TransactingBroker]:
    with TransactingBroker() as broker:
        broker.add_topic("orders", 3)
        broker.transactions = {
            "copier-1": FakeTransaction(11, 3, "Ongoing", {("orders", 0), ("orders", 1)}),
            "copier-2": FakeTransaction(12, 0, "CompleteCommit"),
        }
        broker.producers = {
            ("orders", 0): [producer(11, 3, 40), producer(10, 0, -1)],
            ("orders", 2): [producer(99, 1, 1500)],
        }
        yield broker


def producer(producer_id: int, epoch: int, open_since: int) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=epoch,
        last_sequence=1234,
        last_timestamp=1_700_000_000_000,
        coordinator_epoch=2,
        current_txn_start_offset=open_since,
    )


@pytest.fixture
def run(broker: TransactingBroker, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Exit code, output and errors of a command; `terminal` is how wide it is, None for a pipe."""

    def run(*arguments: object, terminal: int | None = None) -> tuple[int, str, str]:
        monkeypatch.setenv("TAILRACE_BOOTSTRAP", broker.address)
        if terminal is not None:
            monkeypatch.setenv("COLUMNS", str(terminal))
            monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        code = main([str(each) for each in ("txn", *arguments)])
        captured = capsys.readouterr()
        return code, COLOURS.sub("", captured.out), captured.err

    return run


def items(run: Run, *arguments: object) -> list[dict[str, Any]]:
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_transactions_for_programs(broker: TransactingBroker, run: Run) -> None:
    assert [(item["id"], item["state"], item["producer_id"]) for item in items(run, "list")] == [
        ("copier-1", "Ongoing", 11),
        ("copier-2", "CompleteCommit", 12),
    ]
    assert [item["id"] for item in items(run, "list", "--state", "ongoing")] == ["copier-1"]
    items(run, "list", "--longer-than", "10m", "--match", "c.*")
    last = broker.requests(ListTransactionsRequest)[-1]
    assert (last.duration_filter, last.transactional_id_pattern) == (600_000, "c.*")
    (described,) = items(run, "describe", "copier-1")
    assert (described["epoch"], described["timeout_ms"], described["open_ms"] > 0) == (3, 60_000, True)
    assert described["partitions"] == ["orders-0", "orders-1"]
    assert [item["producer_id"] for item in items(run, "producers", "orders")] == [10, 11, 99]
    assert [item["start_offset"] for item in items(run, "producers", "orders:0,1", "--open")] == [40]


@pytest.mark.parametrize("width", [80, 120])
def test_transactions_for_people(run: Run, width: int) -> None:
    commands = ("list", "describe copier-1 copier-2", "producers orders", "find-hanging")
    pictures = {command: run(*command.split(), terminal=width)[1] for command in commands}
    for picture in pictures.values():
        assert max(map(len, picture.splitlines())) <= width
    assert "2 transactional ids, 1 transaction under way" in pictures["list"]
    described = pictures["describe copier-1 copier-2"]
    assert re.search(r"open +for [0-9,]+ d.*, since 2023-11-14T22:13:20.000Z", described)
    assert "partitions   orders 0–1" in described
    assert "partitions   none" in described
    assert "3 producers, 2 open transactions" in pictures["producers orders"]
    assert "tailrace txn abort --topic orders --partition 2 --start-offset 1500" in pictures["find-hanging"]


def test_those_that_hang(broker: TransactingBroker, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (hanging,) = items(run, "find-hanging")
    assert (hanging["type"], hanging["partition"], hanging["producer_id"]) == ("hanging", 2, 99)
    assert items(run, "find-hanging", "--topic", "orders:0,1") == []
    assert items(run, "find-hanging", "--older-than", "5000w") == []
    asked = len(broker.requests(DescribeProducersRequest))
    monkeypatch.setattr(txn_hanging, "PARTITIONS_AT_ONCE", 1)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert len(run("find-hanging", "--json")[1].splitlines()) == 1
    assert len(broker.requests(DescribeProducersRequest)) == asked + 3
    assert run("find-hanging", "--topic", "orders:0", terminal=80)[1] == "✓ no transaction hangs\n"


def test_aborting_by_id(broker: TransactingBroker, run: Run) -> None:
    code, _, err = run("abort", "copier-1")
    assert (code, err.splitlines()[0]) == (
        1,
        "error: no terminal to confirm on: Abort the open transaction of copier-1, so that its producer fails?",
    )
    (done,) = items(run, "abort", "copier-1", "--yes")
    assert (done["action"], done["epoch"], broker.transactions["copier-1"].state) == ("aborted", 4, "Empty")
    words = run("abort", "copier-2", "--yes", terminal=80)[1]
    assert words == "✓ copier-2: no transaction was open, its producer is fenced at epoch 1\n"


def test_aborting_one_that_hangs(broker: TransactingBroker, run: Run) -> None:
    place = ("--topic", "orders", "--partition", 2, "--start-offset", 1500)
    (done,) = items(run, "abort", *place, "--yes")
    assert (done["action"], done["producer_id"]) == ("aborted", 99)
    ((marker,),) = (request.markers for request in broker.requests(WriteTxnMarkersRequest))
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (99, 1, 2)
    code, _, err = run("abort", *place, "--yes")
    assert (code, err.splitlines()[0]) == (
        1,
        "error: orders-2 has no open transaction that begins at offset 1500",
    )
    code, _, err = run("abort", "--topic", "orders", "--partition", 0, "--start-offset", 40, "--yes")
    assert (code, err) == (
        1,
        "error: this transaction does not hang: it is that of copier-1, which is Ongoing\n"
        "hint: let its coordinator abort it: tailrace txn abort copier-1\n",
    )
    assert len(broker.requests(WriteTxnMarkersRequest)) == 1


def test_what_cannot_be_done(run: Run) -> None:
    for arguments, words in (
        (("describe", "copier"), "error: there is no transactional id copier\nhint: did you mean copier-"),
        (("abort", "copier", "--yes"), "error: there is no transactional id copier\nhint: did you mean copier-"),
        (("abort",), "error: which transaction?\n"),
        (("abort", "--topic", "orders"), "error: which transaction?\n"),
        (("abort", "copier-1", "--topic", "orders"), "error: both an id and a place are named\n"),
        (("list", "--state", "odd"), "error: no transaction is in a state odd\nhint: the states are Empty, "),
        (("producers", "ordres"), "error: there is no topic ordres\n"),
        (("producers", "orders:7"), "error: orders has no partition 7\nhint: it has 0 to 2\n"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (1, "")
        assert err.startswith(words), err


def test_nothing_to_show(broker: TransactingBroker, run: Run) -> None:
    broker.transactions.clear()
    broker.producers.clear()
    assert run("list") == (0, "", "")
    assert run("list", terminal=80)[1] == "there are no such transactional ids\n"
    assert run("producers", "orders", terminal=80)[1] == "no such producer is remembered\n"
