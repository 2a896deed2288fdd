"""`tailrace pipeline find`: searches a topic on Spark, and prints the records that it found."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from tailrace.cli.lines import Item, print_items, text_or_base64
from tailrace.cli.output import CommandError, prepare_stdout, printable
from tailrace.cli.sizes import counted
from tailrace.cli.spark_work import brokers_of, check_installed, check_path, started, told_errors
from tailrace.cli.step_bar import StepBar

if TYPE_CHECKING:
    from tailrace.spark.searching.found import Found, Matches
    from tailrace.spark.tables.tasks.reading import Tally


def run(args: argparse.Namespace) -> int:
    prepare_stdout()
    check_usage(args)
    if args.path is not None:
        check_path(args.path)
    check_installed("pipeline find")
    with told_errors(args.topic, is_path=args.path is not None):
        matches = searched(args)
    if args.json or not sys.stdout.isatty():
        items = map(record_item if args.json else plain_item, matches)
        print_items([*items, summary_item(args.topic, matches)], as_json=args.json)
        return 0
    from tailrace.cli.find_text import show_matches

    show_matches(matches)
    return 0


def check_usage(args: argparse.Namespace) -> None:
    """What argparse cannot say."""
    if all(each is None for each in (args.key, args.key_base64, args.at, args.where)):
        raise CommandError("nothing is looked for", "give --key K, --at TIME or --where SQL")
    if args.at is None and (args.around is not None or args.disorder is not None):
        raise CommandError("--around and --disorder go with --at", "say which moment is meant: --at TIME")
    if args.at is not None and args.newest:
        raise CommandError(
            "--newest does not go with --at", "of too many records around a moment the nearest are shown"
        )


def searched(args: argparse.Namespace) -> Matches:
    from tailrace.spark.searching.find import find

    given: dict[str, Any] = {"around": args.around, "disorder": args.disorder, "partitions": args.partition}
    with StepBar(is_shown=not args.json) as bar:

        def told(tally: Tally) -> None:
            more = f"{counted(tally.offsets, 'offset')} looked through"
            bar.tell(f"searching {args.topic}", tally.tasks_done, tally.tasks, more)

        spark = started(f"tailrace find {args.topic}", args)
        return find(
            args.topic,
            key=args.key if args.key is not None else args.key_base64,
            at=args.at,
            where=args.where,
            limit=args.limit,
            newest=args.newest,
            aborted=args.aborted,
            brokers=brokers_of(args),
            path=args.path,
            session=spark,
            options=dict(args.option),
            told=told,
            **{name: value for name, value in given.items() if value is not None},
        )


def record_item(found: Found) -> Item:
    return {
        "type": "record",
        "partition": found.partition,
        "offset": found.offset,
        "timestamp_ms": found.timestamp_ms,
        "state": found.state,
        "deleted": found.is_deletion,
        **text_or_base64("key", found.key),
        **text_or_base64("value", found.value),
        "headers": [{"name": name, **text_or_base64("value", value)} for name, value in found.headers],
    }


def plain_item(found: Found) -> Item:
    """Headers as `name=value`: as the objects that they are in JSON nobody reads them in a line."""
    from tailrace.cli.consume_text import shown

    pairs = [f"{printable(name)}={'null' if value is None else shown(value)}" for name, value in found.headers]
    return {**record_item(found), "headers": pairs or None}


def summary_item(topic: str, matches: Matches) -> Item:
    return {
        "type": "summary",
        "topic": topic,
        "found": matches.total,
        "shown": len(matches),
        "offsets": matches.offsets,
        "seconds": round(matches.seconds, 3),
    }
