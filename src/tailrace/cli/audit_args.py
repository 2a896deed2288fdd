"""`tailrace pipeline audit`: its options. Light: Spark is loaded when it is run."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.durations import duration_ms
from tailrace.cli.remote_args import add_command
from tailrace.cli.spark_args import add_spark

DESCRIPTION: Final = """\
Read every byte of log directories and hold it against every rule: CRC of each batch, each record, offsets, indexes,
snapshots, epochs, sequences of producers, transactions and their markers, compaction, replicas against each other.

Directories of Tailrace and of Kafka, of one broker or of all, in use or copied. Nothing in them is changed. What a
broker is writing meanwhile is not judged; what goes away is said to be gone, not broken. Directories of the brokers of
one cluster given together are compared: batch by batch, by offset.

A finding has a file, an offset, a rule and a sentence; --list-rules has the rules. Errors are damage or loss, warnings
want a look. Notes are no faults, and are shown with --notes.

Segments that are not written any more and were audited before are not read again where --state names a folder: an
audit that was stopped goes on where it was.

exit codes: 0 nothing found, or notes only; 1 errors or warnings; 2 it could not be done, or wrong usage
"""

EXAMPLES: Final = """\
examples:
  tailrace pipeline audit data                               a broker's log directory
  tailrace pipeline audit data/orders-0                      one partition
  tailrace pipeline audit disk1 disk2 /data/broker2          several disks, several brokers of a cluster
  tailrace pipeline audit data --report audit.html           with plots, in one file for any browser
  tailrace pipeline audit data --state .audit                again tomorrow: only what is new is read
  tailrace pipeline audit data --topic orders --notes
  tailrace pipeline audit data --rules crc,offset-gap        these rules only
  tailrace pipeline audit data --no-replicas --no-superseded  without what has to be shuffled
  tailrace pipeline audit data --json | jq 'select(.type == "finding") | .file'
  tailrace pipeline audit /shared/kafka --master spark://host:7077
  tailrace pipeline audit --list-rules

docs/audit.md tells it all.
"""


def register(commands: Subparsers) -> None:
    title = "check all the data of log directories"
    parser = add_command(commands, "audit", title, DESCRIPTION, EXAMPLES, run)
    parser.add_argument(
        "paths", metavar="DIR", nargs="*", help="a log directory, or the folder of a partition; as many as you like"
    )
    what = parser.add_argument_group("what is checked")
    what.add_argument(
        "--topic", metavar="TOPIC", action="append", help="only this one, * and ? stand for any; may be repeated"
    )
    what.add_argument("--rules", type=names, metavar="RULES", help="only these, with commas between them")
    what.add_argument("--no-superseded", action="store_true", help="do not look for keys that compaction left")
    what.add_argument("--no-replicas", action="store_true", help="do not compare replicas with each other")
    what.add_argument(
        "--max-transaction",
        type=duration_ms,
        metavar="SPAN",
        help="the brokers' transaction.max.timeout.ms: what is open for longer hangs (default: 15m)",
    )
    what.add_argument("--list-rules", action="store_true", help="print what is checked, and end")
    how = parser.add_argument_group("running")
    how.add_argument("--state", metavar="DIR", help="remember here what was audited; it must not be in a log directory")
    add_spark(how)
    output = parser.add_argument_group("output")
    output.add_argument("--report", metavar="FILE", help="write an HTML page with plots and all findings")
    output.add_argument("--notes", action="store_true", help="show notes, too")
    output.add_argument("--json", action="store_true", help="one JSON object per line: findings, then a summary")


def names(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of rules; write them with commas: crc,offset-gap")
    return found


def run(args: argparse.Namespace) -> int:
    from tailrace.cli import audit_run

    return audit_run.run(args)
