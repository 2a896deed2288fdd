"""`make bench`: every row of every benchmark, as ratios within one run.

    python benchmarks/run.py [--json] [--folder DIR] [ROW …]

A row below its mark is printed like the others, with `below` behind it; the exit code is 0 either way: timing on a
shared machine is something to read, not a gate.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

import compaction
import loading
import storage
from tailrace.record import kernels

ROWS = storage.ROWS | loading.ROWS | compaction.ROWS


def main() -> int:
    parser = argparse.ArgumentParser(description="Benchmarks as ratios within one run: five rounds, median and spread.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"only these rows: {', '.join(ROWS)}")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder otherwise")
    args = parser.parse_args()
    unknown = [row for row in args.rows if row not in ROWS]
    if unknown:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    console = Console(stderr=args.json, width=130)
    table = Table(title=f"storage engine, kernels {'compiled' if kernels.COMPILED else 'interpreted'}")
    for column in ("row", "ours", "bare", "ratio, median (spread)", "mark", ""):
        table.add_column(column)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder, console.status("") as status:
        for key in args.rows or ROWS:
            status.update(key)
            row = ROWS[key](Path(folder))
            table.add_row(row.name, row.ours, row.bare, row.result, row.mark, "" if row.holds else "below")
            if args.json:
                print(json.dumps({"key": key, **asdict(row)}))
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
