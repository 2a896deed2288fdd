"""`tailrace produce`: lines to a topic. Light: what it does is loaded when it is run."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.remote_args import add_command, add_connection, at_least_one, key_value, not_negative
from tailrace.cli.sizes import size_in_bytes

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_RATE: Final = 1e9

DESCRIPTION: Final = """\
Send lines to a topic, each line a record: from standard input, or from a file.

Without a key a record goes to any partition; records with the same key always go to the same one, which is the one
that Kafka's own clients choose. With acks=all, which is the default, every record is written once and in order,
however often it has to be sent again. What has been read is sent when no more comes for a moment, so that it also
works at the end of a pipe that never closes.
"""

EXAMPLES: Final = """\
examples:
  echo 'two apples' | tailrace produce orders
  tailrace produce orders --file orders.txt --codec zstd
  echo 'customer-7:two apples' | tailrace produce orders --key-separator :
  tailrace produce customers --key-separator = --null '' <<< 'customer-7='      a tombstone: the key is deleted
  tail -F access.log | tailrace produce access --codec lz4
  seq 100000 | tailrace produce numbers --rate 1000 --header source=seq

The exit code is 1 when a record could not be delivered; what was acknowledged before stays.
"""


def register(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "produce", "send lines to a topic", DESCRIPTION, EXAMPLES, run)
    parser.add_argument("topic", metavar="TOPIC", help="the name of a topic")
    parser.add_argument("--file", metavar="F", help="read this file instead of standard input")
    parser.add_argument("--key-separator", metavar="SEP", help="the key stands before the first SEP of a line")
    parser.add_argument("--null", metavar="TEXT", help="a key or value that is this text is null")
    parser.add_argument(
        "--header",
        type=key_value,
        action="append",
        default=[],
        metavar="K=V",
        help="with every record; may be repeated",
    )
    parser.add_argument("--partition", type=not_negative, metavar="N", help="to this one, whatever the key")
    parser.add_argument("--codec", choices=CODECS, default="none", help="how batches are compressed (default: none)")
    parser.add_argument(
        "--acks", choices=("all", "1", "0"), default="all", help="wait for all replicas, one, or none (default: all)"
    )
    parser.add_argument("--rate", type=rate, metavar="N", help="at most so many records a second")
    parser.add_argument("--max", type=at_least_one, metavar="N", help="end after so many records")
    parser.add_argument(
        "--batch-size", type=size_in_bytes, default="64k", metavar="N", help="before compression (default: 64k)"
    )
    add_connection(parser, json_help="one JSON object at the end: what was sent, how fast, and its offsets")


def rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MAX_RATE:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of records a second")
    return value


def run(args: argparse.Namespace) -> int:
    from tailrace.cli import produce_run

    return produce_run.run(args)
