"""`tailrace pipeline stats`: its options. Light: Spark is loaded when it is run."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.remote_args import add_command, at_least_one
from tailrace.cli.sizes import size_in_bytes
from tailrace.cli.spark_args import add_place, add_source_option, add_spark

DESCRIPTION: Final = """\
What is in a topic: its keys and how uneven they are, sizes, rates over time, null values and tombstones, headers,
producers, codecs; and what would change: what compaction would gain, what another codec would save, what a retention
would keep.

Everything is counted, not estimated, but for two things that are measured on a sample: codecs, and the bytes that
compaction would leave of batches that it has to write anew.

A word with a / in it is a path: a log directory that holds a single topic, or the folder of a partition. Any other is
the name of a topic, of the brokers or of the directory that --path names.
"""

EXAMPLES: Final = """\
examples:
  tailrace pipeline stats orders                            a topic of the broker on localhost:9092
  tailrace pipeline stats orders --bootstrap kafka:9092
  tailrace pipeline stats orders --path /data/kafka         from files, without a broker
  tailrace pipeline stats /data/kafka/orders-0              one partition
  tailrace pipeline stats orders --report orders.html       with plots, in one file for any browser
  tailrace pipeline stats orders --top 50                   more of the hot keys
  tailrace pipeline stats orders --sample 1g                codecs measured on more of it
  tailrace pipeline stats orders --option startingTimestamp=1769860800000
  tailrace pipeline stats orders --json | jq .keys.distinct

docs/audit.md tells what each figure means.
"""


def register(commands: Subparsers) -> None:
    title = "what is in a topic, and what compaction, codecs and retention would change"
    parser = add_command(commands, "stats", title, DESCRIPTION, EXAMPLES, run)
    parser.add_argument("target", metavar="TOPIC|PATH", help="a topic, or a path, which has a / in it")
    what = parser.add_argument_group("what is counted")
    what.add_argument("--top", type=at_least_one, metavar="N", help="name so many hot keys (default: 10)")
    what.add_argument(
        "--sample",
        type=size_in_bytes,
        metavar="SIZE",
        help="pack about so many bytes of batches again, to measure codecs and compaction (default: 64m)",
    )
    add_source_option(what)
    how = parser.add_argument_group("running")
    add_spark(how)
    output = parser.add_argument_group("cluster and output")
    add_place(output)
    output.add_argument("--report", metavar="FILE", help="write an HTML page with plots")
    output.add_argument("--json", action="store_true", help="all figures as one JSON object")


def run(args: argparse.Namespace) -> int:
    from tailrace.cli import stats_run

    return stats_run.run(args)
