"""`tailrace cluster`: the brokers themselves. Light: what the commands do is loaded when one is run."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.remote_args import add_command, add_connection, add_group, at_least_one, not_negative

DESCRIBE: Final = """\
Show the brokers of a cluster: where they listen, what they lead, which one is fenced, and how the topics are.
"""
DESCRIBE_EXAMPLES: Final = """\
examples:
  tailrace cluster describe
  tailrace cluster describe --bootstrap broker1:9092,broker2:9092
  tailrace cluster describe --json | jq 'select(.type == "broker") | .address'
"""
QUORUM: Final = """\
Show the quorum that keeps the cluster's metadata: its leader, its voters and observers, and how far behind they are.
"""
QUORUM_EXAMPLES: Final = """\
examples:
  tailrace cluster quorum
  tailrace cluster quorum --json | jq 'select(.lag > 0)'
"""
DIRS: Final = """\
Show the data directories of brokers, their disks, and which partitions take the most room in them.
"""
DIRS_EXAMPLES: Final = """\
examples:
  tailrace cluster dirs
  tailrace cluster dirs --broker 1 --limit 20
  tailrace cluster dirs --topic orders
  tailrace cluster dirs --json | jq 'select(.type == "directory") | .free_bytes'

To look into a directory itself, also of a stopped broker, use `tailrace log dirs`.
"""
FEATURES: Final = """\
Show the features that the brokers support, and at which level the cluster has finalised each.
"""
FEATURES_EXAMPLES: Final = """\
examples:
  tailrace cluster features
"""


def register(subparsers: Subparsers) -> None:
    commands = add_group(subparsers, "cluster", "show brokers, the metadata quorum, data directories and features")
    add_connection(add_command(commands, "describe", "show the brokers", DESCRIBE, DESCRIBE_EXAMPLES, run_describe))
    add_connection(add_command(commands, "quorum", "show the metadata quorum", QUORUM, QUORUM_EXAMPLES, run_quorum))
    parser = add_command(commands, "dirs", "show data directories and disks", DIRS, DIRS_EXAMPLES, run_dirs)
    parser.add_argument(
        "--broker", type=not_negative, action="append", metavar="N", help="only this broker's; may be repeated"
    )
    parser.add_argument("--topic", metavar="T", help="only partitions of this topic")
    parser.add_argument(
        "--limit", type=at_least_one, default=10, metavar="N", help="the N largest partitions of each (default: 10)"
    )
    add_connection(parser, json_help="one JSON object per line: each directory, then its partitions, all of them")
    title = "show supported and finalised features"
    add_connection(add_command(commands, "features", title, FEATURES, FEATURES_EXAMPLES, run_features))


def run_describe(args: argparse.Namespace) -> int:
    from tailrace.cli import cluster_run

    return cluster_run.run_describe(args)


def run_quorum(args: argparse.Namespace) -> int:
    from tailrace.cli import cluster_run

    return cluster_run.run_quorum(args)


def run_dirs(args: argparse.Namespace) -> int:
    from tailrace.cli import cluster_run

    return cluster_run.run_dirs(args)


def run_features(args: argparse.Namespace) -> int:
    from tailrace.cli import cluster_run

    return cluster_run.run_features(args)
