"""What `peers_run.py` measures: each measurement gives one or more rows, each row two figures a round.

Both brokers are up together and take their turns, the one that begins changing from round to round; an idle one takes
next to no CPU. A row's ratio is ours / Kafka's within a round; its median over the rounds is what the mark asks.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import peer_coordinator_rows as coordinators
from peer_cluster_rows import clusters
from peer_loads import PARTITIONS, ROUND_BYTES, IdleClients, Loads, first_acknowledged, settle
from peer_row import Row, short
from peer_sides import Side

GB = 1e9


@dataclass(frozen=True)
class Plan:
    """How much of everything: `quick` is for trying the runner, its figures mean nothing."""

    rounds: int
    is_quick: bool
    say: Callable[[str], None]

    def seconds(self, wanted: float) -> float:
        return min(wanted, 1.0) if self.is_quick else wanted

    def share(self, wanted: int) -> int:
        return wanted // 20 if self.is_quick else wanted


Sides = tuple[Side, Side]


class Bench:
    """Two kinds of broker, and the folder for their directories."""

    def __init__(self, kinds: tuple[type[Side], type[Side]], folder: Path, loads: Loads, plan: Plan) -> None:
        self.kinds = kinds
        self.folder = folder
        self.loads = loads
        self.plan = plan
        self._made = 0

    @contextmanager
    def sides(self, *, are_started: bool = True, kinds: tuple[type[Side], type[Side]] | None = None) -> Iterator[Sides]:
        """A new broker of each kind on an empty directory, which is removed with everything else at the end."""
        with ExitStack() as stack:
            made = []
            for kind in kinds or self.kinds:
                self._made += 1
                folder = self.folder / f"broker-{self._made}"
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
                made.append(stack.enter_context(kind(folder)))
            for side in made if are_started else ():
                side.start()
            yield made[0], made[1]

    def rounds(self, sides: Sides, rows: list[Row], measure: Callable[[Side, int], tuple[float, ...]]) -> None:
        """`measure(side, round)` gives one figure a row. A sync before each, so that none pays for another's writes."""
        for number in range(self.plan.rounds):
            figures: dict[int, tuple[float, ...]] = {}
            for place in (0, 1) if number % 2 == 0 else (1, 0):
                os.sync()
                figures[place] = measure(sides[place], number)
            for index, row in enumerate(rows):
                row.rounds.append((figures[0][index], figures[1][index]))
            told = " · ".join(f"{short(row.rounds[-1][0])} / {short(row.rounds[-1][1])} {row.unit}" for row in rows)
            self.plan.say(f"{rows[0].key}: round {number + 1} of {self.plan.rounds}: {told}")

    def warm_up(self, sides: Sides, measure: Callable[[Side, int], tuple[float, ...]]) -> None:
        """Two runs that do not count, for the sake of Java's compiler; the same for both."""
        for number in (-2, -1):
            for side in sides:
                self.plan.say(f"warming up {side.name}")
                os.sync()
                measure(side, number)


def produce(
    bench: Bench,
    kind: str,
    title: str,
    mark: float,
    cpu_mark: float,
    *,
    in_requests: bool,
    is_idempotent: bool = False,
) -> list[Row]:
    unit = "requests/s" if in_requests else "MB/s"
    key = f"produce-{kind}-idempotent" if is_idempotent else f"produce-{kind}"
    rate = Row(key, title, unit, mark, more_is_better=True)
    cpu = Row(f"{key}-cpu", f"{title}: broker's CPU", "CPU-s per GB", cpu_mark, more_is_better=False)
    load = bench.loads.produce_idempotently if is_idempotent else bench.loads.produce
    seconds = bench.plan.seconds(6 if in_requests else 10)

    def measure(side: Side, number: int) -> tuple[float, ...]:
        topic = f"p{kind}-{number}"
        side.create(topic, PARTITIONS)
        seen = load(side, topic, kind, seconds, bench.plan.share(ROUND_BYTES))
        side.delete(topic)
        rate.details.append({"side": side.name, **seen})
        per_s = seen["requests_per_s"] if in_requests else seen["sent_mb_per_s"]
        return per_s, seen["broker_cpu_s"] / seen["total_bytes"] * GB

    with bench.sides() as sides:
        bench.warm_up(sides, measure)
        rate.details.clear()
        bench.rounds(sides, [rate, cpu], measure)
    return [rate, cpu]


def produce_1k(bench: Bench) -> list[Row]:
    title = "produce 1 KB unbatched, 4 connections × 5"
    return produce(bench, "1k", title, 2.0, 0.35, in_requests=True)


def produce_64k(bench: Bench) -> list[Row]:
    return produce(bench, "64k", "produce 64 KB batches of 100-byte records", 3.0, 0.25, in_requests=False)


def produce_1k_idempotent(bench: Bench) -> list[Row]:
    """As Java's clients produce unless told otherwise; the marks are our own."""
    return produce(
        bench, "1k", "produce 1 KB unbatched, idempotent producers", 1.0, 1.0, in_requests=True, is_idempotent=True
    )


def fetch_1m(bench: Bench) -> list[Row]:
    title = "fetch 1 MB answers, 4 connections"
    rate = Row("fetch-1m", title, "MB/s", 1.2, more_is_better=True)
    cpu = Row("fetch-1m-cpu", f"{title}: broker's CPU", "CPU-s per GB", 0.8, more_is_better=False)

    def measure(side: Side, _: int) -> tuple[float, ...]:
        seen = bench.loads.fetch(side, "fetched", bench.plan.seconds(3))
        rate.details.append({"side": side.name, **seen})
        return seen["received_mb_per_s"], seen["broker_cpu_s"] / seen["total_bytes"] * GB

    with bench.sides() as sides:
        for side in sides:
            side.create("fetched", PARTITIONS)
            bench.loads.produce(side, "fetched", "64k", 1, 64_000_000)
        bench.warm_up(sides, measure)
        rate.details.clear()
        bench.rounds(sides, [rate, cpu], measure)
    return [rate, cpu]


def rdkafka(bench: Bench) -> list[Row]:
    sent = Row("rdkafka-produce", "produce 100-byte records, librdkafka", "records/s", 0.95, more_is_better=True)
    got = Row("rdkafka-consume", "consume 100-byte records, librdkafka", "records/s", 0.95, more_is_better=True)
    records = bench.plan.share(6_000_000)

    def measure(side: Side, number: int) -> tuple[float, ...]:
        topic = f"rd-{number}"
        side.create(topic, PARTITIONS)
        sending = bench.loads.rdkafka(side, "produce", topic, records, 100)
        getting = bench.loads.rdkafka(side, "consume", topic, records)
        side.delete(topic)
        sent.details.append({"side": side.name, **sending})
        got.details.append({"side": side.name, **getting})
        return sending["records_per_s"], getting["records_per_s"]

    with bench.sides() as sides:
        bench.warm_up(sides, measure)
        sent.details.clear()
        got.details.clear()
        bench.rounds(sides, [sent, got], measure)
    return [sent, got]


def latency(bench: Bench) -> list[Row]:
    title = "end to end at 10,000 records/s, librdkafka: p99"
    row = Row("latency-p99", title, "ms", 0.7, more_is_better=False)

    def measure(side: Side, number: int) -> tuple[float, ...]:
        topic = f"lat-{number}"
        side.create(topic, PARTITIONS)
        seen = bench.loads.rdkafka(side, "latency", topic, 10_000, bench.plan.seconds(2), bench.plan.seconds(10))
        side.delete(topic)
        row.details.append({"side": side.name, **seen})
        return (seen["p99_ms"],)

    with bench.sides() as sides:
        bench.warm_up(sides, measure)
        row.details.clear()
        bench.rounds(sides, [row], measure)
    return [row]


def launch(bench: Bench) -> list[Row]:
    """On a directory that is formatted and has the topic; the last shutdown was clean."""
    row = Row("launch", "launch to first acknowledged produce", "s", 0.3, more_is_better=False)

    def measure(side: Side, _: int) -> tuple[float, ...]:
        took = first_acknowledged(side, "first")
        side.stop()
        return (took,)

    with bench.sides() as sides:
        for side in sides:
            side.create("first", PARTITIONS)
            side.stop()
        bench.rounds(sides, [row], measure)
    return [row]


def launch_after_kill(bench: Bench) -> list[Row]:
    amount = bench.plan.share(3_000_000_000)
    name = f"the same after kill -9 with {amount / GB:g} GB in 4 partitions"
    row = Row("launch-after-kill", name, "s", 0.3, more_is_better=False)

    def measure(side: Side, _: int) -> tuple[float, ...]:
        took = first_acknowledged(side, "held")
        side.kill()
        return (took,)

    with bench.sides() as sides:
        for side in sides:
            bench.plan.say(f"giving {side.name} {amount / GB:g} GB")
            side.create("held", PARTITIONS)
            bench.loads.produce(side, "held", "64k", 60, amount)
            side.kill()
        bench.rounds(sides, [row], measure)
    return [row]


def memory(bench: Bench) -> list[Row]:
    """Idle: ready for five seconds, nobody connected since. After: the same process, once all of it went through."""
    amount = bench.plan.share(10_000_000_000)
    idle = Row("rss-idle", "VmRSS idle", "MB", 0.25, more_is_better=False)
    after = Row("rss-after", f"VmRSS after {amount / GB:g} GB", "MB", 0.2, more_is_better=False)
    with bench.sides() as sides:
        time.sleep(5)
        idle.rounds.append((sides[0].resident_mb(), sides[1].resident_mb()))
        for side in sides:
            left, number = amount, 0
            while left > 0:
                bench.plan.say(f"{side.name}: {left / GB:.1f} GB of {amount / GB:g} GB to go")
                topic = f"through-{number}"
                side.create(topic, PARTITIONS)
                seen = bench.loads.produce(side, topic, "64k", 20, min(left, ROUND_BYTES))
                side.delete(topic)
                os.sync()
                left -= seen["total_bytes"]
                number += 1
        after.rounds.append((sides[0].resident_mb(), sides[1].resident_mb()))
    return [idle, after]


def flat_partitions(bench: Bench) -> list[Row]:
    """Two of ours: one has 10 partitions, one 5,000; both get the load on the same four."""
    many = bench.plan.share(5_000)
    row = Row(
        "flat-partitions",
        f"produce 1 KB with {many:,} partitions / with 10",
        "requests/s",
        0.9,
        more_is_better=True,
        labels=(f"{many:,} partitions", "10 partitions"),
        spread_counts=True,
    )
    ours = bench.kinds[0]

    def measure(side: Side, _: int) -> tuple[float, ...]:
        seen = bench.loads.produce(side, "loaded", "1k", bench.plan.seconds(4), bench.plan.share(ROUND_BYTES))
        row.details.append({"side": side.name, **seen})
        return (seen["requests_per_s"],)

    with bench.sides(kinds=(ours, ours)) as sides:
        for side, others in zip(sides, (many, 10), strict=True):
            side.create("loaded", PARTITIONS)
            bench.plan.say(f"making {others:,} partitions")
            side.create("idle", others - PARTITIONS)
            settle(side)
        bench.warm_up(sides, measure)
        row.details.clear()
        bench.rounds(sides, [row], measure)
    return [row]


def flat_clients(bench: Bench) -> list[Row]:
    """Two of ours: one has 1,000 clients that are connected and silent, one has a single one."""
    many = bench.plan.share(1_000)
    row = Row(
        "flat-clients",
        f"produce 1 KB with {many:,} idle clients / with 1",
        "requests/s",
        0.9,
        more_is_better=True,
        labels=(f"{many:,} idle clients", "1 idle client"),
        spread_counts=True,
    )
    ours = bench.kinds[0]

    def measure(side: Side, _: int) -> tuple[float, ...]:
        seen = bench.loads.produce(side, "loaded", "1k", bench.plan.seconds(4), bench.plan.share(ROUND_BYTES))
        row.details.append({"side": side.name, **seen})
        return (seen["requests_per_s"],)

    with bench.sides(kinds=(ours, ours)) as sides, ExitStack() as clients:
        for side, count in zip(sides, (many, 1), strict=True):
            side.create("loaded", PARTITIONS)
            clients.enter_context(IdleClients(side, count))
        bench.warm_up(sides, measure)
        row.details.clear()
        bench.rounds(sides, [row], measure)
    return [row]


MEASUREMENTS: dict[str, Callable[[Bench], list[Row]]] = {
    "produce-1k": produce_1k,
    "produce-1k-idempotent": produce_1k_idempotent,
    "produce-64k": produce_64k,
    "fetch-1m": fetch_1m,
    "rdkafka": rdkafka,
    "latency": latency,
    "launch": launch,
    "launch-after-kill": launch_after_kill,
    "memory": memory,
    "flat-partitions": flat_partitions,
    "flat-clients": flat_clients,
    "commits": coordinators.commits,
    "transactions": coordinators.transactions,
    "group-classic": coordinators.classic_group,
    "group-consumer": coordinators.consumer_group,
    "clusters": clusters,
}
