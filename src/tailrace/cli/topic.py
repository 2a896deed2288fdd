"""`tailrace topic`: topics of a cluster. What the commands do is loaded only when one is run."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.remote_args import add_command, add_connection, add_group, at_least_one, key_value

LIST_DESCRIPTION: Final = """\
List the topics of a cluster.

A terminal gets a table, a pipe gets lines of key=value. A topic is healthy when each of its partitions has a leader
and all its replicas are in sync.
"""

LIST_EXAMPLES: Final = """\
examples:
  tailrace topic list
  tailrace topic list --sizes                           with records and bytes, the largest first
  tailrace topic list --internal                        with __consumer_offsets and the like
  tailrace topic list --json | jq -r .topic
"""

DESCRIBE_DESCRIPTION: Final = """\
Show topics with their partitions: leaders, replicas, offsets and sizes, and the settings that are the topic's own.
"""

DESCRIBE_EXAMPLES: Final = """\
examples:
  tailrace topic describe orders
  tailrace topic describe orders payments --json | jq 'select(.type == "partition") | .latest'

Records are counted by offsets: where a log was compacted or has transactions there are fewer.
"""

CREATE_DESCRIPTION: Final = """\
Create a topic, and wait until each of its partitions has a leader.
"""

CREATE_EXAMPLES: Final = """\
examples:
  tailrace topic create orders                          with the broker's defaults
  tailrace topic create orders --partitions 6 --config retention.ms=86400000
  tailrace topic create customers --config cleanup.policy=compact
  tailrace topic create orders --if-not-exists          for scripts that may run twice
  tailrace topic create orders --dry-run                would it work?
"""

DELETE_DESCRIPTION: Final = """\
Delete topics with everything that is in them. There is no way back, so it asks first.
"""

DELETE_EXAMPLES: Final = """\
examples:
  tailrace topic delete orders
  tailrace topic delete orders payments --yes           without being asked
  tailrace topic delete orders --yes --if-exists        for scripts that may run twice
"""

ALTER_DESCRIPTION: Final = """\
Change a topic: give it more partitions, change its settings, or remove its oldest records.
"""

ALTER_EXAMPLES: Final = """\
examples:
  tailrace topic alter orders --partitions 12           never fewer; keys then go to other partitions
  tailrace topic alter orders --set retention.ms=3600000 --unset segment.bytes
  tailrace topic alter orders --delete-records-before 5000
  tailrace topic alter orders --delete-records-before end --partition 2 --yes

See what a topic's settings are with `tailrace config describe --topic orders`.
"""


def register(subparsers: Subparsers) -> None:
    commands = add_group(subparsers, "topic", "list, create, describe, change and delete topics")
    register_list(commands)
    register_describe(commands)
    register_create(commands)
    register_alter(commands)
    register_delete(commands)


def register_list(commands: Subparsers) -> None:
    parser = add_command(commands, "list", "list the topics", LIST_DESCRIPTION, LIST_EXAMPLES, run_list)
    parser.add_argument("--internal", action="store_true", help="also topics that the brokers keep for themselves")
    parser.add_argument("--sizes", action="store_true", help="count records and bytes, and sort by bytes")
    add_connection(parser)


def register_describe(commands: Subparsers) -> None:
    title = "show partitions, replicas, offsets, sizes and settings"
    parser = add_command(commands, "describe", title, DESCRIBE_DESCRIPTION, DESCRIBE_EXAMPLES, run_describe)
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="the name of a topic")
    add_connection(parser, json_help="one JSON object per line: each topic, then its partitions")


def register_create(commands: Subparsers) -> None:
    parser = add_command(commands, "create", "create a topic", CREATE_DESCRIPTION, CREATE_EXAMPLES, run_create)
    parser.add_argument("topic", metavar="TOPIC", help="letters, digits, dots, underscores and hyphens")
    parser.add_argument("--partitions", type=at_least_one, metavar="N", help="how many (default: the broker's)")
    parser.add_argument(
        "--replication-factor", type=at_least_one, metavar="N", help="copies of each (default: the broker's)"
    )
    parser.add_argument(
        "--config", type=key_value, action="append", default=[], metavar="K=V", help="a setting; may be repeated"
    )
    parser.add_argument("--if-not-exists", action="store_true", help="be content with a topic that is there already")
    parser.add_argument("--dry-run", action="store_true", help="let the broker check it, and create nothing")
    add_connection(parser)


def register_alter(commands: Subparsers) -> None:
    title = "add partitions, change settings, delete old records"
    parser = add_command(commands, "alter", title, ALTER_DESCRIPTION, ALTER_EXAMPLES, run_alter)
    parser.add_argument("topic", metavar="TOPIC", help="the name of a topic")
    parser.add_argument("--partitions", type=at_least_one, metavar="N", help="so many altogether")
    parser.add_argument(
        "--set", type=key_value, action="append", default=[], metavar="K=V", help="a setting; may be repeated"
    )
    parser.add_argument(
        "--unset", action="append", default=[], metavar="K", help="back to the default; may be repeated"
    )
    parser.add_argument(
        "--delete-records-before",
        type=offset_or_end,
        metavar="OFFSET|end",
        help="remove records below an offset, or all there are",
    )
    parser.add_argument(
        "--partition", type=int, action="append", metavar="N", help="only of this partition; may be repeated"
    )
    parser.add_argument("--yes", action="store_true", help="delete records without being asked")
    add_connection(parser)


def register_delete(commands: Subparsers) -> None:
    title = "delete topics and all their records"
    parser = add_command(commands, "delete", title, DELETE_DESCRIPTION, DELETE_EXAMPLES, run_delete)
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="the name of a topic")
    parser.add_argument("--yes", action="store_true", help="without being asked")
    parser.add_argument("--if-exists", action="store_true", help="be content with topics that are not there")
    add_connection(parser)


def offset_or_end(text: str) -> int:
    """−1 for the end."""
    if text == "end":
        return -1
    if not text.isdecimal() or int(text) > 0x7FFF_FFFF_FFFF_FFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is neither an offset nor `end`")
    return int(text)


def run_list(args: argparse.Namespace) -> int:
    from tailrace.cli import topic_views

    return topic_views.run_list(args)


def run_describe(args: argparse.Namespace) -> int:
    from tailrace.cli import topic_views

    return topic_views.run_describe(args)


def run_create(args: argparse.Namespace) -> int:
    from tailrace.cli import topic_changes

    return topic_changes.run_create(args)


def run_alter(args: argparse.Namespace) -> int:
    from tailrace.cli import topic_changes

    return topic_changes.run_alter(args)


def run_delete(args: argparse.Namespace) -> int:
    from tailrace.cli import topic_changes

    return topic_changes.run_delete(args)
