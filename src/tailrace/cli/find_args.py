"""`tailrace pipeline find`: its options. Light: Spark is loaded when it is run."""

from __future__ import annotations

import argparse
import base64
import os
from contextlib import suppress
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.consume import start
from tailrace.cli.durations import duration_ms
from tailrace.cli.remote_args import add_command, at_least_one, not_negative
from tailrace.cli.spark_args import add_place, add_source_option, add_spark

DESCRIPTION: Final = """\
Find records of a topic: every version of a key, what was written around a moment, or whatever meets a condition in SQL.
Where several of these are given, a record has to meet them all.

Topics are read from brokers, or with --path straight from the segments of a log directory, by as many tasks as there
are cores. Times and offsets are found by the indexes: what lies before a moment is not read, and what lies behind it
only as far as --disorder says. Conditions on partition, offset and timestamp in SQL narrow what is read, too.

SQL may name key, value, topic, partition, offset, timestamp, timestampType and headers, and the two as text: key_text
and text. A null value is shown as deleted: in a compacted topic it is the end of its key.
"""

EXAMPLES: Final = """\
examples:
  tailrace pipeline find orders --key customer-7              every version, the first one first
  tailrace pipeline find orders --key customer-7 --newest --limit 1
  tailrace pipeline find orders --key customer-7 --aborted    with what never was committed
  tailrace pipeline find orders --at 2026-01-31T12:00:00Z     5 seconds before and after
  tailrace pipeline find orders --at @1769860800000 --around 2m --key customer-7
  tailrace pipeline find orders --where "text LIKE '%lamp%' AND partition = 2"
  tailrace pipeline find orders --where "get_json_object(text, '$.cents') > 5000" --path /data/kafka
  tailrace pipeline find orders --where "value IS NULL" --json | jq .key

Bytes that are not UTF-8 are null in JSON, with a key_base64 or value_base64 beside it; --key-base64 takes such a key.
"""


def register(commands: Subparsers) -> None:
    title = "find records by key, by moment or by a condition in SQL"
    parser = add_command(commands, "find", title, DESCRIPTION, EXAMPLES, run)
    parser.add_argument("topic", metavar="TOPIC", help="the name of a topic")
    what = parser.add_argument_group("what is looked for")
    key = what.add_mutually_exclusive_group()
    key.add_argument("--key", type=as_given, metavar="K", help="records with this key")
    key.add_argument(
        "--key-base64", type=from_base64, metavar="K", help="the same in base64, for keys that are no text"
    )
    what.add_argument(
        "--at", type=moment, metavar="TIME", help="records around this moment: a time, or @ and milliseconds"
    )
    what.add_argument(
        "--around", type=duration_ms, metavar="SPAN", help="with --at: so long before and after it (default: 5s)"
    )
    what.add_argument("--where", metavar="SQL", help="records that meet this condition")
    what.add_argument(
        "--partition", type=not_negative, action="append", metavar="N", help="only this one; may be repeated"
    )
    what.add_argument(
        "--aborted", action="store_true", help="also what aborted transactions wrote, and open ones so far; it says so"
    )
    what.add_argument(
        "--limit", type=at_least_one, default=100, metavar="N", help="so many at most (default: %(default)s)"
    )
    what.add_argument("--newest", action="store_true", help="where there are more, the last ones, not the first")
    how = parser.add_argument_group("running")
    how.add_argument(
        "--disorder",
        type=duration_ms,
        metavar="SPAN",
        help="with --at: no record is older by more than this than one before it (default: 1h)",
    )
    add_source_option(how)
    add_spark(how)
    output = parser.add_argument_group("cluster and output")
    add_place(output)
    output.add_argument("--json", action="store_true", help="one JSON object for each record, and one at the end")


def moment(text: str) -> int:
    """Milliseconds since 1970."""
    with suppress(argparse.ArgumentTypeError):
        if text not in ("earliest", "latest") and not text.isdecimal():
            return start(text).point
    raise argparse.ArgumentTypeError(f"{text!r} is no time; write 2026-01-31T12:00:00Z, or @ and milliseconds")


def as_given(text: str) -> str | bytes:
    """A key need not be text: then its bytes, as the shell gave them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return os.fsencode(text)
    return text


def from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # binascii's, and that of characters beyond ASCII
        raise argparse.ArgumentTypeError(f"{text!r} is not base64") from None


def run(args: argparse.Namespace) -> int:
    from tailrace.cli import find_run

    return find_run.run(args)
