"""`tailrace log`: looking at the files of a log. What the commands do is loaded only when one is run."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.sizes import size_in_bytes

WRONG_USAGE: Final = 2

DUMP_DESCRIPTION: Final = """\
Show what the files of a log hold: Tailrace's own or Apache Kafka's, which are the same.

Give files, a partition's directory, or a whole log.dirs directory. Nothing is written or locked, so a running
broker is not disturbed. A terminal gets tables, a pipe gets lines of key=value.
"""

DUMP_EXAMPLES: Final = """\
examples:
  tailrace log dump data/orders-0                       everything about one partition
  tailrace log dump data/orders-0/*.log --records       the records, with keys, values and headers
  tailrace log dump data/orders-0/*.timeindex           which timestamp is at which offset
  tailrace log dump data/recovery-point-offset-checkpoint
  tailrace log dump data/orders-0 --limit 3             the beginning of each file
  tailrace log dump data/orders-0 --records --json | jq -r 'select(.type == "record") | .value'

A record's bytes are shown as text where they are UTF-8 and escaped otherwise; with --json, bytes that are not UTF-8
are null with a key_base64 or value_base64 beside it. The exit code is 1 when a file could not be read to its end.
"""

VERIFY_DESCRIPTION: Final = """\
Read every byte of a log and hold its files against each other.

Checked are the length, magic and CRC of every batch, the order of offsets in and across segments, each entry of the
offset, time and transaction indexes, leader epochs, producer snapshots and checkpoints. Nothing is written or locked.
"""

VERIFY_EXAMPLES: Final = """\
examples:
  tailrace log verify data/orders-0                     one partition
  tailrace log verify data                              every partition in a log.dirs directory
  tailrace log verify data --json | jq 'select(.severity == "error")'

An error means that bytes contradict the format or each other: the exit code is 1. A note is worth knowing and
harmless, such as files that are about to be deleted. Indexes may lag behind a log that is being written.
"""

DIRS_DESCRIPTION: Final = """\
Show what is in a broker's data directories: whose they are, their partitions with sizes and offsets, and of compacted
topics how much is clean and dirty, drawn as a bar, or why a log cannot be cleaned.

Logs are not opened: offsets are read from their last segments and from checkpoints. Nothing is written or locked, so a
running broker is not disturbed. A terminal gets a picture, a pipe gets lines of key=value.
"""

DIRS_EXAMPLES: Final = """\
examples:
  tailrace log dirs data                                the largest partitions first
  tailrace log dirs /disk1/data /disk2/data             several directories of one broker, or of several
  tailrace log dirs data --sort dirty --limit 10        where compaction has most to do
  tailrace log dirs data --topic orders                 the partitions of one topic
  tailrace log dirs data --json | jq 'select(.uncleanable != null)'

A topic is known to compact when a partition of it was cleaned before; before its first clean, name it with
--compacted. Dirty is what compaction could clean now; a broker does so above min.cleanable.dirty.ratio (50 %).
Checkpoints are as old as the broker's last ones. The exit code is 1 when something could not be read.
"""

COMPACT_DESCRIPTION: Final = """\
Compact topics in the data directory of a stopped broker, ours or Apache Kafka's: of all records with the same key the
last one stays, as after a clean by the broker itself.

Without --topic, the topics that were cleaned before and the internal ones are compacted. Others are not even opened.
The directory is locked meanwhile, and a running broker's is refused. Compaction never touches the active segment of a
partition, its last one, nor records that are not replicated to all in-sync replicas or whose transaction is open.
"""

COMPACT_EXAMPLES: Final = """\
examples:
  tailrace log dirs data                                how much there is to clean
  tailrace log compact data                             whatever is known to compact
  tailrace log compact data --topic orders              a topic with cleanup.policy=compact
  tailrace log compact /disk1/data /disk2/data          several directories of one broker
  tailrace log compact data --delete-retention-ms 0     let tombstones go with the next clean
  tailrace log compact data --json | jq 'select(.type == "summary")'

It is safe to interrupt (Ctrl-C), and a crash leaves each log as it was or compacted. Give the topic's own
segment.bytes and delete.retention.ms where they are not Kafka's defaults: a data directory does not hold them.
The exit code is 1 when a partition could not be cleaned; the others are, all the same.
"""


def register(subparsers: Subparsers) -> None:
    group = subparsers.add_parser(
        "log", help="look at a log's files, and compact them", description="Look at a log's files, and compact them."
    )
    group.set_defaults(handler=lambda _: show_help(group))
    commands = group.add_subparsers(title="commands", metavar="command")
    register_dirs(commands)
    register_compact(commands)
    register_dump(commands)
    register_verify(commands)


def register_dirs(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "dirs",
        help="show what is in data directories: partitions, sizes, offsets, clean and dirty",
        description=DIRS_DESCRIPTION,
        epilog=DIRS_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directories", nargs="+", metavar="DIR", help="a data directory, as named in log.dirs")
    parser.add_argument("--topic", action="append", default=[], metavar="T", help="only this topic; may be repeated")
    parser.add_argument(
        "--compacted", action="append", default=[], metavar="T", help="this topic compacts; may be repeated"
    )
    parser.add_argument(
        "--sort", choices=("size", "dirty", "name"), default="size", help="the order of partitions (default: size)"
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="the first N partitions of each directory")
    parser.add_argument("--json", action="store_true", help="one JSON object per line, with keys that stay")
    parser.set_defaults(handler=run_dirs)


def register_compact(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "compact",
        help="keep only the last record of each key, in the directories of a stopped broker",
        description=COMPACT_DESCRIPTION,
        epilog=COMPACT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directories", nargs="+", metavar="DIR", help="a data directory, as named in log.dirs")
    parser.add_argument("--topic", action="append", default=[], metavar="T", help="only this topic; may be repeated")
    parser.add_argument(
        "--min-dirty-ratio",
        type=ratio,
        default=0.0,
        metavar="R",
        help="leave a log alone of which no more than this part is dirty (default: 0, all is cleaned)",
    )
    parser.add_argument(
        "--delete-retention-ms",
        type=whole,
        default=86_400_000,
        metavar="MS",
        help="how long tombstones stay after their first clean (default: 86400000, a day)",
    )
    parser.add_argument(
        "--segment-bytes", type=size_in_bytes, default="1g", metavar="N", help="segments up to this size (default: 1g)"
    )
    parser.add_argument(
        "--threads", type=positive, default=1, metavar="N", help="so many partitions at a time (default: 1)"
    )
    parser.add_argument(
        "--dedupe-buffer-size",
        type=size_in_bytes,
        default="128m",
        metavar="N",
        help="memory for keys, 24 bytes each; a log with more takes several passes (default: 128m)",
    )
    parser.add_argument(
        "--all-committed",
        action="store_true",
        help="take every record for replicated, whatever replication-offset-checkpoint says",
    )
    parser.add_argument("--drop-keyless", action="store_true", help="let records without a key go")
    parser.add_argument("--json", action="store_true", help="one JSON object per line: plan, partitions, summary")
    parser.set_defaults(handler=run_compact)


def register_dump(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "dump",
        help="show what is in batches, records, indexes, snapshots and checkpoints",
        description=DUMP_DESCRIPTION,
        epilog=DUMP_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="+", metavar="FILE|DIR", help="a log's file, or a directory of them")
    parser.add_argument("--records", action="store_true", help="show the records in each batch")
    parser.add_argument("--json", action="store_true", help="one JSON object per line, with keys that stay")
    parser.add_argument("--limit", type=positive, metavar="N", help="at most N batches or entries of each file")
    parser.set_defaults(handler=run_dump)


def register_verify(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "verify",
        help="check that everything in a log's files holds together",
        description=VERIFY_DESCRIPTION,
        epilog=VERIFY_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directories", nargs="+", metavar="DIR", help="a partition's directory, or one that holds such")
    parser.add_argument("--json", action="store_true", help="one JSON object per line: each finding, then a summary")
    parser.set_defaults(handler=run_verify)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return int(text)


def whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return value


def show_help(group: argparse.ArgumentParser) -> int:
    group.print_help(sys.stderr)
    return WRONG_USAGE


def run_dirs(args: argparse.Namespace) -> int:
    from tailrace.cli import log_dirs

    return log_dirs.run(args)


def run_compact(args: argparse.Namespace) -> int:
    from tailrace.cli import log_compact

    return log_compact.run(args)


def run_dump(args: argparse.Namespace) -> int:
    from tailrace.cli import log_dump

    return log_dump.run(args)


def run_verify(args: argparse.Namespace) -> int:
    from tailrace.cli import log_verify

    return log_verify.run(args)
