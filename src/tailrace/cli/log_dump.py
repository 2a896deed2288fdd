"""`tailrace log dump`: which files, in which order, how each is read, and what becomes of a file that cannot be.

A file that cannot be read gets an error line and a hint, the others are dumped all the same, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Final, NamedTuple, TypeAlias

from tailrace.cli import dump_items
from tailrace.cli.dump_text import PlainText, Tables
from tailrace.cli.lines import Item
from tailrace.cli.output import CommandError, prepare_stdout, printable, report
from tailrace.cli.terminal import Terminal
from tailrace.env import Files
from tailrace.env.real import real_env
from tailrace.model.errors import CorruptMessageError, StorageError, TailraceError
from tailrace.storage import names

Reader: TypeAlias = Callable[[Files, str], Iterator[Item]]

OFFSET_CHECKPOINTS: Final = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
PASSING_SUFFIXES: Final = (names.DELETED_SUFFIX, names.CLEANED_SUFFIX, names.SWAP_SUFFIX)
SEGMENT_ORDER: Final = (
    names.SNAPSHOT_SUFFIX,  # the producers as they were before the segment
    names.LOG_SUFFIX,
    names.INDEX_SUFFIX,
    names.TIME_INDEX_SUFFIX,
    names.TXN_INDEX_SUFFIX,
)
KNOWN_NAMES: Final = (
    "dump reads .log, .index, .timeindex, .txnindex and .snapshot files named by 20 digits, "
    "leader-epoch-checkpoint, partition.metadata and *-offset-checkpoint"
)


DAMAGE_HINT: Final = (
    "`tailrace log verify` tells what else is damaged; a torn end is cut off when the log is opened after a crash"
)


class Dump(NamedTuple):
    """What was asked for."""

    files: Files
    with_records: bool
    as_json: bool
    limit: int | None


def run(args: argparse.Namespace) -> int:
    prepare_stdout()
    dump = Dump(real_env().files, args.records, args.json, args.limit)
    succeeded = True
    for path in args.paths:
        try:
            for file in files_of(path):
                succeeded &= dump_file(dump, file)
        except TailraceError as error:
            report(error)
            succeeded = False
    return 0 if succeeded else 1


def dump_file(dump: Dump, path: str) -> bool:
    try:
        write(dump, path, limited(reader_of(dump, path)(dump.files, path), dump.limit))
    except OSError as error:
        if error.filename is None:  # not a file's: our own output's
            raise
        sys.stdout.flush()
        report(StorageError(f"read {path}", error))
        return False
    except TailraceError as error:
        sys.stdout.flush()  # what was good stands before the complaint
        hint = DAMAGE_HINT if isinstance(error, CorruptMessageError) else error.hint
        report(CommandError(f"{path}: {str(error).removeprefix(path).lstrip(': ')}", hint))
        return False
    return True


def write(dump: Dump, path: str, items: Iterator[Item]) -> None:
    if dump.as_json:
        for item in items:
            print(json.dumps({"file": path, **item}))
        return
    first = list(islice(items, 1))  # read before the heading: a file that is none of ours gets no heading
    if sys.stdout.isatty():
        Tables(Terminal(), with_records=dump.with_records).write(path, chain(first, items))
    else:
        PlainText().write(path, chain(first, items))


def limited(items: Iterator[Item], limit: int | None) -> Iterator[Item]:
    """The first so many batches or entries; records go with their batch."""
    count = 0
    for item in items:
        if item["type"] not in ("record", "unreadable"):
            count += 1
            if limit is not None and count > limit:
                return
        yield item


# Which files


def files_of(path: str) -> list[str]:
    """The file, or what a directory holds, in the order in which it makes sense."""
    try:
        kind = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        problem = "is a link to a file that does not exist" if os.path.islink(path) else "does not exist"
        raise CommandError(f"{path or repr(path)} {problem}", hint_for_missing(path)) from None
    except OSError as error:
        raise StorageError(f"read {path}", error) from error
    if stat.S_ISREG(kind):
        return [path]
    if not stat.S_ISDIR(kind):
        raise CommandError(f"{path} is no regular file", KNOWN_NAMES)
    found = files_in(path)
    if not found:
        raise CommandError(f"{path} holds no files of a log", KNOWN_NAMES)
    return found


def files_in(directory: str) -> list[str]:
    """A partition's directory, or one that holds such directories and their offset checkpoints."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        raise StorageError(f"list {directory}", error) from error
    found = sorted((e.name for e in entries if e.is_file() and kind_of(e.name) is not None), key=place_of)
    paths = [f"{directory.rstrip('/') or '/'}/{name}" for name in found]
    for entry in entries:
        if entry.is_dir() and is_partition_name(entry.name):
            paths += files_in(entry.path)
    return paths


def place_of(name: str) -> tuple[int, int, int, str]:
    """Small files first, then segment by segment."""
    offset = names.parse_offset(name)
    if offset is None:
        return (0, 0, 0, name)
    return (1, offset, SEGMENT_ORDER.index(kind_of(name) or names.LOG_SUFFIX), name)


def is_partition_name(name: str) -> bool:
    try:
        names.parse_partition_dir(name)
    except TailraceError:
        return False
    return True


def kind_of(name: str) -> str | None:
    """A segment file's suffix, or the whole name of a file that has one of its own; None for a stranger."""
    for suffix in PASSING_SUFFIXES:
        name = name.removesuffix(suffix)
    if name in (names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA, *OFFSET_CHECKPOINTS):
        return name
    return next((suffix for suffix in SEGMENT_ORDER if name.endswith(suffix)), None)


def hint_for_missing(path: str) -> str:
    directory = os.path.dirname(path) or "."
    if not os.path.isdir(directory):
        return f"{directory} does not exist either"
    try:
        beside = [name for name in sorted(os.listdir(directory)) if kind_of(name) is not None]
    except OSError:
        return ""
    return f"{directory} holds {printable(beside[0])} and {len(beside) - 1} more" if beside else ""


def reader_of(dump: Dump, path: str) -> Reader:
    kind = kind_of(os.path.basename(path))
    if kind is None:
        raise CommandError("this is none of a log's files", KNOWN_NAMES)
    readers: dict[str, Reader] = {
        names.LOG_SUFFIX: partial(dump_items.log_items, with_records=dump.with_records),
        names.INDEX_SUFFIX: dump_items.offset_index_items,
        names.TIME_INDEX_SUFFIX: dump_items.time_index_items,
        names.TXN_INDEX_SUFFIX: dump_items.transaction_index_items,
        names.SNAPSHOT_SUFFIX: dump_items.snapshot_items,
        names.LEADER_EPOCH_CHECKPOINT: dump_items.epoch_items,
        names.PARTITION_METADATA: dump_items.metadata_items,
    }
    return readers.get(kind, dump_items.offset_checkpoint_items)
