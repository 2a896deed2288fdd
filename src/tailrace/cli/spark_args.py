"""What the commands that run on Spark have in common on the command line. Light: Spark is not loaded here."""

from __future__ import annotations

import argparse

from tailrace.cli.remote_args import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP, key_value


def add_spark(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--master", metavar="M", help="of Spark: local[4], spark://… (default: local[*])")
    group.add_argument(
        "--spark", type=key_value, action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark's"
    )


def add_source_option(group: argparse._ArgumentGroup, of_what: str = "the source (docs/spark.md)") -> None:
    group.add_argument(
        "--option",
        type=key_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"an option of {of_what}; may be repeated",
    )


def add_place(group: argparse._ArgumentGroup) -> None:
    """Brokers or files, not both."""
    place = group.add_mutually_exclusive_group()
    place.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help=f"brokers to begin with, commas between them (default: ${BOOTSTRAP_VARIABLE} or {DEFAULT_BOOTSTRAP})",
    )
    place.add_argument("--path", metavar="DIR", help="read the files of a log directory instead of asking brokers")
