"""`make bench-peers`: the same load against Tailrace and a real Kafka 4.3.1, alternating.

    python benchmarks/peers_run.py [--rows ROW,…] [--rounds N] [--quick] [--sides A,B] [--folder DIR] [--no-docs]

Needs Java 17, a C compiler, and librdkafka (the one in confluent-kafka, or the system's). A whole run takes about
40 minutes and up to 10 GB in the folder. One with all rows and five rounds or more writes its table and plot
into docs/, one with the rows of clusters and three rounds or more their table; `--sides kafka,kafka` shows how far
two equal brokers seem to differ here. Rows that are not reached are shown as they are; the exit code tells only
whether the run was complete.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

import peer_report
from kafka_peer import why_unavailable
from peer_loads import Loads
from peer_row import Row
from peer_rows import MEASUREMENTS, Bench, Plan
from peer_sides import HEAP, SETTINGS, SIDES
from tailrace.record import kernels

RESULTS = Path(__file__).resolve().parents[1] / "build" / "bench-peers.json"


def main() -> int:
    parser = argparse.ArgumentParser(description="The same load against Tailrace and a real Kafka 4.3.1, alternating.")
    parser.add_argument("--rows", default=",".join(MEASUREMENTS), help=f"some of: {', '.join(MEASUREMENTS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one short round: tries the runner, measures nothing")
    parser.add_argument("--sides", default="tailrace,kafka", help="which two brokers: tailrace,kafka unless told")
    parser.add_argument("--folder", type=Path, help="where the brokers write; a temporary folder otherwise")
    parser.add_argument("--json", type=Path, default=RESULTS, help=f"where to write all figures ({RESULTS.name})")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/ alone whatever was measured")
    args = parser.parse_args()
    wanted = args.rows.split(",")
    unknown = [key for key in wanted if key not in MEASUREMENTS]
    kinds = tuple(SIDES[name] for name in args.sides.split(",") if name in SIDES)
    if unknown:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(MEASUREMENTS)}")
    if len(kinds) != 2 or args.rounds < 1:
        parser.error("two sides of tailrace and kafka, and at least one round")
    missing = why_unavailable()
    if missing is not None and "kafka" in args.sides:
        print(f"error: Kafka cannot run here: {missing}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers are ended
    console = Console(width=None if sys.stdout.isatty() else 130)
    plan = Plan(1 if args.quick else args.rounds, args.quick, say_to(console))
    names = (kinds[0].name, kinds[1].name)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        loads = Loads(Path(folder))
        facts = facts_of_this_run(plan, loads, names)
        peer_report.show_facts(console, facts)
        rows, failures = measured(Bench((kinds[0], kinds[1]), Path(folder), loads, plan), wanted, console)
    console.print(peer_report.table(rows, names))
    for warning in peer_report.warnings(rows):
        console.print(f"[yellow]{warning}[/yellow]", highlight=False)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"facts": facts, "rows": [peer_report.as_json(row) for row in rows]}, indent=1))
    console.print(f"all figures: {args.json}")
    if names == ("Tailrace", "Kafka") and not failures and not args.no_docs:
        for path in written_docs(rows, wanted, plan, facts):
            console.print(f"written: {path}")
    return 1 if failures else 0


def written_docs(rows: list[Row], wanted: list[str], plan: Plan, facts: dict[str, Any]) -> list[Path]:
    """Single nodes: all rows, five rounds or more. Clusters: three rounds or more."""
    of_clusters = [row for row in rows if row.key.startswith("cluster-")]
    others = [row for row in rows if row not in of_clusters]
    paths: list[Path] = []
    if plan.rounds >= 5 and set(wanted) >= set(MEASUREMENTS) - {"clusters"}:
        paths += peer_report.write_docs(others, facts)
    if plan.rounds >= 3 and of_clusters:
        paths += peer_report.write_cluster_docs(of_clusters, facts)
    return paths


def say_to(console: Console) -> Callable[[str], None]:
    start = time.monotonic()

    def say(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - start:6.0f} s[/dim]  {text}", highlight=False, soft_wrap=True)

    return say


def measured(bench: Bench, wanted: list[str], console: Console) -> tuple[list[Row], list[str]]:
    """One that fails does not keep the others from being measured."""
    rows: list[Row] = []
    failures: list[str] = []
    for key in wanted:
        try:
            rows += MEASUREMENTS[key](bench)
        except (RuntimeError, OSError) as error:  # TimeoutError is one
            failures.append(key)
            console.print(f"[red]{key} failed:[/red] {error}", highlight=False)
    return rows, failures


def facts_of_this_run(plan: Plan, loads: Loads, names: tuple[str, str]) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "sides": names,
        "rounds": plan.rounds,
        "is_quick": plan.is_quick,
        "python": platform.python_version(),
        "kernels": "compiled" if kernels.COMPILED else "interpreted",
        "cores": os.cpu_count(),
        "load_average": [round(value, 1) for value in os.getloadavg()],
        "kafka": f"4.3.1, heap {HEAP}",
        "librdkafka": loads.librdkafka and Path(loads.librdkafka).name,
        "settings": SETTINGS,
    }


if __name__ == "__main__":
    sys.exit(main())
