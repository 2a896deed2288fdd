"""`make bench-spark`: Spark reading and writing topics, beside Spark on uncompressed Parquet files of the same rows.

    python benchmarks/spark_run.py [--rows N] [--rounds N] [--only NAME,…] [--quick] [--folder DIR] [--no-docs]
    python benchmarks/spark_run.py --lag-minutes 10     how far a table is behind a topic that grows all the time
    python benchmarks/spark_run.py --only audit         audits, beside one thread that reads the same files

Needs the extras `tailrace[spark,tables]`. A whole run takes about half an hour and up to 30 GB in the folder. With five
rounds or more and 5 million rows, sections of docs/benchmarks.md whose measurements were all made are written anew
(`spark_sections`); that of the lag by ten minutes of it. Marks that are not reached are shown as they are; the exit
code tells only whether the run was complete.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

import peer_report
import spark_audit_rows
import spark_data
import spark_report
import spark_table_lag
import spark_table_rows
from peer_row import Row
from peers_run import say_to
from spark_rows import MEASUREMENTS, SINK_SHARE, SINK_TOPIC, WARM_UPS, Bench
from tailrace.record import kernels
from tailrace.testing.broker import Broker

RESULTS = Path(__file__).resolve().parents[1] / "build" / "bench-spark.json"
ROWS = 5_000_000
QUICK_ROWS = 100_000
DOCUMENTED_LAG_MINUTES = 10
BROKER_SETTINGS = {"log.retention.ms": -1, "log.initial.task.delay.ms": 3_600_000}
SPARK_SETTINGS = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": 2}
AUDIT = "audit"
LAG = "lag"
NAMES = (*MEASUREMENTS, AUDIT)


def main() -> int:
    parser = argparse.ArgumentParser(description="Spark on topics, beside Spark on Parquet files.")
    parser.add_argument("--rows", type=int, help=f"{ROWS:,} unless told")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(NAMES), help=f"some of: {', '.join(NAMES)}")
    parser.add_argument(
        "--audit-mb", type=int, help=f"of each topic for audits; {spark_audit_rows.SIZE_MB} unless told"
    )
    parser.add_argument("--audit-large-gb", type=float, help="of the audit that tells how much memory one takes")
    parser.add_argument("--quick", action="store_true", help="one short round: tries the runner, measures nothing")
    parser.add_argument("--lag-minutes", type=float, help="measure only how far a table is behind, for so long")
    parser.add_argument("--folder", type=Path, help="where rows are written; a temporary folder otherwise")
    parser.add_argument("--json", type=Path, default=RESULTS, help=f"where to write all figures ({RESULTS.name})")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/ alone whatever was measured")
    args = parser.parse_args()
    wanted = args.only.split(",")
    unknown = [key for key in wanted if key not in NAMES]
    rows = args.rows or (QUICK_ROWS if args.quick else ROWS)
    if unknown or args.rounds < 1 or rows < 10_000:
        parser.error(f"some of {', '.join(NAMES)}; at least one round, and 10,000 rows")
    if args.lag_minutes is not None and args.lag_minutes < 0.5:
        parser.error("half a minute of lag at least")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the broker and Spark are ended
    console = Console(width=None if sys.stdout.isatty() else 130)
    rounds, warm_ups = (1, 0) if args.quick else (args.rounds, WARM_UPS)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        facts = facts_of_this_run(rows, rounds) | {"lag_minutes": args.lag_minutes}
        if args.lag_minutes is not None:
            found, failures = measured_lag(Path(folder), args.lag_minutes, console)
        else:
            found, failures = measured(Path(folder), rows, rounds, warm_ups, wanted, console)
            if AUDIT in wanted:
                size_mb = args.audit_mb or (spark_audit_rows.QUICK_MB if args.quick else spark_audit_rows.SIZE_MB)
                large_gb = args.audit_large_gb or (2 if args.quick else spark_audit_rows.LARGE_GB)
                say = say_to(console)
                try:
                    found[AUDIT] = spark_audit_rows.audits(Path(folder), size_mb, large_gb, rounds, warm_ups, say)
                except Exception as error:  # what Spark raises is of many kinds
                    failures.append(AUDIT)
                    console.print(f"[red]{AUDIT} failed:[/red] {error}", highlight=False)
    if args.quick:
        console.print("[yellow]quick: these figures mean nothing[/yellow]")
    every = [row for rows_of_one in found.values() for row in rows_of_one]
    console.print(spark_report.table(every))
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"facts": facts, "rows": [peer_report.as_json(row) for row in every]}, indent=1))
    console.print(f"all figures: {args.json}")
    if not args.no_docs:
        for path in documented(args, found, facts):
            console.print(f"written: {path}")
    return 1 if failures else 0


def documented(args: argparse.Namespace, found: dict[str, list[Row]], facts: dict[str, Any]) -> list[Path]:
    """What was measured as it has to be for the page."""
    if args.lag_minutes is not None:
        is_long = args.lag_minutes >= DOCUMENTED_LAG_MINUTES
        return spark_report.write_lag_docs(found[LAG], facts) if is_long and LAG in found else []
    is_small = args.audit_mb is not None or args.audit_large_gb is not None
    found = {key: rows for key, rows in found.items() if key != AUDIT or not is_small}
    return spark_report.write_docs(found, facts) if facts["rounds"] >= 5 and facts["rows"] >= ROWS else []


def measured(
    folder: Path, count: int, rounds: int, warm_ups: int, wanted: list[str], console: Console
) -> tuple[dict[str, list[Row]], list[str]]:
    """One that fails does not keep the others from being measured."""
    from tailrace.spark import session

    rows: dict[str, list[Row]] = {}
    failures: list[str] = []
    wanted = [key for key in wanted if key in MEASUREMENTS]
    if not wanted:
        return rows, failures
    with Broker(BROKER_SETTINGS, data_dir=folder / "broker") as broker:
        spark = session("bench", "local[2]", SPARK_SETTINGS, progress=False)
        try:
            bench = Bench(spark, broker, folder, count, rounds, warm_ups, say_to(console))
            broker.create_topic(SINK_TOPIC, spark_data.PARTITIONS)
            bench.prepare(with_segments="segments" in wanted)
            for key in wanted:
                try:
                    rows[key] = MEASUREMENTS[key](bench)
                except Exception as error:  # what Spark raises is of many kinds
                    failures.append(key)
                    console.print(f"[red]{key} failed:[/red] {error}", highlight=False)
        finally:
            spark.stop()
    return rows, failures


def measured_lag(folder: Path, minutes: float, console: Console) -> tuple[dict[str, list[Row]], list[str]]:
    from tailrace.spark import session

    with Broker(BROKER_SETTINGS, data_dir=folder / "broker") as broker:
        spark = session("bench", "local[2]", SPARK_SETTINGS, progress=False)
        try:
            return {LAG: spark_table_lag.lag(Bench(spark, broker, folder, 0, 1, 0, say_to(console)), minutes)}, []
        except Exception as error:
            console.print(f"[red]{LAG} failed:[/red] {error}", highlight=False)
            return {}, [LAG]
        finally:
            spark.stop()


def facts_of_this_run(rows: int, rounds: int) -> dict[str, Any]:
    import pyspark

    sunk = int(rows * SINK_SHARE)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "rows": rows,
        "rows_of": {
            **dict.fromkeys(("files", "brokers", "segments"), rows),
            **dict.fromkeys(("at-least-once", "exactly-once"), sunk),
            **dict.fromkeys((spark_table_rows.FROM_FILES, spark_table_rows.FROM_BROKERS), rows),
        },
        "partitions": spark_data.PARTITIONS,
        "rounds": rounds,
        "warm_ups": WARM_UPS,
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "kernels": "compiled" if kernels.COMPILED else "interpreted",
        "cores": os.cpu_count(),
        "load_average": [round(value, 1) for value in os.getloadavg()],
    }


if __name__ == "__main__":
    sys.exit(main())
