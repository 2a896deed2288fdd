"""What the command line asks of a command: one module per command, listed in `cli.main.COMMANDS` and loaded on use.

    def register(subparsers: Subparsers) -> None:
        parser = subparsers.add_parser("demo", help="…")
        parser.set_defaults(handler=run)

    def run(args: argparse.Namespace) -> int:
        ...

The handler returns the exit code. It raises `TailraceError` for everything a person can put right: `cli.main` turns
that into an error line and a hint. A group (`tailrace log dump`) calls `add_subparsers` on its own parser.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Handler: TypeAlias = Callable[[argparse.Namespace], int]

DEFAULT_COLUMNS: Final = 80
_RIGHT_MARGIN: Final = 2


class Command(Protocol):
    def register(self, subparsers: Subparsers, /) -> None: ...


class CommandModule(NamedTuple):
    """A command whose module is imported when it registers."""

    name: str
    module: str

    def register(self, subparsers: Subparsers, /) -> None:
        command: Command = import_module(self.module)
        command.register(subparsers)


def needed(commands: Sequence[Command], argv: Sequence[str]) -> Sequence[Command]:
    """Those that the parser of this command line must know: the one that its first word names, else all of them."""
    if argv:
        for command in commands:
            if isinstance(command, CommandModule) and command.name == argv[0]:
                return (command,)
    return commands


class CommandParser(argparse.ArgumentParser):
    """The parser of the program and, because subparsers take their parent's class, of every command.

    Options must be written in full. A prefix that argparse completes to some other option makes a mistyped command
    write wrong data, and makes every new option a breaking change.
    """

    def __init__(self, **kwargs: Any) -> None:
        formatter = with_width(kwargs.pop("formatter_class", argparse.HelpFormatter))
        super().__init__(**{"allow_abbrev": False, "formatter_class": formatter, **kwargs})


def with_width(formatter: type[argparse.HelpFormatter]) -> Callable[..., argparse.HelpFormatter]:
    """The formatter for the width of the terminal. Argparse would load `shutil`, and compression with it, to ask."""

    def create(prog: str) -> argparse.HelpFormatter:
        return formatter(prog, width=terminal_columns() - _RIGHT_MARGIN)

    return create


def terminal_columns() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    if sys.__stdout__ is not None:
        with suppress(ValueError, OSError):  # closed, detached, or not a terminal
            return os.get_terminal_size(sys.__stdout__.fileno()).columns or DEFAULT_COLUMNS
    return DEFAULT_COLUMNS
