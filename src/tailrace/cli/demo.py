"""`tailrace demo`: a broker with orders streaming through it. What it does is loaded only when it is run."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.output import CommandError
from tailrace.cli.remote_args import at_least_one

DESCRIPTION: Final = """\
Start a broker, stream generated orders through it, and show how fast they come out again.

The broker is a real one, on localhost:9092 for every client of Kafka's, until Ctrl-C. Each order is counted: none may
be lost, come twice or overtake another. Kill the broker and see: it is started again, and the stream goes on.
Where Spark is installed (tailrace[spark]), a streaming query counts the orders too, while they arrive, and with
tailrace[tables] they go into a Delta table, of which SQL makes a summary. At the end the broker is stopped and every
byte that it wrote is audited, with a page of plots about it.

With --crash there is no broker: a log is written, read, crashed, recovered and proven, to show the storage alone.
"""

EXAMPLES: Final = """\
examples:
  tailrace demo                        until Ctrl-C, on localhost:9092
  tailrace demo --once                 some seconds on a free port; exit code 1 if an order is not as it should be
  tailrace demo --rate 50000           as many orders a second, or as many as this machine can do
  tailrace demo --dir data             with its data in data/, which stays
  tailrace demo --report audit.html    the page of the audit here, not in a temporary file
  tailrace demo --crash --dir data     the storage alone, in data/orders-0, which must not exist yet
"""

DEFAULT_PORT: Final = 9092
DEFAULT_RATE: Final = 10_000
DEFAULT_ORDERS: Final = 30_000


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="start a broker and stream orders through it, live",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--once", action="store_true", help="stop by itself, with a sum; takes a free port")
    parser.add_argument(
        "--port", type=port, metavar="N", help=f"where clients connect (default: {DEFAULT_PORT}; with --once any free)"
    )
    parser.add_argument(
        "--rate", type=at_least_one, default=DEFAULT_RATE, metavar="N", help="orders a second (default: %(default)s)"
    )
    parser.add_argument(
        "--orders",
        type=at_least_one,
        default=DEFAULT_ORDERS,
        metavar="N",
        help="with --once: so many (default: %(default)s)",
    )
    parser.add_argument("--dir", metavar="DIR", help="where the data is (default: a new temporary directory)")
    parser.add_argument("--crash", action="store_true", help="the storage alone: write, read, crash and recover a log")
    parser.add_argument("--no-spark", action="store_true", help="without Spark: no count, no table, no audit")
    parser.add_argument("--report", metavar="FILE", help="where the page of the audit goes (default: a temporary file)")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.set_defaults(handler=run)


def port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; write a number from 1 to 65535")
    return int(text)


def run(args: argparse.Namespace) -> int:
    if args.crash:
        if args.once or args.json or args.port is not None or args.report is not None:
            raise CommandError("--crash goes with --dir only: it needs no port and ends by itself", "drop the others")
        from tailrace.cli import crash_show

        return crash_show.run(args.dir)
    from tailrace.cli import demo_run

    wanted_port = args.port if args.port is not None else 0 if args.once else DEFAULT_PORT
    most_orders = args.orders if args.once else None
    return demo_run.run(
        demo_run.Wishes(
            wanted_port,
            args.rate,
            most_orders,
            args.dir,
            args.json,
            counts_with_spark=not args.no_spark,
            report=args.report,
        )
    )
