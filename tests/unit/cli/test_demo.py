"""`tailrace demo`: its parts, and the whole of it as a newcomer starts it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from support.terminals import run_on_terminal
from tailrace.cli.demo_facts import Counted, Counting, Facts, PartitionFacts, Rate, Sales, Scene, Tabled, Tabling
from tailrace.cli.demo_latency import RECENT_S, Latencies
from tailrace.cli.demo_orders import NO_ORDER, Order, Orders, number_of
from tailrace.cli.demo_run import MOST_PER_STEP, TOPIC, Pace, create_topic, start_failed
from tailrace.cli.demo_stream import MOST_UNDER_WAY, Stream
from tailrace.cli.demo_usage import Usage, UsageMeter
from tailrace.cli.demo_view import commands, frame, line, sparkline, summary
from tailrace.cli.interrupts import Interrupts
from tailrace.cli.main import main
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.testing.broker import Broker, BrokerStartError

Captured = pytest.CaptureFixture[str]
TAILRACE = (sys.executable, "-m", "tailrace")


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


# Orders


def test_a_seed_gives_the_same_orders_again() -> None:
    first, second, other = Orders(3), Orders(3), Orders(4)
    orders = [first.next() for _ in range(100)]
    assert orders == [second.next() for _ in range(100)]
    assert orders != [other.next() for _ in range(100)]


def test_an_order_is_json_of_its_customer() -> None:
    orders = Orders()
    for number in range(200):
        order = orders.next()
        content = json.loads(order.value)
        assert order.number == number == content["order"] == number_of(order.value)
        assert content["customer"].encode() == order.key
        assert content["cents"] % content["pieces"] == 0


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{",
        b"\xff\xfe",
        b"[1]",
        b"7",
        b"{}",
        b'{"order": -1}',
        b'{"order": true}',
        b'{"order": "1"}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_order_is_not_taken_for_one(value: bytes | None) -> None:
    assert number_of(value) == NO_ORDER


# Measuring


def test_percentiles_are_right_within_the_width_of_a_bucket() -> None:
    latencies = Latencies(Clock())
    assert latencies.overall_s(0.99) is None
    latencies.add(number / 1000 for number in range(1, 1001))
    for share, expected in ((0.5, 0.5), (0.99, 0.99), (1.0, 1.0)):
        found = latencies.overall_s(share)
        assert found is not None
        assert expected <= found < expected * 1.036


def test_recent_percentiles_forget_what_all_of_them_keep() -> None:
    clock = Clock()
    latencies = Latencies(clock)
    latencies.add([5.0])
    clock.now_s += RECENT_S - 1
    latencies.add([0.001])
    assert (latencies.recent_s(1.0) or 0) >= 5
    clock.now_s += 1
    assert (latencies.recent_s(1.0) or 9) < 0.0011
    clock.now_s += RECENT_S
    assert latencies.recent_s(1.0) is None
    assert (latencies.overall_s(1.0) or 0) >= 5


def test_the_pace_is_kept_and_never_made_up_for() -> None:
    clock = Clock()
    pace = Pace(1000, clock)
    due = []
    for _ in range(4):
        clock.now_s += 0.0025
        due.append(pace.due())
    assert sum(due) in (9, 10)  # 10, less what a binary fraction loses
    clock.now_s += 3600
    assert pace.due() == MOST_PER_STEP


def test_usage_of_a_process(tmp_path: Path) -> None:
    folder, clock = tmp_path / "42", Clock()
    folder.mkdir()
    (folder / "statm").write_text("900 250 9 1 0 9 0\n")
    meter = UsageMeter(tmp_path, clock)
    ticks_per_s = os.sysconf("SC_CLK_TCK")

    def after(seconds: float, ticks: int) -> Usage:
        clock.now_s += seconds
        (folder / "stat").write_text(f"42 (a) b) S {' '.join('0' * 10)} {ticks} {ticks} 0\n")
        return meter.of(42)

    memory = 250 * os.sysconf("SC_PAGE_SIZE")
    assert after(0, 0) == (memory, None)
    assert after(0.5, ticks_per_s) == (memory, None), "too short to tell"
    assert after(1.5, ticks_per_s) == (memory, 1.0)
    assert meter.of(43) == meter.of(None) == (None, None)


# Streaming


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        create_topic(cluster)
        create_topic(cluster)  # as with the directory of an earlier demo
        yield cluster


def receive_all(stream: Stream, records: int) -> None:
    while stream.consumed.records < records:
        stream.receive(1.0)


def test_orders_come_back_and_are_counted(cluster: Cluster) -> None:
    with Stream(cluster, TOPIC, Orders()) as stream:
        stream.begin()
        stream.send(300)
        assert (stream.sent, stream.under_way, stream.produced.records) == (300, 300, 300)
        assert not stream.is_sound
        receive_all(stream, 300)
        assert stream.is_sound
        assert (stream.returned, stream.under_way) == (300, 0)
        assert isinstance(stream.last_order, Order)
        assert [stream.behind(each) for each in stream.ends] == [0] * 4
        assert (stream.latencies.overall_s(1.0) or 0) > 0


def test_what_others_write_is_counted_apart_and_never_hurts(cluster: Cluster) -> None:
    with Stream(cluster, TOPIC, Orders()) as stream, Producer(cluster) as somebody:
        stream.begin()
        stream.send(10)
        somebody.send(TOPIC, b"no order at all")
        somebody.send(TOPIC, None, b"customer-001")
        somebody.flush()
        receive_all(stream, 12)
        assert (stream.returned, stream.unexpected, stream.is_sound) == (10, 2, False)


def test_a_second_time_is_noticed(cluster: Cluster) -> None:
    with Stream(cluster, TOPIC, Orders()) as stream, Producer(cluster) as somebody:
        stream.begin()
        stream.send(1)
        again = Orders().next()
        somebody.send(TOPIC, again.value, again.key)
        somebody.flush()
        receive_all(stream, 2)
        assert (stream.returned, stream.unexpected, stream.is_sound) == (1, 1, False)


def test_overtaking_is_noticed(cluster: Cluster) -> None:
    class Backwards(Orders):
        def next(self) -> Order:
            order = super().next()
            return order._replace(number=1000 - order.number, value=b'{"order": %d}' % (1000 - order.number))

    with Stream(cluster, TOPIC, Backwards()) as stream:
        stream.begin()
        stream.send(50)
        receive_all(stream, 50)
        assert stream.returned == 50
        assert stream.out_of_order == 50 - 4  # all but the first of each partition
        assert not stream.is_sound


def test_a_consumer_that_falls_behind_holds_the_producer_up(cluster: Cluster) -> None:
    with Stream(cluster, TOPIC, Orders()) as stream:
        stream.begin()
        stream.send(MOST_UNDER_WAY + 5_000)
        assert stream.sent == MOST_UNDER_WAY
        stream.send(1)
        assert stream.sent == MOST_UNDER_WAY
        receive_all(stream, MOST_UNDER_WAY)
        assert stream.is_sound


# Drawing

SCENE = Scene(
    "localhost:9092", 9092, "orders", 10_000, "/tmp/x", False, 0.31, "http://localhost:9404/metrics", "tailrace"
)
FACTS = Facts(
    seconds=3725.5,
    sent=1_000_010,
    returned=1_000_000,
    produced=Rate(10_000.4, 1_700_000),
    consumed=Rate(9_999.6, 1_700_000),
    p50_s=0.0012,
    p99_s=0.0031,
    usage=Usage(41 << 20, 0.12),
    pid=4711,
    partitions=tuple(PartitionFacts(number, 200_000 * number, 1_000_000, 0) for number in range(4)),
    last_order=json.dumps({"order": 1_000_000, "customer": "customer-017", "item": "teapot\x1b[2J", "note": "x" * 200}),
    restarts=0,
    out_of_order=0,
    unexpected=0,
    counted=Counted(Counting.COUNTING, 990_000, 1_234, "chair", 99_123_456_789),
)
WHOLE = FACTS._replace(returned=FACTS.sent, counted=FACTS.counted._replace(orders=FACTS.sent))


def drawn(content: RenderableType, width: int) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(content, soft_wrap=True)  # so that what is too long shows
    return [text.rstrip() for text in captured.get().splitlines()]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_frame_fits_the_terminal(width: int) -> None:
    lines = drawn(frame(SCENE, FACTS, [(Rate(1, 1), Rate(2, 2))] * 300, width), width)
    assert max(map(len, lines)) <= width
    assert len(lines) <= 23, "a terminal of 24 lines shows all of it"
    text = "\n".join(lines)
    for expected in (
        "localhost:9092",
        "1:02:05",
        "10,000 orders/s  1.62 MiB/s",
        "p99 3.1 ms",
        "41.0 MiB memory   12 % of a core",
        "990,000 counted   10,010 to come   batch 1,234",
        "1,000,000 orders: none lost, none twice, all in order",
        "tailrace consume orders --follow   ",
        "kcat -b localhost:9092 -t orders -C -o end",
        "kill -9 4711",
        "http://localhost:9404/metrics",
    ):
        assert expected in text, expected
    assert "\x1b" not in text


def test_a_narrow_terminal_gets_no_bars_and_whole_commands() -> None:
    lines = drawn(frame(SCENE, FACTS, [], 50), 50)
    assert not [text for text in lines if "█" in text]
    assert "    kcat -b localhost:9092 -t orders -C -o end" in lines


def test_one_long_command_leaves_the_others_their_meaning() -> None:
    text = commands([("tailrace serve", "a broker"), ("tailrace pipeline table", "so much of a meaning")], 40).plain
    assert text == "    tailrace serve   a broker\n    tailrace pipeline table"


def test_bars_are_to_one_scale() -> None:
    lines = drawn(frame(SCENE, FACTS, [], 97), 97)
    bars = [re.sub(r"[^░█]", "", text) for text in lines if "█" in text]
    assert [(bar.count("░"), bar.count("█")) for bar in bars] == [(0, 48), (9, 39), (19, 29), (28, 20)]


def test_another_port_is_part_of_the_commands() -> None:
    scene = SCENE._replace(port=9093, bootstrap="localhost:9093", metrics_url=None)
    text = "\n".join(drawn(frame(scene, FACTS, [], 120), 120))
    assert "tailrace consume orders --follow --bootstrap localhost:9093" in text
    assert "metrics" not in text


def test_a_sparkline() -> None:
    assert sparkline([], 5) == ""
    assert sparkline([0, 0], 5) == "▁▁"
    assert sparkline([9, 0, 5, 10], 3) == "▁▅█"


def test_the_sum_says_when_all_is_well() -> None:
    first = drawn(summary(SCENE, WHOLE, 80, is_once=True), 80)[0]
    assert first == "✓ 1,000,010 orders: none lost, none twice, all in order (3725.5 s)"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (FACTS, "10 LOST"),
        (WHOLE._replace(out_of_order=3), "3 OUT OF ORDER"),
        (WHOLE._replace(unexpected=1), "1 record that nobody waited for"),
    ],
)
def test_the_sum_says_what_is_wrong(facts: Facts, expected: str) -> None:
    assert not facts.is_sound
    first = drawn(summary(SCENE, facts, 80, is_once=True), 80)[0]
    assert first.startswith("✗ ")
    assert expected in first


def test_a_wrong_count_of_sparks_is_wrong_where_it_was_waited_for() -> None:
    facts = WHOLE._replace(counted=FACTS.counted)
    first, *rest = drawn(summary(SCENE, facts, 80, is_once=True), 80)
    assert first.startswith("✗ ")
    assert [text for text in rest if "10,010 to come" in text]
    assert drawn(summary(SCENE, facts, 80, is_once=False), 80)[0].startswith("✓ ")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"counted": Counted(Counting.STARTING)}, "Spark had not started its query"),
        ({"counted": Counted(Counting.COUNTING, 7)}, "Spark had counted 7 of 1,000,010 orders"),
        ({"tabled": Tabled(Tabling.STARTING)}, "the table had 0 of 1,000,010 orders"),
        ({"tabled": Tabled(Tabling.FILLING, 7, 1)}, "the table had 7 of 1,000,010 orders"),
        (
            {"tabled": Tabled(Tabling.FILLING, 1_000_010, 1, sales=(Sales("lamp", 7, 1),))},
            "the sales were of 7 of 1,000,010 orders in the table",
        ),
    ],
)
def test_the_sum_says_what_spark_had_not_done(changes: dict[str, Any], expected: str) -> None:
    facts = WHOLE._replace(**changes)
    first, reason, *_ = drawn(summary(SCENE, facts, 120, is_once=True), 120)
    assert first.startswith("✗ ")
    assert reason == f"  incomplete {expected} when the demo stopped waiting"
    assert "incomplete" not in "".join(drawn(summary(SCENE, facts, 120, is_once=False), 120))


def test_a_sum_of_all_orders_gives_no_reason() -> None:
    sales = (Sales("lamp", WHOLE.sent, 1),)
    facts = WHOLE._replace(tabled=Tabled(Tabling.FILLING, WHOLE.sent, 1, sales=sales))
    first, second, *_ = drawn(summary(SCENE, facts, 120, is_once=True), 120)
    assert first.startswith("✓ ")
    assert "incomplete" not in second


def test_a_line_for_a_pipe() -> None:
    assert line(FACTS) == (
        "3725.5 s | in 10,000 orders/s, 1.62 MiB/s | out 10,000 orders/s, 1.62 MiB/s | p99 3.1 ms | "
        "offsets 1000000 1000000 1000000 1000000 | broker 41.0 MiB | Spark has counted 990,000"
    )
    waiting = FACTS._replace(sent=0, counted=Counted(Counting.STARTING), waits_for_spark=True)
    assert line(waiting) == "waiting for Spark"
    assert line(FACTS._replace(waits_for_spark=True)) == "waiting for Spark: 990,000 of 1,000,010 counted"
    assert "p99 – | " in line(FACTS._replace(p99_s=None, usage=Usage()))


# Beginning and ending


def test_ctrl_c_asks_once_and_insists_the_second_time() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGTERM)
        assert interrupts.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_port_that_is_taken(capsys: Captured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["demo", "--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert f"error: somebody listens on 127.0.0.1:{port} already" in said
    assert f"demo --port {port + 1}" in said


def test_a_broker_that_cannot_start_is_quoted(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "--once", "--dir", str(tmp_path / "file" / "below")]) == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: the broker ended with exit code 1 before it was ready: ")
    assert str(tmp_path / "file") in error
    assert hint.startswith("hint: ")


def test_a_broker_that_says_nothing_of_use_is_quoted_too() -> None:
    error = start_failed(BrokerStartError("it ended\nTraceback\nKeyError: 7"))
    assert (str(error), error.hint) == ("it ended: KeyError: 7", "")
    assert str(start_failed(BrokerStartError("it ended"))) == "it ended: "


@pytest.mark.parametrize("argument", [["--once"], ["--json"], ["--port", "9093"]])
def test_the_crash_needs_nothing_of_a_broker(capsys: Captured, argument: list[str]) -> None:
    assert main(["demo", "--crash", *argument]) == 1
    assert "--crash goes with --dir only" in capsys.readouterr().err


@pytest.mark.parametrize("argument", [["--port", "0"], ["--port", "65536"], ["--rate", "0"], ["--orders", "x"]])
def test_wrong_numbers_are_wrong_usage(argument: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", *argument])
    assert ended.value.code == 2


def test_once(tmp_path: Path) -> None:
    """What CI runs: it ends by itself, and leaves nothing."""
    done = subprocess.run(
        [*TAILRACE, "demo", "--once", "--no-spark", "--orders", "12000"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    words = " ".join(done.stdout.split())
    assert "✓ 12,000 orders: none lost, none twice, all in order" in words
    assert "python -m tailrace demo --crash" in words
    assert "\x1b" not in done.stdout, "a pipe gets no colours"
    assert list(tmp_path.iterdir()) == []


def test_once_on_a_terminal(tmp_path: Path) -> None:
    command = [*TAILRACE, "demo", "--once", "--no-spark", "--orders", "8000"]
    code, shown = run_on_terminal(command, variables={"TMPDIR": str(tmp_path)})
    assert code == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("In another terminal") >= 2, "it was drawn again and again"
    assert "✓ 8,000 orders: none lost, none twice, all in order" in text
    assert shown.count("\x1b[?25h") >= shown.count("\x1b[?25l") > 0, "the cursor is shown again"


def test_it_survives_a_killed_broker_and_serves_until_ctrl_c(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*TAILRACE, "demo", "--json", "--no-spark", "--rate", "500", "--port", str(port)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as demo:
        assert demo.stdout is not None
        items = (json.loads(text) for text in demo.stdout)
        begun, first = next(items), next(items)
        assert (begun["type"], begun["bootstrap"]) == ("broker", f"localhost:{port}")
        assert first["returned"] > 0
        os.kill(first["broker_pid"], signal.SIGKILL)
        again = next(item for item in items if item["broker_restarts"] == 1)
        assert again["broker_pid"] != first["broker_pid"]
        demo.send_signal(signal.SIGINT)
        *_, last = items
    assert demo.returncode == 0
    assert last["type"] == "summary"
    assert last["sent"] == last["returned"] > first["returned"]
    assert (last["out_of_order"], last["unexpected"]) == (0, 0)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_directory_that_was_given_stays_and_serves_again(tmp_path: Path) -> None:
    command = [*TAILRACE, "demo", "--once", "--json", "--no-spark", "--orders", "100", "--dir", str(tmp_path / "data")]
    ends = []
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        last = json.loads(done.stdout.splitlines()[-1])
        assert last["sent"] == last["returned"] == 100
        ends.append(sum(each["end"] for each in last["partitions"]))
    assert ends == [100, 200]
