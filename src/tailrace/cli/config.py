"""`tailrace config`: settings of topics, brokers and the cluster. Light: what is done is loaded when it is run."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.remote_args import add_command, add_connection, add_group, key_value, not_negative

DESCRIBE_DESCRIPTION: Final = """\
Show settings of a topic, of a broker, or those that hold for all brokers, and where each value comes from.

Without --all only what somebody has set is shown: what is not Kafka's default. Secret values are never told.
"""

DESCRIBE_EXAMPLES: Final = """\
examples:
  tailrace config describe --topic orders
  tailrace config describe --topic orders --all
  tailrace config describe --topic orders retention.ms cleanup.policy
  tailrace config describe --broker 1 log.retention.ms --docs
  tailrace config describe --cluster                    what holds for every broker
  tailrace config describe --broker 1 --all --json | jq 'select(.read_only | not) | .key'
"""

SET_DESCRIPTION: Final = """\
Change settings of a topic, of a broker, or of all brokers, while they run. All of them, or none where one is wrong.
"""

SET_EXAMPLES: Final = """\
examples:
  tailrace config set --topic orders retention.ms=86400000
  tailrace config set --broker 1 log.cleaner.threads=2
  tailrace config set --cluster log.retention.ms=604800000
  tailrace config set --topic orders retention.ms=oops --dry-run
"""

UNSET_DESCRIPTION: Final = """\
Take settings back, so that the next value in line holds again: the cluster's, the broker's file, or the default.
"""

UNSET_EXAMPLES: Final = """\
examples:
  tailrace config unset --topic orders retention.ms
  tailrace config unset --cluster log.retention.ms
"""


def register(subparsers: Subparsers) -> None:
    commands = add_group(subparsers, "config", "show and change settings of topics, brokers and the cluster")
    parser = add_command(commands, "describe", "show settings", DESCRIBE_DESCRIPTION, DESCRIBE_EXAMPLES, run_describe)
    add_resource(parser)
    parser.add_argument("keys", nargs="*", metavar="KEY", help="only these settings")
    parser.add_argument("--all", action="store_true", help="also those that nobody has changed")
    parser.add_argument("--docs", action="store_true", help="what each setting is for")
    add_connection(parser)
    parser = add_command(commands, "set", "change settings", SET_DESCRIPTION, SET_EXAMPLES, run_set)
    add_resource(parser)
    parser.add_argument("settings", nargs="+", type=key_value, metavar="KEY=VALUE", help="the new value of a setting")
    parser.add_argument("--dry-run", action="store_true", help="let the broker check it, and change nothing")
    add_connection(parser)
    parser = add_command(commands, "unset", "take settings back", UNSET_DESCRIPTION, UNSET_EXAMPLES, run_unset)
    add_resource(parser)
    parser.add_argument("keys", nargs="+", metavar="KEY", help="the name of a setting")
    parser.add_argument("--dry-run", action="store_true", help="let the broker check it, and change nothing")
    add_connection(parser)


def add_resource(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--topic", metavar="T", help="settings of this topic")
    which.add_argument("--broker", type=not_negative, metavar="N", help="settings of the broker with this id")
    which.add_argument("--cluster", action="store_true", help="what holds for brokers without a value of their own")


def run_describe(args: argparse.Namespace) -> int:
    from tailrace.cli import config_run

    return config_run.run_describe(args)


def run_set(args: argparse.Namespace) -> int:
    from tailrace.cli import config_run

    return config_run.run_set(args)


def run_unset(args: argparse.Namespace) -> int:
    from tailrace.cli import config_run

    return config_run.run_unset(args)
