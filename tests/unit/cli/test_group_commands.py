"""`tailrace group` and `consume --group` against a scripted broker: what they print, to whom, and their exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from support.brokers.coordinating import CoordinatingBroker, FakeGroup, FakeMember
from support.brokers.scripted import Log
from tailrace.cli import consume_group, group_lag
from tailrace.cli.group_text import by_topic
from tailrace.cli.lag_meter import LagMeter, Pace
from tailrace.cli.lag_view import frame
from tailrace.cli.main import main
from tailrace.client.group_admin import PartitionLag
from tailrace.client.group_descriptions import GroupDescription
from tailrace.model.ids import TopicPartition
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tailrace.record.builder import batch_of

Captured = pytest.CaptureFixture[str]
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def broker() -> Iterator[CoordinatingBroker]:
    with CoordinatingBroker() as broker:
        for log in broker.add_topic("orders", 2):
            fill(log, 10)
        member = FakeMember(4, ["orders"], {("orders", 0), ("orders", 1)})
        broker.groups["billing"] = FakeGroup("Consumer", 4, {"m": member}, {("orders", 0): 7, ("orders", 1): 10})
        broker.groups["idle"] = FakeGroup("Classic", offsets={("orders", 0): 2})
        yield broker


@pytest.fixture
def run(broker: CoordinatingBroker, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Exit code, output and errors of a command; `terminal` is how wide it is, None for a pipe."""

    def run(*arguments: object, terminal: int | None = None) -> tuple[int, str, str]:
        monkeypatch.setenv("TAILRACE_BOOTSTRAP", broker.address)
        if terminal is not None:
            monkeypatch.setenv("COLUMNS", str(terminal))
            monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        code = main([str(each) for each in arguments])
        captured = capsys.readouterr()
        return code, COLOURS.sub("", captured.out), captured.err

    return run


def items(run: Run, *arguments: object) -> list[dict[str, Any]]:
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def fill(log: Log, count: int) -> None:
    log.append(batch_of([(1, b"k", b"value %d" % at) for at in range(count)]))


# Looking


def test_groups_for_programs(broker: CoordinatingBroker, run: Run) -> None:
    listed = items(run, "group", "list")
    assert [(item["group"], item["kind"], item["state"], item["lag"]) for item in listed] == [
        ("billing", "consumer", "Stable", None),
        ("idle", "classic", "Empty", None),
    ]
    furthest, _ = items(run, "group", "list", "--lag")
    assert (furthest["group"], furthest["members"], furthest["lag"]) == ("idle", 0, 8)
    assert [item["group"] for item in items(run, "group", "list", "--kind", "consumer")] == ["billing"]
    assert [item["group"] for item in items(run, "group", "list", "--state", "EMPTY")] == ["idle"]
    group, member, zero, one = items(run, "group", "describe", "billing")
    assert (group["assignor"], group["epoch"], group["lag"]) == ("uniform", 4, 3)
    assert (member["client"], member["partitions"], member["wanted"]) == ("client-of-m", ["orders-0", "orders-1"], None)
    assert (zero["offset"], zero["end"], zero["lag"], zero["member"], one["lag"]) == (7, 10, 3, "m", 0)
    assert [item["lag"] for item in items(run, "group", "lag", "billing")] == [3, 0]


@pytest.mark.parametrize("width", [80, 120])
def test_groups_for_people(broker: CoordinatingBroker, run: Run, width: int) -> None:
    broker.groups["share"] = FakeGroup("Share", 2, {"s": FakeMember(2, ["orders"])}, {("orders", 0): 1})
    broker.groups["streams"] = FakeGroup("Streams", 5, {"t": FakeMember(5, [])})
    broker.groups["billing"].members["n"] = FakeMember(4, ["orders"])
    pictures = {
        command: run("group", *command.split(), terminal=width)[1]
        for command in ("list", "list --lag", "describe billing idle", "describe share streams", "lag billing")
    }
    for picture in pictures.values():
        assert max(map(len, picture.splitlines())) <= width
    assert "4 groups, 14 records behind" in pictures["list --lag"]
    described = pictures["describe billing idle"]
    assert "billing  consumer group" in described
    assert "members      2, who share partitions by uniform" in described
    assert re.search(r"client-of-m +10.0.0.7 +4 +orders 0–1 +orders 0", described)
    assert re.search(r"client-of-n +10.0.0.7 +4 +nothing +orders 1", described)
    assert re.search(r"orders +0 +7 +10 +3 +█{16} +client-of-m", described)
    assert "0_0, 0_1, [1_2]" in pictures["describe share streams"]
    assert "epoch        5, assigned as of 4" in pictures["describe share streams"]


def test_partitions_in_short() -> None:
    assert by_topic(["a-b-0", "a-b-1", "a-b-2", "a-b-5", "c-10"]) == "a-b 0–2, 5\nc 10"
    assert by_topic([]) == ""


def test_no_groups_yet(broker: CoordinatingBroker, run: Run) -> None:
    broker.groups.clear()
    assert run("group", "list") == (0, "", "")
    assert "tailrace consume TOPIC --group NAME" in run("group", "list", terminal=80)[1]
    assert run("group", "list", "--kind", "share", terminal=80)[1] == "no group is like that\n"


@pytest.mark.parametrize(
    "command",
    [("describe", "biling"), ("lag", "biling"), ("delete", "biling", "--yes"), ("reset-offsets", "biling", "--to", 1)],
)
def test_a_name_that_is_not_there(run: Run, command: tuple[object, ...]) -> None:
    code, out, err = run("group", *command)
    assert (code, out) == (1, "")
    assert err == (
        "error: there is no group biling\nhint: did you mean billing? else see which there are: tailrace group list\n"
    )


# Lag, live


def lag(number: int, offset: int | None, end: int | None) -> PartitionLag:
    behind = None if offset is None or end is None else max(end - offset, 0)
    return PartitionLag(TopicPartition("orders", number), offset, end, behind, None)


def test_rates_are_those_of_the_last_seconds() -> None:
    meter = LagMeter()
    first = meter.measured(100.0, [lag(0, 0, 1000), lag(1, None, 50)])
    assert (first.lag, first.read_per_s, first.written_per_s, first.caught_up_in_s) == (1000, 0, 0, None)
    for second in range(1, 31):
        pace = meter.measured(100.0 + second, [lag(0, 30 * second, 1000 + 10 * second), lag(1, None, 50)])
    assert (pace.seconds, pace.lag, len(pace.history)) == (30, 400, 31)
    assert (pace.read_per_s, pace.written_per_s, pace.caught_up_in_s) == (30, 10, 20)
    for second in range(31, 60):
        pace = meter.measured(100.0 + second, [lag(0, 900, 1000 + 10 * second)])
    assert (pace.read_per_s, pace.written_per_s, pace.caught_up_in_s) == (0, 10, None)
    assert meter.measured(161.0, [lag(0, 1590, 1590)]).caught_up_in_s == 0
    assert meter.measured(162.0, [lag(0, 5, 1590)]).read_per_s == 0  # set back
    assert LagMeter().measured(0, []).lag is None


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_a_frame_fits_any_terminal(width: int) -> None:
    described = GroupDescription("billing", "consumer", "Stable", "uniform", 1, 4, 4, ())
    meter = LagMeter()
    for second in range(100):
        lags = [lag(at, 1_234_567_890 + second * at, 2_234_567_890 + second * 3) for at in range(40)]
        pace = meter.measured(float(second), lags)
    picture = drawn(described, pace, width)
    lines = picture.splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 24
    assert f"{pace.lag:,}" in picture
    assert "28 partitions with no more lag than these"[: width - 10] in picture
    assert "…" not in "".join(line for line in lines if line.startswith("  orders"))  # a number is whole, or not there
    assert ("written/s" in picture) is (width > 80)


@pytest.mark.parametrize(
    ("pace", "words"),
    [
        (Pace(1.0, 50, 0, 0, (), ()), "measuring"),
        (Pace(9.0, 50, 0, 0, (), ()), "it does not read"),
        (Pace(9.0, 50, 5, 9, (), ()), "it falls behind"),
        (Pace(9.0, 120, 5, 4, (), ()), "2 min at this pace"),
        (Pace(9.0, 0, 5, 5, (), ()), "nothing is left"),
        (Pace(9.0, None, 0, 0, (), ()), "–"),
    ],
)
def test_what_is_to_be_expected(pace: Pace, words: str) -> None:
    described = GroupDescription("billing", "consumer", "Stable", "uniform", 1, 4, 4, ())
    (line,) = (each for each in drawn(described, pace, 80).splitlines() if "done in" in each)
    assert words in line


def drawn(described: GroupDescription, pace: Pace, width: int) -> str:
    out = StringIO()
    Console(file=out, width=width, height=24).print(frame(described, pace, width, 24))
    return out.getvalue()


def test_live_lag_goes_on_until_it_is_interrupted(
    broker: CoordinatingBroker, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        broker.groups["billing"].offsets["orders", 0] = 9
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(group_lag.time, "sleep", pause)
    monkeypatch.setattr(group_lag.follow, "__defaults__", (group_lag.time.monotonic, pause))
    code, out, _ = run("group", "lag", "billing", "--live", "--every", 2, "--json")
    assert code == 130
    assert [json.loads(line)["lag"] for line in out.splitlines()] == [3, 1, 1]
    assert all(1 < each <= 2 for each in pauses)
    pauses.clear()
    code, out, _ = run("group", "lag", "billing", "--live", terminal=100)
    assert code == 130
    assert "billing  consumer group  Stable  1 member" in out
    assert re.search(r"orders-0 +9 +10 +1 ", out)


# Changing


def test_resetting_shows_what_would_be(broker: CoordinatingBroker, run: Run) -> None:
    (change,) = items(run, "group", "reset-offsets", "idle", "--to", "earliest")
    assert (change["topic"], change["partition"], change["before"], change["offset"]) == ("orders", 0, 2, 0)
    assert (change["executed"], broker.groups["idle"].offsets) == (False, {("orders", 0): 2})
    _, out, _ = run("group", "reset-offsets", "idle", "--shift-by", "-5", terminal=100)
    assert re.search(r"orders +0 +2 +0 +-2 +-3 is before its beginning", out)
    assert "nothing is changed yet; 1 offset of 1 partition would be: say --execute to do it" in out
    assert "nothing would change" in run("group", "reset-offsets", "idle", "--to", "2", terminal=100)[1]
    assert (
        "there is no group new yet: it would be made"
        in run("group", "reset-offsets", "new", "--to", "latest", "--topic", "orders:1", terminal=100)[1]
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--to", "latest"), {("orders", 0): 10}),
        (("--to", "5", "--topic", "orders"), {("orders", 0): 5, ("orders", 1): 5}),
        (("--to", "5", "--topic", "orders:1"), {("orders", 0): 2, ("orders", 1): 5}),
        (("--to", "2020-01-01"), {("orders", 0): 10}),
        (("--by-duration", "PT1H"), {("orders", 0): 10}),
        (("--shift-by", "+3"), {("orders", 0): 5}),
        (("--shift-by", "-1"), {("orders", 0): 1}),
    ],
)
def test_resetting(
    broker: CoordinatingBroker, run: Run, arguments: tuple[str, ...], expected: dict[tuple[str, int], int]
) -> None:
    assert all(item["executed"] for item in items(run, "group", "reset-offsets", "idle", *arguments, "--execute"))
    assert broker.groups["idle"].offsets == expected


def test_resetting_from_a_file(broker: CoordinatingBroker, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    file.write_text('orders,0,4\n"orders", 1, 6\n\n')
    items(run, "group", "reset-offsets", "idle", "--from-file", file, "--execute")
    assert broker.groups["idle"].offsets == {("orders", 0): 4, ("orders", 1): 6}
    saved = run("group", "describe", "idle", "--json")[1]
    items(run, "group", "reset-offsets", "idle", "--to", "latest", "--execute")
    file.write_text(saved)
    items(run, "group", "reset-offsets", "idle", "--from-file", file, "--topic", "orders", "--execute")
    assert broker.groups["idle"].offsets == {("orders", 0): 4, ("orders", 1): 6}
    for text, words in (
        ("orders,0", "line 1 of"),
        ("orders,0,-3", "line 1 of"),
        ("orders,0,1\n{]", "line 2 of"),
        ('{"offset": "x"}', "line 1 of"),
        ("", "has no offsets"),
        ("orders,9,1", "orders has no partition 9"),
        ("nothing,0,1", "there is no topic nothing"),
    ):
        file.write_text(text)
        code, _, err = run("group", "reset-offsets", "idle", "--from-file", file)
        assert (code, words in err) == (1, True), err
    file.write_bytes(b"\xff\xfe")
    assert "is no text" in run("group", "reset-offsets", "idle", "--from-file", file)[2]
    assert "No such file" in run("group", "reset-offsets", "idle", "--from-file", tmp_path / "nowhere")[2]


def test_a_group_that_is_read_cannot_be_reset(broker: CoordinatingBroker, run: Run) -> None:
    code, _, err = run("group", "reset-offsets", "billing", "--to", "earliest", "--execute")
    assert (code, err) == (
        1,
        "error: group billing is Stable: client-of-m at 10.0.0.7 would read on as before\nhint: stop them first\n",
    )
    broker.groups["idle"].offsets.clear()
    code, _, err = run("group", "reset-offsets", "idle", "--to", "earliest")
    assert (code, err.splitlines()[0]) == (1, "error: group idle has committed no offsets")


@pytest.mark.parametrize(
    "arguments", [(), ("--to", "x"), ("--shift-by", "1.5"), ("--to", "1", "--shift-by", "1"), ("--by-duration", "5")]
)
def test_resets_that_are_wrong_usage(run: Run, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        run("group", "reset-offsets", "idle", *arguments)
    assert exit_info.value.code == 2


def test_deleting(broker: CoordinatingBroker, run: Run) -> None:
    code, _, err = run("group", "delete", "idle")
    assert (code, err.splitlines()[0]) == (
        1,
        "error: no terminal to confirm on: Delete idle with all committed offsets?",
    )
    (done,) = items(run, "group", "delete", "idle", "--topic", "orders", "--yes")
    assert (done["action"], done["partitions"], broker.groups["idle"].offsets) == ("offsets deleted", 1, {})
    assert run("group", "delete", "idle", "--yes", terminal=80)[1] == "✓ idle deleted\n"
    assert list(broker.groups) == ["billing"]
    assert run("group", "delete", "idle", "--yes", "--if-exists") == (0, "", "")
    for more in ((), ("--topic", "orders")):
        code, _, err = run("group", "delete", "billing", "--yes", *more)
        assert (code, err.splitlines()[0]) == (1, "error: group billing has 1 member: client-of-m at 10.0.0.7")


# Consuming as a member


def test_a_group_reads_what_it_has_not_read(broker: CoordinatingBroker, run: Run) -> None:
    _, out, _ = run("consume", "orders", "--group", "cli", "--max", 3)
    assert len(out.splitlines()) == 3
    assert sum(broker.groups["cli"].offsets.values()) == 3
    assert broker.groups["cli"].members == {}
    assert len(run("consume", "orders", "--group", "cli")[1].splitlines()) == 17
    assert run("consume", "orders", "--group", "cli")[1] == ""
    fill(broker.topics["orders"][0], 2)
    found = items(run, "consume", "orders", "--group", "cli")
    assert [(item["partition"], item["offset"]) for item in found] == [(0, 10), (0, 11)]
    assert broker.groups["cli"].offsets == {("orders", 0): 12, ("orders", 1): 10}


def test_a_group_begins_where_it_is_told_when_it_is_new(broker: CoordinatingBroker, run: Run) -> None:
    assert run("consume", "orders", "--group", "new", "--from", "latest")[1] == ""
    assert (
        len(run("consume", "orders", "--group", "new", "--follow", "--from", "earliest", "--max", 20)[1].split("\n"))
        == 21
    )


def test_a_follower_that_is_interrupted_has_committed(
    broker: CoordinatingBroker, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tailrace.client.group_consumer import GroupConsumer

    poll, polls = GroupConsumer.poll, [0]

    def interrupted(consumer: GroupConsumer, timeout_s: float) -> object:
        polls[0] += 1
        found = poll(consumer, timeout_s)
        if broker.groups["cli"].members and sum(consumer.positions.values()) == 20 and not found:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(GroupConsumer, "poll", interrupted)
    code, out, _ = run("consume", "orders", "--group", "cli", "--follow", "--from", "earliest")
    assert (code, len(out.splitlines())) == (130, 20)
    assert broker.groups["cli"].offsets == {("orders", 0): 10, ("orders", 1): 10}
    assert broker.groups["cli"].members == {}


def test_a_member_that_is_told_to_end_leaves(broker: CoordinatingBroker) -> None:
    wanted = ["consume", "orders", "--group", "cli", "--follow", "--from", "earliest", "--bootstrap", broker.address]
    process = subprocess.Popen([sys.executable, "-m", "tailrace", *wanted], stdout=subprocess.PIPE, text=True)
    while "cli" not in broker.groups or broker.groups["cli"].offsets != {("orders", 0): 10, ("orders", 1): 10}:
        assert process.poll() is None
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, len(out.splitlines())) == (143, 20)
    assert broker.groups["cli"].members == {}


def test_one_who_waits_says_so(broker: CoordinatingBroker, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_group, "SILENT_WAIT_S", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    broker.groups["full"] = FakeGroup("Consumer", 1, {"": FakeMember(1, ["orders"], {("orders", 0), ("orders", 1)})})
    _, _, err = run("consume", "orders", "--group", "full", "--timeout", 0.3)
    assert err.count("waiting for partitions; who has them: tailrace group describe full") == 1


def test_what_a_group_cannot_do(broker: CoordinatingBroker, run: Run) -> None:
    code, _, err = run("consume", "orders", "--group", "g", "--from", 5)
    assert (code, "tailrace group reset-offsets g --topic orders --to 5 --execute" in err) == (1, True)
    code, _, err = run("consume", "orders", "--group", "g", "--partition", 0)
    assert (code, err.splitlines()[0]) == (1, "error: a group divides the partitions itself")
    broker.groups["full"] = FakeGroup("Consumer", 1, {"": FakeMember(1, ["orders"], {("orders", 0), ("orders", 1)})})
    code, _, err = run("consume", "orders", "--group", "full", "--timeout", 0.3)
    assert (code, err.splitlines()[0]) == (1, "error: group full gave no partition of orders for 0.3 s")
    assert ListGroupsRequest not in {type(each) for each in broker.seen}
