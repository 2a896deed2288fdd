"""`tailrace consume`: records of a topic. Light: what it does is loaded when it is run."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Final, NamedTuple

from tailrace.cli.command import Subparsers
from tailrace.cli.remote_args import add_command, add_connection, at_least_one, not_negative

DESCRIPTION: Final = """\
Read the records of a topic: all that are there now, or on and on with --follow.

A terminal gets partition, offset, time, key and value of each record. A pipe gets the values as they are, a line
each, or `key SEP value` with --key-separator, which `tailrace produce` takes back. With --json a record is an object.
Without --group nothing is committed anywhere: reading leaves no trace on the broker. With it, it is as a member of that
group: it shares the partitions with the other members, begins where the group has committed, and commits what it has
printed. --from then is for partitions of which the group has committed nothing.
"""

EXAMPLES: Final = """\
examples:
  tailrace consume orders                               everything that is there
  tailrace consume orders --follow                      what comes from now on, with live throughput
  tailrace consume orders --from latest --follow --max 1
  tailrace consume orders --partition 2 --from 1500 --max 10
  tailrace consume orders --from 2026-01-31T12:00:00Z   from a point in time on (UTC where nothing else is said)
  tailrace consume orders --from @1769860800000         the same in milliseconds since 1970
  tailrace consume orders --group billing               what the group has not read yet, and commit it
  tailrace consume orders --group billing --follow      as a member for as long as it runs
  tailrace consume orders --json | jq -r .value
  tailrace consume orders --key-separator = | tailrace produce copy --key-separator =

Bytes that are not UTF-8 are null in JSON, with a key_base64 or value_base64 beside it.
"""


class Start(NamedTuple):
    """An offset, or a point of `client.offsets`."""

    offset: int | None
    point: int


LATEST: Final = -1  # as in client.offsets, which is not loaded for the sake of a help text
EARLIEST: Final = -2


def register(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "consume", "read the records of a topic", DESCRIPTION, EXAMPLES, run)
    parser.add_argument("topic", metavar="TOPIC", help="the name of a topic")
    parser.add_argument(
        "--from",
        dest="start",
        type=start,
        metavar="WHERE",
        help="earliest, latest, an offset, a time, or @ and milliseconds (default: earliest; with --follow latest)",
    )
    parser.add_argument(
        "--partition", type=not_negative, action="append", metavar="N", help="only this one; may be repeated"
    )
    parser.add_argument("--group", metavar="GROUP", help="read as a member of this group, and commit what was printed")
    parser.add_argument("--max", type=at_least_one, metavar="N", help="end after so many records")
    parser.add_argument("--follow", action="store_true", help="go on when the end is reached, until interrupted")
    parser.add_argument(
        "--isolation",
        choices=("committed", "uncommitted"),
        default="uncommitted",
        help="with `committed`, only what committed transactions wrote (default: uncommitted)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json is the same as --json")
    parser.add_argument("--key-separator", metavar="SEP", help="print the key and SEP before each value")
    parser.add_argument("--null", default="", metavar="TEXT", help="print this for null (default: nothing)")
    add_connection(parser, json_help="one JSON object for each record")


def start(text: str) -> Start:
    if text in ("earliest", "latest"):
        return Start(None, EARLIEST if text == "earliest" else LATEST)
    if text.isdecimal() and int(text) < 1 << 63:
        return Start(int(text), EARLIEST)
    if text.startswith("@") and text[1:].isdecimal() and int(text[1:]) < 1 << 63:
        return Start(None, int(text[1:]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither earliest, latest, an offset, a time like 2026-01-31T12:00:00Z nor @ and milliseconds"
        ) from None
    known = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    milliseconds = round(known.timestamp() * 1000)
    if milliseconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is before 1970")
    return Start(None, milliseconds)


def run(args: argparse.Namespace) -> int:
    if args.group is not None:
        from tailrace.cli import consume_group

        return consume_group.run(args)
    from tailrace.cli import consume_run

    return consume_run.run(args)
