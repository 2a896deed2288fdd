"""Writes docs/cli.md: every command with its arguments, options and examples, read off the command line itself.

    python tools/make_cli_reference.py            write it
    python tools/make_cli_reference.py --check    exit 1 when it is not up to date

The text does not depend on the Python that runs it: argparse's own help does.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tailrace.cli.command_tree import Argument, Node, Option, tree_of
from tailrace.cli.main import COMMANDS, build_parser

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
WIDTH = 120
LEFT = 32

HEAD = """\
# The command line

<!-- Made by tools/make_cli_reference.py. Change the command's own help, not this. -->

Every command tells the same with `--help`. A terminal gets tables and colours, a pipe gets lines of `key=value`, and
`--json` gives one JSON object per line, with keys that stay. Commands that talk to a cluster find it by
`--bootstrap HOST:PORT` or the variable `TAILRACE_BOOTSTRAP`; without either it is localhost:9092.

Exit codes: 0 done; 1 an error, told with a hint on standard error; 2 wrong usage; 130 interrupted; 141 the reader of
the output went away.
"""


def reference() -> str:
    nodes = tree_of(build_parser(COMMANDS)).walk()[1:]
    commands = [node for node in nodes if not node.commands]
    listed = "\n".join(f"- [{' '.join(node.path)}](#{'-'.join(node.path)}): {node.help}" for node in commands)
    return "\n".join([HEAD, listed, "", *(section(node) for node in commands)])


def section(node: Node) -> str:
    name = " ".join(node.path)
    parts = [synopsis(node), (node.parser.description or "").strip(), "\n".join(rows(node))]
    parts.append((node.parser.epilog or "").strip())
    body = "\n\n".join(part for part in parts if part)
    return f"## {name}\n\n```text\n{body}\n```\n"


def synopsis(node: Node) -> str:
    return " ".join([*node.path, *map(placed, node.arguments), "[OPTION]…"])


def placed(argument: Argument) -> str:
    name = argument.metavar + ("…" if argument.is_repeatable else "")
    return f"[{name}]" if argument.is_optional else name


def rows(node: Node) -> Iterator[str]:
    for argument in node.arguments:
        yield from row(argument.metavar, argument.help)
    for option in node.options:
        if "--help" not in option.flags:
            yield from row(title(option), option.help)


def title(option: Option) -> str:
    return ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")


def row(name: str, text: str) -> Iterator[str]:
    lines = textwrap.wrap(text, WIDTH - LEFT) or [""]
    if len(name) + 4 > LEFT:
        yield f"  {name}"
        name = ""
    yield f"  {name:<{LEFT - 2}}{lines[0]}".rstrip()
    for line in lines[1:]:
        yield f"{'':<{LEFT}}{line}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/cli.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when it is not up to date")
    args = parser.parse_args()
    made = reference()
    if not args.check:
        REFERENCE.write_text(made)
        return 0
    if REFERENCE.exists() and REFERENCE.read_text() == made:
        return 0
    print("docs/cli.md is not up to date: run python tools/make_cli_reference.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
