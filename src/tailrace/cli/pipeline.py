"""`tailrace pipeline`: what the pipeline on Spark does by itself. Light: Spark is loaded when a command is run."""

from __future__ import annotations

import argparse
from typing import Final, NamedTuple

from tailrace.cli import audit_args, find_args, stats_args
from tailrace.cli.command import Subparsers
from tailrace.cli.consume import start
from tailrace.cli.durations import duration_ms
from tailrace.cli.remote_args import add_command, add_group, at_least_one, key_value
from tailrace.cli.sizes import size_in_bytes
from tailrace.cli.spark_args import add_place, add_source_option, add_spark

FORMATS: Final = ("delta", "iceberg", "parquet")
MODES: Final = ("append", "upsert")
VALUES: Final = ("bytes", "string", "json", "avro", "protobuf")
KEYS: Final = ("bytes", "string")

TABLE_DESCRIPTION: Final = """\
Make a table of a topic, and keep it up to date: Delta, Iceberg or Parquet files that others read without us.

Without --trigger the table takes what the topic has now, and the command ends. With it, it goes on until Ctrl-C.
Each record is in the table once, whatever dies meanwhile: how far the table is, is in the table itself, and the next
run goes on from there. Records that have no row are in a table beside it, NAME_dead_letters, with the reason.

What a table is made with stays, and need not be said again, but for --schema, --registry and --catalog. A run that asks
for another mode, value or partitioning is refused. --starting counts only when the table is made. On a cluster of
Spark's the place must be a file system that all its machines share.
"""

TABLE_EXAMPLES: Final = """\
examples:
  tailrace pipeline table orders --to tables/orders --value json
  tailrace pipeline table orders --to tables/orders --trigger 10s --metrics orders.prom
  tailrace pipeline table orders --to tables/customers --value json --mode upsert --buckets 64
  tailrace pipeline table orders --to tables/orders --value avro --registry http://localhost:8081
  tailrace pipeline table orders --to lake/orders --format iceberg --partition-by _day
  tailrace pipeline table orders --to tables/orders --path /data/kafka            from files, without a broker
  tailrace pipeline table orders --to tables/orders --dry-run                     what would be done
  tailrace pipeline table orders --to tables/orders --status                      how far it is behind
  tailrace pipeline table orders --to tables/orders --history                     its versions, and their offsets
  tailrace pipeline table orders --to tables/orders --at 2:1500                   the first version that has it
  tailrace pipeline table orders --to tables/orders --files --version 7           what it consisted of then

docs/tables.md tells it all.
"""


class Position(NamedTuple):
    partition: int
    offset: int


def register(subparsers: Subparsers) -> None:
    commands = add_group(subparsers, "pipeline", "topics as tables, audits, statistics and searches, by Spark")
    register_table(commands)
    audit_args.register(commands)
    stats_args.register(commands)
    find_args.register(commands)


def register_table(commands: Subparsers) -> None:
    title = "make a table of a topic, and keep it up to date"
    parser = add_command(commands, "table", title, TABLE_DESCRIPTION, TABLE_EXAMPLES, run_table)
    parser.add_argument("topic", metavar="TOPIC", help="the name of a topic")
    parser.add_argument(
        "--to",
        required=True,
        metavar="PLACE",
        help="where the table is: a folder that it has for itself; of an Iceberg table FOLDER/NAME",
    )
    add_what(parser)
    add_how(parser)
    add_questions(parser)
    add_cluster(parser)


def add_what(parser: argparse.ArgumentParser) -> None:
    """What is in the table: for good, but for --schema and --registry."""
    group = parser.add_argument_group("the table")
    group.add_argument(
        "--format", choices=FORMATS, help="(default: that of the table there; else delta, with --catalog iceberg)"
    )
    group.add_argument(
        "--mode",
        choices=MODES,
        help="a row for each record, or the newest row of each key, where a null value deletes (default: append)",
    )
    group.add_argument("--value", choices=VALUES, help="what values are (default: bytes)")
    group.add_argument("--key", choices=KEYS, help="what keys are (default: bytes)")
    group.add_argument(
        "--schema",
        metavar="FILE|TEXT",
        help="of the values: Spark's DDL or JSON Schema for json, .avsc for avro, .proto or a descriptor set",
    )
    group.add_argument(
        "--registry",
        metavar="URL|DIR",
        help="values begin with a schema's id; where schemas are: a Schema Registry, or a folder with a file for each",
    )
    group.add_argument(
        "--value-column", metavar="NAME", help="one column of this name for the fields of values, not one for each"
    )
    group.add_argument(
        "--partition-by",
        type=columns,
        default=(),
        metavar="COLUMNS",
        help="files are apart by these, with commas between them; _day is the day of the record's time",
    )
    group.add_argument(
        "--buckets", type=at_least_one, metavar="N", help="upsert: into how many parts keys are spread (default: 32)"
    )
    group.add_argument(
        "--starting",
        type=starting,
        metavar="WHERE",
        help="a new table begins here: earliest, latest, a time, or {TOPIC: {PARTITION: OFFSET}} (default: earliest)",
    )
    group.add_argument(
        "--catalog",
        type=key_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="iceberg: a setting of another catalog than the file catalog.db; may be repeated",
    )


def add_how(parser: argparse.ArgumentParser) -> None:
    """How it runs: may be otherwise each time."""
    group = parser.add_argument_group("running")
    when = group.add_mutually_exclusive_group()
    when.add_argument("--once", action="store_true", help="take what is there now, and end: this is the default")
    when.add_argument(
        "--trigger", type=duration_ms, metavar="SPAN", help="go on until Ctrl-C, with a commit every 10s, 1m, …"
    )
    group.add_argument(
        "--retain",
        type=duration_ms,
        metavar="SPAN",
        help="older versions go, with the files that only they need (default: 7d)",
    )
    group.add_argument(
        "--target-file-size",
        type=size_in_bytes,
        metavar="SIZE",
        help="small files are put together until they are so large (default: 128m)",
    )
    group.add_argument("--no-upkeep", action="store_true", help="neither put files together nor remove old versions")
    group.add_argument("--metrics", metavar="FILE", help="keep this file up to date, with metrics for Prometheus")
    add_spark(group)
    add_source_option(group, "the source (docs/spark.md) or of tables (docs/tables.md)")


def add_questions(parser: argparse.ArgumentParser) -> None:
    """What is asked about a table, without anything being done to it."""
    group = parser.add_argument_group("only look")
    asked = group.add_mutually_exclusive_group()
    asked.add_argument("--dry-run", action="store_true", help="show what would be done")
    asked.add_argument("--status", action="store_true", help="how far the table is, and how far behind the topic")
    asked.add_argument("--history", action="store_true", help="its versions with their offsets, the newest first")
    asked.add_argument(
        "--at",
        type=position,
        action="append",
        metavar="PARTITION:OFFSET",
        help="the first version that has the topic up to this record; may be repeated for several partitions",
    )
    asked.add_argument("--files", action="store_true", help="the files that the table consists of, for other readers")
    group.add_argument("--version", type=whole, metavar="N", help="with --files: of this version, not of the newest")


def add_cluster(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cluster and output")
    add_place(group)
    group.add_argument("--json", action="store_true", help="one JSON object per line")


def columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of columns; write them with commas: country,_day")
    return names


def starting(text: str) -> tuple[str, str]:
    """As an option of the source: its name and its value."""
    if text.startswith("{") or text in ("earliest", "latest"):
        return "startingOffsets", text
    point = start(text)
    if point.offset is not None:
        raise argparse.ArgumentTypeError(f'{text!r} is of which partition? write {{"TOPIC": {{"0": {text}}}}}')
    return "startingTimestamp", str(point.point)


def position(text: str) -> Position:
    partition, separator, offset = text.partition(":")
    if not (separator and partition.isdecimal() and offset.isdecimal()) or int(partition) > 0x7FFF_FFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is no record; write its partition and its offset: 2:1500")
    return Position(int(partition), int(offset))


def whole(text: str) -> int:
    """Iceberg's ids of snapshots are large."""
    if not text.isdecimal() or int(text) > 0x7FFF_FFFF_FFFF_FFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is no version; write its number, as --history has it")
    return int(text)


def run_table(args: argparse.Namespace) -> int:
    from tailrace.cli import table_run

    return table_run.run(args)
