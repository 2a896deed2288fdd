"""The `tailrace` command: parses arguments, runs one command, turns its outcome into an exit code:

    0    done
    1    a TailraceError, or the output cannot be written: `error: …` and, where there is one, `hint: …` on stderr
    2    wrong usage
    130  interrupted (128 + SIGINT)
    141  whoever read our output went away (128 + SIGPIPE)

An error that is none of these is a bug of ours and shows its traceback.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

from tailrace import __version__
from tailrace.cli.command import Command, CommandModule, CommandParser, Handler, needed
from tailrace.cli.output import CommandError, report
from tailrace.model.errors import StorageError, TailraceError

# In the order `--help` lists them. Only the command that runs is loaded: a node needs no other one.
COMMANDS: Final[tuple[Command, ...]] = (
    CommandModule("serve", "tailrace.cli.serve"),
    CommandModule("topic", "tailrace.cli.topic"),
    CommandModule("produce", "tailrace.cli.produce"),
    CommandModule("consume", "tailrace.cli.consume"),
    CommandModule("group", "tailrace.cli.group"),
    CommandModule("txn", "tailrace.cli.txn"),
    CommandModule("config", "tailrace.cli.config"),
    CommandModule("cluster", "tailrace.cli.cluster"),
    CommandModule("storage", "tailrace.cli.storage"),
    CommandModule("pipeline", "tailrace.cli.pipeline"),
    CommandModule("demo", "tailrace.cli.demo"),
    CommandModule("log", "tailrace.cli.log"),
    CommandModule("sim", "tailrace.cli.sim"),
    CommandModule("completion", "tailrace.cli.completion"),
)

FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 128 + signal.SIGINT
OUTPUT_CLOSED: Final = 128 + signal.SIGPIPE


def main(argv: Sequence[str] | None = None, commands: Sequence[Command] = COMMANDS) -> int:
    if sys.stdout is None:
        report(CommandError("standard output is closed", "to see nothing, send it to /dev/null"))
        return FAILED
    try:
        exit_code = run(commands, sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()  # here, so that a closed pipe shows now and not in the interpreter's last breath
    except TailraceError as error:
        report(error)
        return FAILED
    except BrokenPipeError:
        silence_stdout()
        return OUTPUT_CLOSED
    except OSError as error:
        if error.filename is not None:
            raise
        silence_stdout()
        report(StorageError("write to standard output", error))
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return exit_code


def run(commands: Sequence[Command], argv: Sequence[str]) -> int:
    handler, args = parsed(commands, argv)
    return handler(args) if handler else WRONG_USAGE


def parsed(commands: Sequence[Command], argv: Sequence[str]) -> tuple[Handler | None, argparse.Namespace]:
    """Without a command there is no handler, and help is printed. No parser is kept: a handler may run for months."""
    parser = build_parser(needed(commands, argv))
    args = parser.parse_args(argv)
    handler: Handler | None = getattr(args, "handler", None)
    if handler is None:
        parser.print_help(sys.stderr)
    return handler, args


def build_parser(commands: Sequence[Command]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = CommandParser(
        prog="tailrace", description="A log that writes Apache Kafka's files."
    )
    parser.add_argument("--version", action=PrintVersion, help="print versions and how the kernels run, and exit")
    if commands:
        subparsers = parser.add_subparsers(title="commands", metavar="command")
        for command in commands:
            command.register(subparsers)
    return parser


class PrintVersion(argparse.Action):
    """Unlike argparse's own version action it loads the kernels only when it is asked about them."""

    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **kwargs)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(version_text(), flush=True)
        parser.exit()


def version_text() -> str:
    from tailrace.record.kernels import COMPILED

    kernels = "compiled" if COMPILED else "interpreted"
    return f"tailrace {__version__}\npython {sys.version.split()[0]}\nkernels: {kernels}"


def silence_stdout() -> None:
    """What is still buffered has no reader: let the flush at exit go nowhere instead of failing once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
