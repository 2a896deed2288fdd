"""The commands that talk to a cluster, against a scripted broker: what they print, to whom, and their exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.brokers.administered import AdministeredBroker
from support.brokers.scripted import Log
from tailrace.cli.consume import start
from tailrace.cli.main import main
from tailrace.cli.remote import near
from tailrace.cli.throughput import Throughput
from tailrace.record.builder import batch_of
from tailrace.record.reader import application_records

Captured = pytest.CaptureFixture[str]
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def broker() -> Iterator[AdministeredBroker]:
    with AdministeredBroker() as broker:
        yield broker


@pytest.fixture
def run(broker: AdministeredBroker, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Run:
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
    log.append(batch_of([(1_700_000_000_000 + at, b"k%d" % at, b"value %d" % at) for at in range(count)]))


def values_in(log: Log) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for data in log.batches for record in application_records(data)]


# Topics


def test_topics_for_programs(broker: AdministeredBroker, run: Run) -> None:
    fill(broker.add_topic("orders", 2)[1], 7)
    broker.add_topic("a")
    listed = items(run, "topic", "list")
    assert [(item["topic"], item["partitions"], item["records"]) for item in listed] == [
        ("a", 1, None),
        ("orders", 2, None),
    ]
    largest, _ = items(run, "topic", "list", "--sizes")
    assert (largest["topic"], largest["records"]) == ("orders", 7)
    topic, zero, one = items(run, "topic", "describe", "orders")
    assert (topic["type"], topic["configs"], zero["partition"]) == ("topic", {}, 0)
    assert (one["earliest"], one["latest"], one["records"], one["leader"]) == (0, 7, 7, 1)
    code, out, _ = run("topic", "list")
    assert (code, out.splitlines()[0].startswith("topic topic=a id=")) == (0, True)


@pytest.mark.parametrize("width", [80, 120])
def test_topics_for_people(broker: AdministeredBroker, run: Run, width: int) -> None:
    fill(broker.add_topic("orders", 3)[0], 1234)
    broker.add_topic("a-topic-with-quite-a-long-name." * 4)
    broker.configs[2, "orders"] = {"retention.ms": "5", "segment.bytes": "6"}
    for arguments in (("topic", "list", "--sizes"), ("topic", "describe", "orders"), ("topic", "list")):
        code, out, _ = run(*arguments, terminal=width)
        assert code == 0
        assert max(map(len, out.splitlines())) <= width
    _, out, _ = run("topic", "describe", "orders", terminal=width)
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[1].startswith("holds     3 partitions × 1 replica: 1,234 records, ")
    assert lines[2] == "state     healthy"
    assert lines[3:5] == ["settings  retention.ms=5", "          segment.bytes=6"]
    titles = ["partition", "leader", "replicas", "in", "sync", "earliest", "latest", "records", "size"]
    assert lines[6].split() == titles
    assert lines[7].split()[:7] == ["0", "1", "1", "1", "0", "1,234", "1,234"]


def test_no_topics_yet(run: Run) -> None:
    assert run("topic", "list") == (0, "", "")
    assert run("topic", "list", terminal=80)[1] == "there are no topics yet; make one: tailrace topic create NAME\n"


def test_creating(broker: AdministeredBroker, run: Run) -> None:
    assert run("topic", "create", "orders", "--dry-run")[0] == 0
    assert broker.topics == {}
    (made,) = items(run, "topic", "create", "orders", "--partitions", 3, "--config", "retention.ms=5")
    assert made == {"type": "done", "action": "created", "topic": "orders", "partitions": 3, "replication_factor": 1}
    assert broker.configs[2, "orders"] == {"retention.ms": "5"}
    code, _, err = run("topic", "create", "orders")
    assert code == 1
    assert err.startswith("error: Topic 'orders' already exists.\nhint: ")
    assert items(run, "topic", "create", "orders", "--if-not-exists")[0]["action"] == "found"
    assert run("topic", "create", "b", terminal=80)[1] == "✓ b created: 1 partition × 1 replica\n"


def test_deleting_asks_first(broker: AdministeredBroker, run: Run) -> None:
    broker.add_topic("orders")
    code, _, err = run("topic", "delete", "orders")
    assert (code, "orders" in broker.topics) == (1, True)
    assert err == (
        "error: no terminal to confirm on: Delete orders with all records?\n"
        "hint: pass --yes to proceed without confirmation\n"
    )
    assert run("topic", "delete", "orders", "--yes") == (0, "done action=deleted topic=orders\n", "")
    assert broker.topics == {}
    assert run("topic", "delete", "orders", "--yes", "--if-exists") == (0, "", "")
    assert run("topic", "delete", "orders", "--yes")[0] == 1


def test_changing(broker: AdministeredBroker, run: Run) -> None:
    fill(broker.add_topic("orders")[0], 9)
    changed = ("topic", "alter", "orders", "--partitions", 2, "--set", "retention.ms=5", "--unset", "segment.bytes")
    assert [item["action"] for item in items(run, *changed)] == ["settings", "partitions"]
    assert (len(broker.topics["orders"]), broker.configs[2, "orders"]) == (2, {"retention.ms": "5"})
    code, _, err = run("topic", "alter", "orders", "--partitions", 1)
    assert (code, err.splitlines()[0]) == (1, "error: too few")
    deleted = items(run, "topic", "alter", "orders", "--delete-records-before", "end", "--partition", 0, "--yes")
    assert [(item["partition"], item["log_start"]) for item in deleted] == [(0, 9)]
    assert run("topic", "alter", "orders")[0] == 1


def test_a_name_that_is_not_there(broker: AdministeredBroker, run: Run) -> None:
    broker.add_topic("orders")
    broker.add_topic("payments")
    for command, next_step in (
        (("topic", "describe"), "see which there are: tailrace topic list"),
        (("consume",), "create it: tailrace topic create ordres"),
        (("produce",), "create it: tailrace topic create ordres"),
        (("topic", "delete"), "to ignore it, pass --if-exists"),
    ):
        code, out, err = run(*command, "ordres")
        assert (code, out) == (1, "")
        assert err == f"error: there is no topic ordres\nhint: did you mean orders? else {next_step}\n"
    assert near("x", ["a", "b"]) == "there are a, b; "
    assert near("x", []) == "there are no topics yet; "
    assert near("ORDERS", ["orders"]) == "did you mean orders? else "


def test_a_broker_that_is_not_there(run: Run) -> None:
    code, out, err = run("topic", "list", "--bootstrap", "127.0.0.1:1")
    assert (code, out) == (1, "")
    assert err == (
        "error: no broker at 127.0.0.1:1: Connection refused\n"
        "hint: start one with `tailrace serve`, or pass its address: --bootstrap HOST:PORT or TAILRACE_BOOTSTRAP\n"
    )
    code, _, err = run("topic", "list", "--bootstrap", "nonsense")
    assert (code, err.splitlines()[0]) == (1, "error: 'nonsense' is no address of a broker")


# Settings


def test_settings(broker: AdministeredBroker, run: Run) -> None:
    broker.add_topic("orders")
    assert items(run, "config", "describe", "--topic", "orders") == []
    assert len(items(run, "config", "describe", "--topic", "orders", "--all")) == 3
    items(run, "config", "set", "--topic", "orders", "retention.ms=5")
    (entry,) = items(run, "config", "describe", "--topic", "orders")
    assert (entry["key"], entry["value"], entry["source"], entry["override"]) == ("retention.ms", "5", "topic", True)
    _, out, _ = run("config", "describe", "--topic", "orders", "--all", terminal=80)
    lines = [line.split() for line in out.splitlines()]
    assert lines[:2] == [["topic", "orders"], ["key", "value", "from"]]
    assert ["retention.ms", "5", "topic"] in lines
    items(run, "config", "unset", "--topic", "orders", "retention.ms")
    assert broker.configs[2, "orders"] == {}
    items(run, "config", "set", "--cluster", "log.cleaner.threads=2")
    items(run, "config", "set", "--broker", 1, "log.cleaner.threads=3")
    assert broker.configs[4, ""] == {"log.cleaner.threads": "2"}
    assert broker.configs[4, "1"] == {"log.cleaner.threads": "3"}


def test_a_secret_is_not_shown(run: Run) -> None:
    _, out, _ = run("config", "describe", "--broker", 1, "--all", "--docs", terminal=100)
    assert "(secret)" in out
    assert "what it is for" in out


def test_settings_that_are_wrong(broker: AdministeredBroker, run: Run) -> None:
    broker.add_topic("orders")
    code, _, err = run("config", "set", "--topic", "orders", "retention=5")
    assert (code, err) == (1, "error: there is no setting retention\nhint: did you mean retention.ms?\n")
    code, _, err = run("config", "set", "--topic", "orders", "retention.ms=oops")
    assert (code, err.splitlines()[0]) == (1, "error: Invalid value oops for retention.ms")
    code, _, err = run("config", "describe", "--broker", 9)
    assert (code, err) == (1, "error: there is no broker 9\nhint: the brokers are 1\n")
    with pytest.raises(SystemExit) as exit_info:
        run("config", "set", "--topic", "orders", "retention.ms")
    assert exit_info.value.code == 2


# The cluster


def test_the_cluster(broker: AdministeredBroker, run: Run) -> None:
    fill(broker.add_topic("orders", 3)[0], 3)
    cluster, node = items(run, "cluster", "describe")
    assert (cluster["cluster_id"], cluster["partitions"], node["leads"], node["rack"]) == ("a-cluster", 3, 3, "west")
    quorum, leader, voter = items(run, "cluster", "quorum")
    assert (quorum["leader"], leader["role"], voter["role"], voter["lag"]) == (1, "leader", "voter", 10)
    assert leader["endpoints"] == ["CONTROLLER://127.0.0.1:9093"]
    directories = [item for item in items(run, "cluster", "dirs") if item["type"] == "directory"]
    assert [(each["path"], each["error"] is None, each["free_bytes"]) for each in directories] == [
        ("/data/one", True, 1 << 38),
        ("/data/two", False, None),
    ]
    assert [(item["feature"], item["level"]) for item in items(run, "cluster", "features")] == [
        ("kraft.version", None),
        ("metadata.version", 29),
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_the_cluster_for_people(broker: AdministeredBroker, run: Run, width: int) -> None:
    fill(broker.add_topic("orders", 3)[0], 3)
    pictures = {
        command: run("cluster", *command.split(), terminal=width)[1]
        for command in ("describe", "quorum", "dirs --limit 2", "features")
    }
    for picture in pictures.values():
        assert max(map(len, picture.splitlines())) <= width
    assert "1  127.0.0.1:" in pictures["describe"]
    assert "running" in pictures["describe"]
    assert "metadata quorum  epoch 4" in pictures["quorum"]
    assert "cordoned: takes no new partitions" in pictures["dirs --limit 2"]
    assert "… and 1 more" in pictures["dirs --limit 2"]
    assert "offline: " in pictures["dirs --limit 2"]
    assert "can be raised" in pictures["features"]


# Producing


def test_lines_become_records(broker: AdministeredBroker, run: Run, tmp_path: Path) -> None:
    (log,) = broker.add_topic("orders")
    file = tmp_path / "lines"
    file.write_bytes(b"k1:v1\r\nk2:v2:x\nk3:\n:\xff\n\nlast:one".replace(b"\n\n", b"\n"))
    (summary,) = items(
        run, "produce", "orders", "--file", file, "--key-separator", ":", "--null", "", "--header", "a=b"
    )
    assert values_in(log) == [(b"k1", b"v1"), (b"k2", b"v2:x"), (b"k3", None), (None, b"\xff"), (b"last", b"one")]
    assert (summary["records"], summary["offsets"]) == (5, {"0": [0, 4]})
    headers = {record.headers for data in log.batches for record in application_records(data)}
    assert headers == {(("a", b"b"),)}


def test_an_end_before_the_end_of_the_file(broker: AdministeredBroker, run: Run, tmp_path: Path) -> None:
    logs = broker.add_topic("orders", 2)
    file = tmp_path / "lines"
    file.write_bytes(b"".join(b"%d\n" % number for number in range(100)))
    code, out, _ = run(
        "produce", "orders", "--file", file, "--max", 3, "--partition", 1, "--codec", "zstd", terminal=90
    )
    assert (code, len(values_in(logs[1]))) == (0, 3)
    assert out.startswith("✓ 3 records, ")
    assert "1: 0–2" in out


def test_what_cannot_be_produced(broker: AdministeredBroker, run: Run, tmp_path: Path) -> None:
    broker.add_topic("orders")
    file = tmp_path / "lines"
    file.write_bytes(b"a=1\nb\n")
    code, _, err = run("produce", "orders", "--file", file, "--key-separator", "=")
    assert (code, err.splitlines()[0]) == (1, "error: line 2 has no '=' behind a key")
    assert broker.topics["orders"][0].batches == []
    code, _, err = run("produce", "orders", "--file", tmp_path / "nowhere")
    assert (code, err.splitlines()[0]) == (1, f"error: read {tmp_path / 'nowhere'}: No such file or directory")
    code, _, err = run("produce", "orders", "--partition", 5, "--file", file)
    assert (code, err) == (1, "error: orders has no partition 5\nhint: it has 0 to 0\n")


def test_standard_input_is_sent_before_it_ends(broker: AdministeredBroker) -> None:
    (log,) = broker.add_topic("orders")
    process = subprocess.Popen(
        [sys.executable, "-m", "tailrace", "produce", "orders", "--json", "--bootstrap", broker.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write("first\n")
    process.stdin.flush()
    while not log.batches:
        assert process.poll() is None
    out, _ = process.communicate("second\n", timeout=60)
    assert json.loads(out)["records"] == 2
    assert [value for _, value in values_in(log)] == [b"first", b"second"]


# Consuming


def test_records_for_pipes(broker: AdministeredBroker, run: Run) -> None:
    (log,) = broker.add_topic("orders")
    fill(log, 3)
    log.append(batch_of([(5, None, None), (6, b"k", b"a\xffb")]))
    code, out, _ = run("consume", "orders", "--max", 3)
    assert (code, out) == (0, "value 0\nvalue 1\nvalue 2\n")
    _, out, _ = run("consume", "orders", "--key-separator", "=", "--null", "-", "--from", 2, "--max", 2)
    assert out == "k2=value 2\n-=-\n"


def test_records_as_json(broker: AdministeredBroker, run: Run) -> None:
    (log,) = broker.add_topic("orders")
    log.append(batch_of([(5, b"k", b"a\xffb", [("h", b"1")])]))
    (item,) = items(run, "consume", "orders")
    assert item == {
        "type": "record",
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "timestamp": 5,
        "timestamp_type": "CreateTime",
        "key": "k",
        "key_base64": None,
        "value": None,
        "value_base64": "Yf9i",
        "headers": [{"key": "h", "key_base64": None, "value": "1", "value_base64": None}],
    }
    assert json.loads(run("consume", "orders", "--format", "json")[1]) == item


def test_records_for_people(broker: AdministeredBroker, run: Run) -> None:
    (log,) = broker.add_topic("orders")
    log.append(batch_of([(1_700_000_000_000, b"k", b"two\x1b[31m apples", [("h", b"1")]), (1, None, None)]))
    _, out, _ = run("consume", "orders", terminal=80)
    first, second, total = out.splitlines()
    assert first == "0:0  2023-11-14T22:13:20.000Z  k two\\x1b[31m apples  h=1"
    assert second == "0:1  1970-01-01T00:00:00.001Z  null"
    assert total.startswith("2 records, ")


def test_reading_ends_where_the_topic_ended(broker: AdministeredBroker, run: Run) -> None:
    logs = broker.add_topic("orders", 2)
    assert run("consume", "orders") == (0, "", "")
    fill(logs[0], 2)
    fill(logs[1], 3)
    assert len(run("consume", "orders")[1].splitlines()) == 5
    assert len(run("consume", "orders", "--partition", 1)[1].splitlines()) == 3
    assert run("consume", "orders", "--from", "latest")[1] == ""
    code, _, err = run("consume", "orders", "--from", 3)
    assert (code, err.splitlines()[0]) == (1, "error: orders-0 has offsets 0 to 2, not 3")
    assert run("consume", "orders", "--partition", 7)[0] == 1


def test_following_ends_with_its_number(broker: AdministeredBroker, run: Run) -> None:
    (log,) = broker.add_topic("orders")
    fill(log, 5)
    assert run("consume", "orders", "--follow", "--from", "earliest", "--max", 5)[1].count("\n") == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", (None, -2)),
        ("latest", (None, -1)),
        ("17", (17, -2)),
        ("@1700000000000", (None, 1_700_000_000_000)),
        ("2023-11-14T22:13:20Z", (None, 1_700_000_000_000)),
        ("2023-11-14T22:13:20", (None, 1_700_000_000_000)),
        ("2023-11-14T23:13:20+01:00", (None, 1_700_000_000_000)),
        ("2023-11-14", (None, 1_699_920_000_000)),
    ],
)
def test_where_to_begin(text: str, expected: tuple[int | None, int]) -> None:
    assert start(text) == expected


@pytest.mark.parametrize("text", ["", "-5", "@", "@x", "tomorrow", "1960-01-01", "9" * 30])
def test_where_nothing_begins(text: str, run: Run) -> None:
    with pytest.raises(SystemExit) as exit_info:
        run("consume", "orders", f"--from={text}")
    assert exit_info.value.code == 2


def test_throughput_over_the_last_seconds() -> None:
    now = [0.0]
    throughput = Throughput(lambda: now[0])
    for _ in range(20):
        throughput.add(10, 1000)
        now[0] += 0.5
        records_per_s, bytes_per_s = throughput.now()
    assert (records_per_s, bytes_per_s) == (20, 2000)
    now[0] += 10
    throughput.now()
    assert throughput.now() == (0, 0)
    assert throughput.overall() == (10, 1000)


# Shells, and how fast it begins


def test_help_loads_nothing_that_a_command_needs() -> None:
    code = (
        "import sys; from tailrace.cli.main import build_parser, COMMANDS; build_parser(COMMANDS); "
        "print([name for name in sys.modules if name.startswith(('rich', 'tailrace.client', 'tailrace.protocol', "
        "'tailrace.record', 'tailrace.storage', 'tailrace.broker', 'socket', 'json'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_lines_for_pipes_are_made_without_rich(broker: AdministeredBroker) -> None:
    broker.add_topic("orders")
    code = (
        "import sys; from tailrace.cli.main import main; code = main(['topic', 'list']); "
        "print(code, 'rich' in sys.modules, 'tailrace.storage' in sys.modules)"
    )
    environment = {**os.environ, "TAILRACE_BOOTSTRAP": broker.address}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == "0 False False"
