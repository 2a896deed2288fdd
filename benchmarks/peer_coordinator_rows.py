"""Rows about the coordinators: committed offsets, transactions, groups that form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peer_loads import PARTITIONS
from peer_row import Row

if TYPE_CHECKING:
    from peer_rows import Bench
    from peer_sides import Side

MEMBERS = 10
GROUPS = 8
PRODUCERS = 4


def commits(bench: Bench) -> list[Row]:
    """One offset a request, 4 connections × 5, a group each."""
    rate = Row("commits", "commits of one offset, 4 connections × 5", "commits/s", 1.0, more_is_better=True)

    def measure(side: Side, _: int) -> tuple[float, ...]:
        seen = bench.loads.commit(side, "committed", bench.plan.seconds(5))
        rate.details.append({"side": side.name, **seen})
        return (seen["requests_per_s"],)

    with bench.sides() as sides:
        for side in sides:
            side.create("committed", PARTITIONS)
            side.create("first", 1)
            bench.loads.confluent(side, "join", "first", "classic", "1", "1")  # so that the topic of offsets is there
        bench.warm_up(sides, measure)
        rate.details.clear()
        bench.rounds(sides, [rate], measure)
    return [rate]


def transactions(bench: Bench) -> list[Row]:
    title = f"transactions of 10 records, {PRODUCERS} producers"
    rate = Row("transactions", title, "transactions/s", 1.0, more_is_better=True)

    def measure(side: Side, _: int) -> tuple[float, ...]:
        seconds = bench.plan.seconds(5)
        seen = bench.loads.confluent(side, "transactions", "transacted", str(PRODUCERS), f"{seconds:g}")
        rate.details.append({"side": side.name, **seen})
        return (seen["transactions_per_s"],)

    with bench.sides() as sides:
        for side in sides:
            side.create("transacted", PRODUCERS)
        bench.warm_up(sides, measure)
        rate.details.clear()
        bench.rounds(sides, [rate], measure)
    return [rate]


def classic_group(bench: Bench) -> list[Row]:
    return _group(bench, "classic")


def consumer_group(bench: Bench) -> list[Row]:
    return _group(bench, "consumer")


def _group(bench: Bench, protocol: str) -> list[Row]:
    """Both brokers take heartbeats ten times a second: by default waiting for the next one hides everything else."""
    title = f"a group of {MEMBERS} joins and is stable, {protocol} protocol"
    row = Row(f"group-{protocol}", title, "s", 1.0, more_is_better=False)

    def measure(side: Side, _: int) -> tuple[float, ...]:
        seen = bench.loads.confluent(side, "join", "joined", protocol, str(MEMBERS), str(bench.plan.share(GROUPS) or 1))
        row.details.append({"side": side.name, **seen})
        return (seen["seconds"],)

    with bench.sides() as sides:
        for side in sides:
            side.create("joined", MEMBERS)
        bench.warm_up(sides, measure)
        row.details.clear()
        bench.rounds(sides, [row], measure)
    return [row]
