"""`tailrace demo`: a log's life in two seconds. What it does is loaded only when it is run."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers

DESCRIPTION: Final = """\
Write a log, read it, crash it, recover it, and show what happened.

Everything is real: files on this disk in Apache Kafka's format, every batch validated as a broker would. The log
stays where it was written, so that you can look at it afterwards.
"""

EXAMPLES: Final = """\
examples:
  tailrace demo                      in a new temporary directory
  tailrace demo --dir data           in data/orders-0, which must not exist yet
  tailrace log dump data/orders-0    what it left behind
"""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="write, read, crash and recover a log, and show it",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dir", metavar="DIR", help="where the log is made (default: a new temporary directory)")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    from tailrace.cli import demo_show

    return demo_show.run(args.dir)
