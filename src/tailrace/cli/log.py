"""`tailrace log`: looking at the files of a log. What the commands do is loaded only when one is run."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from tailrace.cli.command import Subparsers

WRONG_USAGE: Final = 2

DUMP_DESCRIPTION: Final = """\
Show what the files of a log hold: Tailrace's own or Apache Kafka's, which are the same.

Give files, a partition's directory, or a whole log.dirs directory. Nothing is written or locked, so a running
broker is not disturbed. A terminal gets tables, a pipe gets lines of key=value.
"""

DUMP_EXAMPLES: Final = """\
examples:
  tailrace log dump data/orders-0                       everything about one partition
  tailrace log dump data/orders-0/*.log --records       the records, with keys, values and headers
  tailrace log dump data/orders-0/*.timeindex           which timestamp is at which offset
  tailrace log dump data/recovery-point-offset-checkpoint
  tailrace log dump data/orders-0 --limit 3             the beginning of each file
  tailrace log dump data/orders-0 --records --json | jq -r 'select(.type == "record") | .value'

A record's bytes are shown as text where they are UTF-8 and escaped otherwise; with --json, bytes that are not UTF-8
are null with a key_base64 or value_base64 beside it. The exit code is 1 when a file could not be read to its end.
"""

VERIFY_DESCRIPTION: Final = """\
Read every byte of a log and hold its files against each other.

Checked are the length, magic and CRC of every batch, the order of offsets in and across segments, each entry of the
offset, time and transaction indexes, leader epochs, producer snapshots and checkpoints. Nothing is written or locked.
"""

VERIFY_EXAMPLES: Final = """\
examples:
  tailrace log verify data/orders-0                     one partition
  tailrace log verify data                              every partition in a log.dirs directory
  tailrace log verify data --json | jq 'select(.severity == "error")'

An error means that bytes contradict the format or each other: the exit code is 1. A note is worth knowing and
harmless, such as files that are about to be deleted. Indexes may lag behind a log that is being written.
"""


def register(subparsers: Subparsers) -> None:
    group = subparsers.add_parser("log", help="look at a log's files", description="Look at a log's files.")
    group.set_defaults(handler=lambda _: show_help(group))
    commands = group.add_subparsers(title="commands", metavar="command")
    register_dump(commands)
    register_verify(commands)


def register_dump(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "dump",
        help="show what is in batches, records, indexes, snapshots and checkpoints",
        description=DUMP_DESCRIPTION,
        epilog=DUMP_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="+", metavar="FILE|DIR", help="a log's file, or a directory of them")
    parser.add_argument("--records", action="store_true", help="show the records in each batch")
    parser.add_argument("--json", action="store_true", help="one JSON object per line, with keys that stay")
    parser.add_argument("--limit", type=positive, metavar="N", help="at most N batches or entries of each file")
    parser.set_defaults(handler=run_dump)


def register_verify(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "verify",
        help="check that everything in a log's files holds together",
        description=VERIFY_DESCRIPTION,
        epilog=VERIFY_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directories", nargs="+", metavar="DIR", help="a partition's directory, or one that holds such")
    parser.add_argument("--json", action="store_true", help="one JSON object per line: each finding, then a summary")
    parser.set_defaults(handler=run_verify)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return int(text)


def show_help(group: argparse.ArgumentParser) -> int:
    group.print_help(sys.stderr)
    return WRONG_USAGE


def run_dump(args: argparse.Namespace) -> int:
    from tailrace.cli import log_dump

    return log_dump.run(args)


def run_verify(args: argparse.Namespace) -> int:
    from tailrace.cli import log_verify

    return log_verify.run(args)
