"""`tailrace demo`: a broker as a child process, a client that streams orders through it, and a show of both.

The broker ends with this process in any case. When it ends by itself, because somebody tries that, it is started again
on the same data: the client tries again whatever was under way, so nothing is lost and nothing comes twice.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Final, NamedTuple

from tailrace.cli.demo_counting import Counter, counter
from tailrace.cli.demo_ending import DemoAudit
from tailrace.cli.demo_facts import Counting, Facts, PartitionFacts, Rate, Scene
from tailrace.cli.demo_orders import Orders
from tailrace.cli.demo_shows import Show, chosen_show
from tailrace.cli.demo_stream import Stream
from tailrace.cli.demo_usage import Usage, UsageMeter
from tailrace.cli.interrupts import Interrupts
from tailrace.cli.output import CommandError, prepare_stdout
from tailrace.cli.program import program_name
from tailrace.cli.spark_work import check_writable
from tailrace.client.admin import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.errors import TOPIC_ALREADY_EXISTS
from tailrace.model.errors import TailraceError
from tailrace.testing.broker import HOST, Broker, BrokerStartError, PortTakenError

TOPIC: Final = "orders"
PARTITIONS: Final = 4
# It may run for days: old orders go, so that it takes some hundred megabytes and no more.
TOPIC_SETTINGS: Final = {"retention.bytes": "67108864", "segment.bytes": "8388608", "file.delete.delay.ms": "1000"}
BROKER_SETTINGS: Final = {"log.retention.check.interval.ms": "10000"}
METRICS_PORT: Final = 9404

STEP_S: Final = 0.005
MOST_PER_STEP: Final = 2_000
LONGEST_DRAIN_S: Final = 30.0
ONCE_TIMEOUT_S: Final = 120.0
SHOWN_LATE_AT_MOST_S: Final = 0.5
MAX_WAIT_FOR_SPARK_S: Final = 90.0
"""Without any progress. A slow machine that does make progress is waited for."""
WAITING_STEP_S: Final = 0.05


class Wishes(NamedTuple):
    port: int
    """0 for any that is free."""
    rate: int
    most_orders: int | None
    """None: until Ctrl-C."""
    directory: str | None
    as_json: bool
    counts_with_spark: bool
    report: str | None = None
    """Where the page of the audit goes; None: to a new temporary file."""

    @property
    def is_once(self) -> bool:
        return self.most_orders is not None


def run(wishes: Wishes) -> int:
    prepare_stdout()
    if wishes.report is not None:
        check_writable(wishes.report)
    metrics_url = None if wishes.is_once else free_metrics_url()
    metrics = {} if metrics_url is None else {"metrics.listener": f"{HOST}:{METRICS_PORT}"}
    broker = Broker({**BROKER_SETTINGS, **metrics}, data_dir=wishes.directory, port=wishes.port)
    began_s = time.monotonic()
    try:
        broker.start()
        scene = Scene(
            bootstrap=f"localhost:{broker.port}",
            port=broker.port,
            topic=TOPIC,
            rate=wishes.rate,
            data_dir=str(broker.data_dir),
            keeps_data=wishes.directory is not None,
            ready_s=time.monotonic() - began_s,
            metrics_url=metrics_url,
            program=program_name(),
        )
        with closing(chosen_show(scene, as_json=wishes.as_json, is_once=wishes.is_once)) as show:
            return Demo(broker, show, wishes).run()
    except PortTakenError as error:
        raise port_taken(wishes.port, error) from error
    except BrokerStartError as error:
        raise start_failed(error) from error
    finally:
        broker.close()


def port_taken(port: int, error: TailraceError) -> CommandError:
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno != errno.EADDRINUSE:
        return CommandError(str(error), "choose another port with --port")
    program = program_name()
    return CommandError(
        f"somebody listens on {HOST}:{port} already, maybe a broker",
        f"stop it, or take another port: {program} demo --port {port + 1}"
        f"; if it is a broker, see what it has: {program} cluster describe --bootstrap localhost:{port}",
    )


def start_failed(error: BrokerStartError) -> CommandError:
    """With the broker's own words, which it ends with: `error: …`, `hint: …`."""
    summary, *said = str(error).splitlines()
    found = {key: text for key, _, text in (line.partition(": ") for line in said)}
    return CommandError(f"{summary}: {found.get('error') or ' '.join(said[-1:])}", found.get("hint", ""))


def free_metrics_url() -> str | None:
    """Metrics are an extra: where their port is taken, the demo goes without."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, METRICS_PORT))
        except OSError:
            return None
    return f"http://localhost:{METRICS_PORT}/metrics"


class Demo:
    """The number of orders ends it, or without one Ctrl-C does. One with a number waits for Spark, before and after."""

    def __init__(self, broker: Broker, show: Show, wishes: Wishes) -> None:
        self._broker = broker
        self._show = show
        self._rate = wishes.rate
        self._most_orders = wishes.most_orders
        self._counts_with_spark = wishes.counts_with_spark
        self._report = wishes.report
        self._counter: Counter
        self._meter = UsageMeter()
        self._most_memory_bytes = 0
        self._restarts = 0

    def run(self) -> int:
        bootstrap = self._broker.bootstrap_servers
        with Interrupts() as interrupts, ExitStack() as later:
            with Cluster(bootstrap, client_id="tailrace-demo", pause=self._pause) as cluster:
                create_topic(cluster)
                with Stream(cluster, TOPIC, Orders()) as stream:
                    stream.begin()
                    self._began_s = time.monotonic()
                    self._counter = counter(bootstrap, stream.ends, is_wanted=self._counts_with_spark)
                    later.enter_context(closing(self._counter))
                    facts = self._stream_and_count(stream, interrupts)
            audit = DemoAudit(self._broker, self._counter, self._show, self._report)
            facts = facts._replace(audited=audit.run(facts))
        self._show.end(facts)
        is_sound = facts.is_sound and facts.counted.is_sound(facts.sent) and facts.tabled.is_sound(facts.sent)
        return 0 if (is_sound and facts.audited.is_sound) or self._most_orders is None else 1

    def _stream_and_count(self, stream: Stream, interrupts: Interrupts) -> Facts:
        if self._most_orders is not None:
            self._wait(stream, interrupts, lambda: self._counter.now().state is not Counting.STARTING)
            stream.begin()
            self._began_s = time.monotonic()
        self._go_on(stream, interrupts)
        facts = self._overall(stream, time.monotonic() - self._began_s)
        if self._most_orders is not None:
            self._wait(stream, interrupts, self._all_are_counted(stream.sent))
        return facts._replace(counted=self._counter.now(), tabled=self._counter.table())

    def _all_are_counted(self, sent: int) -> Callable[[], bool]:
        def is_done() -> bool:
            counted, tabled = self._counter.now(), self._counter.table()
            if counted.state is Counting.COUNTING and counted.orders < sent:
                return False
            return not tabled.is_awaited(sent)

        return is_done

    def _wait(self, stream: Stream, interrupts: Interrupts, is_done: Callable[[], bool]) -> None:
        patience = Patience(MAX_WAIT_FOR_SPARK_S)
        next_show_s = time.monotonic() + self._show.every_s
        while not is_done() and not interrupts.asked and not patience.is_over(self._progress()):
            time.sleep(WAITING_STEP_S)
            if time.monotonic() >= next_show_s:
                self._show.moment(self._now(stream)._replace(waits_for_spark=True))
                next_show_s = time.monotonic() + self._show.every_s

    def _progress(self) -> tuple[object, ...]:
        """What changes as long as Spark gets on."""
        counted, tabled = self._counter.now(), self._counter.table()
        return counted.state, counted.orders, tabled.state, tabled.rows, tabled.summed

    def _go_on(self, stream: Stream, interrupts: Interrupts) -> None:
        pace = Pace(self._rate)
        next_show_s = time.monotonic() + self._show.every_s
        while not interrupts.asked:
            left = MOST_PER_STEP if self._most_orders is None else self._most_orders - stream.sent
            if left == 0 and not stream.under_way:
                return
            if self._most_orders is not None and time.monotonic() - self._began_s > ONCE_TIMEOUT_S:
                return
            step_ends_s = time.monotonic() + STEP_S
            stream.send(min(pace.due(), left))
            receive_until(stream, step_ends_s)
            # Drawing takes as long as an order does: it waits until none is under way.
            late_s = time.monotonic() - next_show_s
            if late_s >= 0 and (not stream.under_way or late_s > SHOWN_LATE_AT_MOST_S):
                self._show.moment(self._now(stream))
                next_show_s = time.monotonic() + self._show.every_s
        drained_by_s = time.monotonic() + LONGEST_DRAIN_S
        while stream.under_way and time.monotonic() < drained_by_s:
            stream.receive(STEP_S)

    def _pause(self, seconds: float) -> None:
        """The client waits before it tries again: the moment to see whether there is a broker at all."""
        if not self._broker.is_running:
            self._restarts += 1
            self._broker.start()
        time.sleep(seconds)

    # What there is to show

    def _now(self, stream: Stream) -> Facts:
        return self._facts(
            stream,
            time.monotonic() - self._began_s,
            (Rate(*stream.produced.now()), Rate(*stream.consumed.now())),
            stream.latencies.recent_s,
            self._usage(),
        )

    def _overall(self, stream: Stream, seconds: float) -> Facts:
        usage = self._usage()._replace(memory_bytes=self._most_memory_bytes or None)
        rates = (Rate(*stream.produced.overall()), Rate(*stream.consumed.overall()))
        return self._facts(stream, seconds, rates, stream.latencies.overall_s, usage)

    def _usage(self) -> Usage:
        usage = self._meter.of(self._broker.pid)
        self._most_memory_bytes = max(self._most_memory_bytes, usage.memory_bytes or 0)
        return usage

    def _facts(
        self,
        stream: Stream,
        seconds: float,
        rates: tuple[Rate, Rate],
        latency_s: Callable[[float], float | None],
        usage: Usage,
    ) -> Facts:
        order = stream.last_order
        return Facts(
            seconds=seconds,
            sent=stream.sent,
            returned=stream.returned,
            produced=rates[0],
            consumed=rates[1],
            p50_s=latency_s(0.50),
            p99_s=latency_s(0.99),
            usage=usage,
            pid=self._broker.pid,
            partitions=tuple(
                PartitionFacts(each.partition, stream.starts[each], end, stream.behind(each))
                for each, end in sorted(stream.ends.items())
            ),
            last_order="" if order is None else order.value.decode(errors="replace"),
            restarts=self._restarts,
            out_of_order=stream.out_of_order,
            unexpected=stream.unexpected,
            counted=self._counter.now(),
            tabled=self._counter.table(),
        )


def create_topic(cluster: Cluster) -> None:
    """With a directory of an earlier demo it is there already."""
    try:
        Admin(cluster).create_topic(TOPIC, partitions=PARTITIONS, configs=TOPIC_SETTINGS)
    except TailraceError as error:
        if error.code != TOPIC_ALREADY_EXISTS:
            raise


def receive_until(stream: Stream, at_s: float) -> None:
    while True:
        left_s = at_s - time.monotonic()
        stream.receive(max(left_s, 0))
        if left_s <= 0:
            return


class Patience:
    """Ends when nothing has changed for `limit_s`."""

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._last: object = None
        self._ends_s = clock() + limit_s

    def is_over(self, progress: object) -> bool:
        """`progress` is any value that differs from the last one if something has changed."""
        now_s = self._clock()
        if progress != self._last:
            self._last, self._ends_s = progress, now_s + self._limit_s
        return now_s >= self._ends_s


class Pace:
    """How many orders are due, for so many a second. Who falls behind does not have to catch up."""

    def __init__(self, per_s: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._clock = clock
        self._asked_s = clock()
        self._due = 0.0

    def due(self) -> int:
        now_s = self._clock()
        self._due = min(self._due + (now_s - self._asked_s) * self._per_s, MOST_PER_STEP)
        self._asked_s = now_s
        whole = int(self._due)
        self._due -= whole
        return whole
