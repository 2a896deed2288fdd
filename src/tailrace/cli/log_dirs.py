"""`tailrace log dirs`: which directories, which partitions of them in which order, and the exit code.

What cannot be read gets an error line and a hint, everything else is shown all the same, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from tailrace.cli.dir_facts import DirectoryFacts, DirectoryReader, PartitionFacts
from tailrace.cli.dir_text import Pictures, items_of
from tailrace.cli.lines import Item, plain_line
from tailrace.cli.output import CommandError, prepare_stdout, report
from tailrace.cli.terminal import Terminal
from tailrace.env.real import real_env
from tailrace.model.errors import StorageError, TailraceError
from tailrace.storage.names import parse_offset

FAILED: Final = 1
DIRECTORY_HINT: Final = "give a broker's data directory: an entry of log.dirs, which holds directories like orders-0"
TOPIC_HINT: Final = "without --topic all partitions are shown; a partition may be in another directory of log.dirs"

ORDERS: Final[dict[str, Callable[[PartitionFacts], object]]] = {
    "size": lambda each: (-each.log_bytes, each.partition),
    "dirty": lambda each: (-(each.cleaning.dirty_bytes if each.cleaning is not None else -1), each.partition),
    "name": lambda each: each.partition,
}


def run(args: argparse.Namespace) -> int:
    prepare_stdout()
    show = output(as_json=args.json)
    succeeded = True
    missing = set(args.topic)
    for given in args.directories:
        try:
            facts = read(given.rstrip("/") or "/", args.topic, args.compacted)
        except TailraceError as error:
            report(error)
            succeeded = False
            continue
        missing -= {each.partition.topic for each in facts.partitions}
        chosen = sorted(facts.partitions, key=ORDERS[args.sort])  # type: ignore[arg-type]  # all of one type
        show(facts, chosen[: args.limit])
        problems = [*facts.problems, *(each.problem for each in facts.partitions if each.problem is not None)]
        sys.stdout.flush()  # the facts stand before the complaints
        for problem in problems:
            report(CommandError(*problem))
        succeeded &= not problems
    for topic in sorted(missing):
        report(CommandError(f"no partition of the topic {topic} is there", TOPIC_HINT))
    return 0 if succeeded and not missing else FAILED


def read(path: str, topics: Sequence[str], compacted: Sequence[str]) -> DirectoryFacts:
    wanted = frozenset(topics)
    try:
        facts = DirectoryReader(real_env().files, path, compacted).read(
            lambda partition: not wanted or partition.topic in wanted
        )
    except FileNotFoundError:
        raise CommandError(f"{path} does not exist", DIRECTORY_HINT) from None
    except NotADirectoryError:
        raise CommandError(f"{path} is not a directory", DIRECTORY_HINT) from None
    except OSError as cause:
        raise StorageError(f"list {path}", cause) from cause
    refuse_strange(facts)
    return facts


def refuse_strange(facts: DirectoryFacts) -> None:
    if facts.is_known:
        return
    if any(parse_offset(other.name) is not None for other in facts.others):
        above = os.path.dirname(os.path.abspath(facts.path))
        hint = f"it looks like one partition's directory: give the one above it, {above}"
        raise CommandError(f"{facts.path} is no data directory: it holds a log's files itself", hint)
    held = "is empty" if not facts.others else "holds nothing of a broker"
    raise CommandError(f"{facts.path} is no data directory: it {held}", DIRECTORY_HINT)


def output(*, as_json: bool) -> Callable[[DirectoryFacts, Sequence[PartitionFacts]], None]:
    if as_json:
        return lambda facts, partitions: lines(facts, partitions, json.dumps)
    if sys.stdout.isatty():
        return Pictures(Terminal()).show
    return lambda facts, partitions: lines(facts, partitions, plain_line)


def lines(facts: DirectoryFacts, partitions: Sequence[PartitionFacts], line: Callable[[Item], str]) -> None:
    for item in items_of(facts, partitions):
        print(line(item))
