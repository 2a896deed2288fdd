"""What is asked about a table: status, history, files, what a run would do. Nothing is changed, no Spark is started."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tailrace.cli.lines import print_items
from tailrace.cli.output import CommandError
from tailrace.cli.table_items import dry_run_items, file_items, first_version, status_items, version_item

if TYPE_CHECKING:
    from tailrace.spark.tables.job.settings import TableSettings
    from tailrace.spark.tables.store import Snapshot, Store


def run(args: argparse.Namespace, settings: TableSettings) -> int:
    if args.dry_run:
        return show_dry_run(args, settings)
    if args.status:
        return show_status(args, settings)
    from tailrace.spark.tables.job.places import store_of

    store = store_of(settings)
    if args.files:
        return show_files(args, store)
    opened(store, args.topic)
    history = store.history()
    if not history:
        raise no_table(store.name)
    if args.at:
        items = [first_version(history, args.at)]
    else:
        items = [version_item(commit) for commit in history]
    if is_for_programs(args):
        print_items(items, as_json=args.json)
        return 0
    from tailrace.cli import table_text

    if args.at:
        table_text.show_first_version(store.name, args.at, items[0])
    else:
        table_text.show_history(store.name, items)
    return 0


def show_status(args: argparse.Namespace, settings: TableSettings) -> int:
    from tailrace.spark.tables.table import status

    found = status(settings)
    if args.metrics is not None:
        from tailrace.cli.table_run import write_metrics

        write_metrics(args.metrics, found)
    items = status_items(found)
    if is_for_programs(args):
        print_items(items, as_json=args.json)
        return 0
    from tailrace.cli import table_text

    table_text.show_status(items)
    return 0


def show_dry_run(args: argparse.Namespace, settings: TableSettings) -> int:
    from tailrace.spark.tables.table import dry_run

    items = dry_run_items(dry_run(settings))
    if is_for_programs(args):
        print_items(items, as_json=args.json)
        return 0
    from tailrace.cli import table_text

    table_text.show_dry_run(items)
    return 0


def show_files(args: argparse.Namespace, store: Store) -> int:
    """A pipe gets paths and nothing else: readers take them as they are."""
    newest = opened(store, args.topic)
    snapshot = newest if args.version is None else version_of(store, args.version)
    items = file_items(snapshot)
    if args.json:
        print_items(items, as_json=True)
    elif not sys.stdout.isatty():
        for item in items:
            print(item["path"])
    else:
        from tailrace.cli import table_text

        table_text.show_files(store.name, snapshot.version, items)
    return 0


def opened(store: Store, topic: str) -> Snapshot:
    """The newest version. Another topic's table is refused, as it is by everything else that is asked or done."""
    from tailrace.spark.tables.job.tables import check_is_of

    newest = store.open()
    if newest is None:
        raise no_table(store.name)
    check_is_of(store, newest.about, topic)
    return newest


def version_of(store: Store, version: int) -> Snapshot:
    from tailrace.spark.errors import TableError

    try:
        return store.at(version)
    except TableError as error:
        raise CommandError(str(error), "--history lists the versions that are kept") from error


def is_for_programs(args: argparse.Namespace) -> bool:
    return args.json or not sys.stdout.isatty()


def no_table(name: str) -> CommandError:
    return CommandError(f"there is no table at {name} yet", "run the command without --files, --history and --at first")
