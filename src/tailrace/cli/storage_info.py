"""`tailrace storage info`: how the directories of a node are formatted. The exit code is 1 if there is a problem."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError, prepare_stdout, report
from tailrace.cli.storage_format import inspect, storage_config
from tailrace.cli.storage_items import directory_item, metadata_item
from tailrace.env.real import real_env

FAILED: Final = 1


def run(args: argparse.Namespace) -> int:
    prepare_stdout()
    config = storage_config(args.config)
    found = inspect(config, real_env())
    items: list[Item] = [directory_item(each, config.metadata_log_dir) for each in found.directories]
    if found.meta is not None:
        items.insert(0, metadata_item(found))
    if args.json:
        items += [{"type": "problem", "problem": each.text, "hint": each.hint} for each in found.problems]
    if args.json or not sys.stdout.isatty():
        print_items(items, as_json=args.json)
    else:
        from tailrace.cli import storage_text

        storage_text.show_storage(items)
    sys.stdout.flush()  # the directories come before the errors
    if not args.json:
        for each in found.problems:
            report(CommandError(*each))
    return FAILED if found.problems else 0
