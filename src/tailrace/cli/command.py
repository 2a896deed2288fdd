"""What the command line asks of a command: one module per command, listed in `cli.main.COMMANDS`.

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
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Handler: TypeAlias = Callable[[argparse.Namespace], int]


class Command(Protocol):
    def register(self, subparsers: Subparsers, /) -> None: ...


class CommandParser(argparse.ArgumentParser):
    """The parser of the program and, because subparsers take their parent's class, of every command.

    Options must be written in full. A prefix that argparse completes to some other option makes a mistyped command
    write wrong data, and makes every new option a breaking change.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **kwargs})
