"""`tailrace group`: groups of a cluster. What the commands do is loaded only when one is run."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.consume import start
from tailrace.cli.durations import duration_ms
from tailrace.cli.remote_args import add_command, add_connection, add_group, seconds

KINDS: Final = ("classic", "consumer", "share", "streams")

LIST_DESCRIPTION: Final = """\
List the groups of a cluster: consumers of either protocol, share groups and streams groups.
"""

LIST_EXAMPLES: Final = """\
examples:
  tailrace group list
  tailrace group list --lag                             with how far each is behind, the furthest first
  tailrace group list --state empty                     those that nobody is in
  tailrace group list --kind share --json | jq -r .group
"""

DESCRIBE_DESCRIPTION: Final = """\
Show groups: their state, their members with the partitions that each has, and how far behind each partition is.

A member has an epoch under the consumer group protocol; one that is on its way to other partitions shows which.
"""

DESCRIBE_EXAMPLES: Final = """\
examples:
  tailrace group describe billing
  tailrace group describe billing --json | jq 'select(.type == "member") | .client'
  tailrace group describe billing --json > saved        its offsets, to come back to: see reset-offsets --from-file
"""

LAG_DESCRIPTION: Final = """\
Show how far a group is behind: of each partition what is committed, where it ends, and what is left between the two.

With --live it is measured again and again: how fast the group reads, how fast others write, and when it will have
caught up. A pipe gets a line for each measurement.
"""

LAG_EXAMPLES: Final = """\
examples:
  tailrace group lag billing
  tailrace group lag billing --live
  tailrace group lag billing --live --every 10 --json | jq .lag
  tailrace group lag billing --json | jq 'select(.lag > 1000)'

Lag is counted by offsets: where a log was compacted or has transactions fewer records are left.
"""

RESET_DESCRIPTION: Final = """\
Set from where a group reads on. Without --execute nothing is changed: you see what would be.

The group must have no members: stop its consumers first. Without --topic it is about every topic of which the group
has committed an offset. An offset that a partition does not have becomes its first or its end, whichever is nearer.
"""

RESET_EXAMPLES: Final = """\
examples:
  tailrace group reset-offsets billing --to earliest                    what would be
  tailrace group reset-offsets billing --to earliest --execute          do it
  tailrace group reset-offsets billing --to 2026-01-31T12:00:00Z        from a point in time on
  tailrace group reset-offsets billing --by-duration 90m                from an hour and a half ago on (or PT1H30M)
  tailrace group reset-offsets billing --shift-by -100 --topic orders   a hundred back
  tailrace group reset-offsets billing --to 1500 --topic orders:2       one partition; orders:0,2 for two
  tailrace group reset-offsets billing --from-file saved --execute      back to what `describe --json` has saved

A file has lines `topic,partition,offset`, as Kafka's own tool writes and reads, or lines of --json.
"""

DELETE_DESCRIPTION: Final = """\
Delete groups with the offsets that they have committed, or with --topic only the offsets of a topic.

A group must have no members, a topic no member that reads it. There is no way back, so it asks first.
"""

DELETE_EXAMPLES: Final = """\
examples:
  tailrace group delete billing
  tailrace group delete billing reports --yes           without being asked
  tailrace group delete billing --topic orders          only what it has committed of one topic
  tailrace group delete billing --yes --if-exists       for scripts that may run twice
"""


def register(subparsers: Subparsers) -> None:
    commands = add_group(subparsers, "group", "list, describe and delete groups, see their lag, reset their offsets")
    register_list(commands)
    register_describe(commands)
    register_lag(commands)
    register_reset(commands)
    register_delete(commands)


def register_list(commands: Subparsers) -> None:
    parser = add_command(commands, "list", "list the groups", LIST_DESCRIPTION, LIST_EXAMPLES, run_list)
    parser.add_argument("--kind", choices=KINDS, action="append", help="only groups of this kind; may be repeated")
    parser.add_argument(
        "--state", type=str.lower, action="append", metavar="S", help="only groups in this state: empty, stable, …"
    )
    parser.add_argument("--lag", action="store_true", help="measure lag and count members, and sort by lag")
    add_connection(parser)


def register_describe(commands: Subparsers) -> None:
    title = "show members, assignments, offsets and lag"
    parser = add_command(commands, "describe", title, DESCRIBE_DESCRIPTION, DESCRIBE_EXAMPLES, run_describe)
    parser.add_argument("groups", nargs="+", metavar="GROUP", help="the name of a group")
    add_connection(parser, json_help="one JSON object per line: each group, its members, its partitions")


def register_lag(commands: Subparsers) -> None:
    title = "show how far a group is behind, once or live"
    parser = add_command(commands, "lag", title, LAG_DESCRIPTION, LAG_EXAMPLES, run_lag)
    parser.add_argument("group", metavar="GROUP", help="the name of a group")
    parser.add_argument("--live", action="store_true", help="measure again and again, until interrupted")
    parser.add_argument(
        "--every", type=seconds, default=1.0, metavar="S", help="seconds between measurements (default: 1)"
    )
    add_connection(parser, json_help="one JSON object per line: each partition, or with --live each measurement")


def register_reset(commands: Subparsers) -> None:
    title = "set from where a group reads on"
    parser = add_command(commands, "reset-offsets", title, RESET_DESCRIPTION, RESET_EXAMPLES, run_reset)
    parser.add_argument("group", metavar="GROUP", help="the name of a group")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--to", type=start, metavar="WHERE", help="earliest, latest, an offset, a time, or @ and milliseconds"
    )
    where.add_argument(
        "--by-duration", type=duration_ms, metavar="SPAN", help="what was written in the last 15m, 2h, 1d or PT36H"
    )
    where.add_argument(
        "--shift-by", type=whole_number, metavar="N", help="so many records on, or back where it is negative"
    )
    where.add_argument("--from-file", metavar="FILE", help="the offsets that a file has; - for standard input")
    parser.add_argument(
        "--topic",
        type=topic_partitions,
        action="append",
        metavar="T",
        help="only this topic, or of it only partitions: T:0,2; may be repeated",
    )
    parser.add_argument("--execute", action="store_true", help="do it; without this you only see what would be")
    add_connection(parser)


def register_delete(commands: Subparsers) -> None:
    title = "delete groups, or their offsets of a topic"
    parser = add_command(commands, "delete", title, DELETE_DESCRIPTION, DELETE_EXAMPLES, run_delete)
    parser.add_argument("groups", nargs="+", metavar="GROUP", help="the name of a group")
    parser.add_argument("--topic", action="append", metavar="T", help="only its offsets of this topic; may be repeated")
    parser.add_argument("--yes", action="store_true", help="without being asked")
    parser.add_argument("--if-exists", action="store_true", help="be content with groups that are not there")
    add_connection(parser)


def whole_number(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isdecimal() or int(digits) > 0x7FFF_FFFF_FFFF_FFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def topic_partitions(text: str) -> tuple[str, tuple[int, ...]]:
    """A topic, and the partitions that are meant: none stands for all."""
    topic, separator, numbers = text.partition(":")
    parts = numbers.split(",") if separator else []
    if not topic or not all(part.isdecimal() and int(part) <= 0x7FFF_FFFF for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is neither TOPIC nor TOPIC:0,1,2")
    return topic, tuple(sorted({int(part) for part in parts}))


def run_list(args: argparse.Namespace) -> int:
    from tailrace.cli import group_views

    return group_views.run_list(args)


def run_describe(args: argparse.Namespace) -> int:
    from tailrace.cli import group_views

    return group_views.run_describe(args)


def run_lag(args: argparse.Namespace) -> int:
    from tailrace.cli import group_lag

    return group_lag.run(args)


def run_reset(args: argparse.Namespace) -> int:
    from tailrace.cli import group_reset

    return group_reset.run(args)


def run_delete(args: argparse.Namespace) -> int:
    from tailrace.cli import group_delete

    return group_delete.run(args)
