"""`tailrace txn`: transactions of a cluster. What the commands do is loaded only when one is run."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.durations import duration_ms
from tailrace.cli.group import topic_partitions
from tailrace.cli.remote_args import add_command, add_connection, add_group, not_negative

DEFAULT_AGE_MS: Final = 900_000

LIST_DESCRIPTION: Final = """\
List the transactional ids of a cluster, with the state of the last transaction of each.
"""

LIST_EXAMPLES: Final = """\
examples:
  tailrace txn list
  tailrace txn list --state Ongoing --longer-than 10m   those that take long
  tailrace txn list --match 'copier-.*'                 by a pattern of the whole id
  tailrace txn list --json | jq -r .id

States: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead, PrepareEpochFence.
"""

DESCRIBE_DESCRIPTION: Final = """\
Show transactional ids: their producer, the state of the last transaction, how long it is open, and its partitions.
"""

DESCRIBE_EXAMPLES: Final = """\
examples:
  tailrace txn describe copier-1
  tailrace txn describe copier-1 --json | jq .partitions
"""

PRODUCERS_DESCRIPTION: Final = """\
Show the producers that the partitions of a topic remember: the idempotent ones, and those with transactions.

An open transaction holds readers under read_committed at its first offset, which is shown.
"""

PRODUCERS_EXAMPLES: Final = """\
examples:
  tailrace txn producers orders
  tailrace txn producers orders:0,2 --open              only those with an open transaction
"""

HANGING_DESCRIPTION: Final = """\
Find transactions that hang: a partition has them open, but their coordinator does not know of them, so that nobody will
ever end them, and readers under read_committed wait for ever. Nothing is changed; the command that ends each is shown.
"""

HANGING_EXAMPLES: Final = """\
examples:
  tailrace txn find-hanging                             in all topics
  tailrace txn find-hanging --topic orders --topic payments:0,1
  tailrace txn find-hanging --older-than 2h --json

Only those are looked at that have been silent for longer than --older-than; choose it not shorter than the brokers'
transaction.max.timeout.ms, or a transaction that is about to begin may be taken for one that hangs.
"""

ABORT_DESCRIPTION: Final = """\
End a transaction by force. There is no way back, so it asks first.

With an id, its coordinator aborts what is open, and the producer that has the id is fenced: it fails, and must be
started again. With --topic, --partition and --start-offset a transaction that hangs is ended on its one partition,
without its coordinator: see `tailrace txn find-hanging`. Never do that to one that does not hang.
"""

ABORT_EXAMPLES: Final = """\
examples:
  tailrace txn abort copier-1
  tailrace txn abort --topic orders --partition 2 --start-offset 1500
"""


def register(subparsers: Subparsers) -> None:
    commands = add_group(subparsers, "txn", "list, describe and abort transactions, find those that hang")
    register_list(commands)
    register_describe(commands)
    register_producers(commands)
    register_hanging(commands)
    register_abort(commands)


def register_list(commands: Subparsers) -> None:
    title = "list the transactional ids"
    parser = add_command(commands, "list", title, LIST_DESCRIPTION, LIST_EXAMPLES, run_list)
    parser.add_argument("--state", action="append", default=[], metavar="S", help="in this state; may be repeated")
    parser.add_argument(
        "--longer-than", type=duration_ms, metavar="SPAN", help="with a transaction open for longer: 90s, 10m, 2h"
    )
    parser.add_argument("--match", metavar="REGEX", help="whose whole id matches this (needs Kafka 4.1 or later)")
    add_connection(parser)


def register_describe(commands: Subparsers) -> None:
    title = "show a producer's transaction and its partitions"
    parser = add_command(commands, "describe", title, DESCRIBE_DESCRIPTION, DESCRIBE_EXAMPLES, run_describe)
    parser.add_argument("ids", nargs="+", metavar="ID", help="a transactional id")
    add_connection(parser)


def register_producers(commands: Subparsers) -> None:
    title = "show the producers that partitions remember"
    parser = add_command(commands, "producers", title, PRODUCERS_DESCRIPTION, PRODUCERS_EXAMPLES, run_producers)
    parser.add_argument(
        "topic", type=topic_partitions, metavar="TOPIC", help="a topic, or partitions of it: orders:0,2"
    )
    parser.add_argument("--open", action="store_true", help="only those with an open transaction")
    add_connection(parser)


def register_hanging(commands: Subparsers) -> None:
    title = "find transactions that nobody will end"
    parser = add_command(commands, "find-hanging", title, HANGING_DESCRIPTION, HANGING_EXAMPLES, run_hanging)
    parser.add_argument(
        "--topic",
        type=topic_partitions,
        action="append",
        metavar="T",
        help="only in this topic, or in partitions of it: T:0,2; may be repeated",
    )
    parser.add_argument(
        "--older-than",
        type=duration_ms,
        default=DEFAULT_AGE_MS,
        metavar="SPAN",
        help="silent for longer than this (default: 15m)",
    )
    add_connection(parser)


def register_abort(commands: Subparsers) -> None:
    title = "end a transaction by force"
    parser = add_command(commands, "abort", title, ABORT_DESCRIPTION, ABORT_EXAMPLES, run_abort)
    parser.add_argument("id", nargs="?", metavar="ID", help="a transactional id")
    parser.add_argument("--topic", metavar="T", help="where one hangs: its topic")
    parser.add_argument("--partition", type=not_negative, metavar="N", help="its partition")
    parser.add_argument("--start-offset", type=not_negative, metavar="N", help="its first offset there")
    parser.add_argument("--yes", action="store_true", help="without being asked")
    add_connection(parser)


def run_list(args: argparse.Namespace) -> int:
    from tailrace.cli import txn_run

    return txn_run.run_list(args)


def run_describe(args: argparse.Namespace) -> int:
    from tailrace.cli import txn_run

    return txn_run.run_describe(args)


def run_producers(args: argparse.Namespace) -> int:
    from tailrace.cli import txn_run

    return txn_run.run_producers(args)


def run_hanging(args: argparse.Namespace) -> int:
    from tailrace.cli import txn_hanging

    return txn_hanging.run_find(args)


def run_abort(args: argparse.Namespace) -> int:
    from tailrace.cli import txn_hanging

    return txn_hanging.run_abort(args)
