"""What the commands that talk to a cluster have in common on the command line. Light: nothing is connected here."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from tailrace.cli.command import Handler, Subparsers

WRONG_USAGE: Final = 2
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
BOOTSTRAP_VARIABLE: Final = "TAILRACE_BOOTSTRAP"
DEFAULT_TIMEOUT_S: Final = 30.0


def add_group(subparsers: Subparsers, name: str, title: str) -> Subparsers:
    """A command that only has commands; without one it shows its help."""
    group = subparsers.add_parser(name, help=title, description=f"{title[0].upper()}{title[1:]}.")
    group.set_defaults(handler=lambda _: show_help(group))
    return group.add_subparsers(title="commands", metavar="command")


def show_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return WRONG_USAGE


def add_command(
    commands: Subparsers, name: str, title: str, description: str, examples: str, handler: Handler
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=title,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(handler=handler)
    return parser


def add_connection(
    parser: argparse.ArgumentParser,
    *,
    json_help: str = "one JSON object per line",
    with_controllers: bool = False,
    is_nested: bool = False,
) -> None:
    """--bootstrap, --timeout and --json; last, so that the command's own options stand first in its help.

    `with_controllers` adds --bootstrap-controller, for commands that an active controller can answer. `is_nested`: the
    command above this one has the same options, and what is given there holds if it is not given again.
    """
    group = parser.add_argument_group("cluster and output")
    addresses = group.add_mutually_exclusive_group()
    if with_controllers:
        addresses.add_argument(
            "--bootstrap-controller",
            default=argparse.SUPPRESS if is_nested else None,
            metavar="HOST:PORT",
            help="comma-separated controller listeners to start from, instead of brokers",
        )
    addresses.add_argument(
        "--bootstrap",
        default=argparse.SUPPRESS if is_nested else None,
        metavar="HOST:PORT",
        help=f"brokers to begin with, commas between them (default: ${BOOTSTRAP_VARIABLE} or {DEFAULT_BOOTSTRAP})",
    )
    group.add_argument(
        "--timeout",
        type=seconds,
        default=argparse.SUPPRESS if is_nested else DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help=f"time limit for each operation, such as a request or a delivery (default: {DEFAULT_TIMEOUT_S:g})",
    )
    unset = argparse.SUPPRESS if is_nested else False
    group.add_argument("--json", action="store_true", default=unset, help=json_help)


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def key_value(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key.strip() or not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key.strip(), value


def at_least_one(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 0x7FFF_FFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return int(text)


def not_negative(text: str) -> int:
    if not text.isdecimal() or int(text) > 0x7FFF_FFFF_FFFF_FFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 0 or more")
    return int(text)
