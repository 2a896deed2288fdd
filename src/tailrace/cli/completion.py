"""`tailrace completion`: scripts with which shells complete the command line. Light: they are made when asked for."""

from __future__ import annotations

import argparse
from typing import Final

from tailrace.cli.command import Subparsers
from tailrace.cli.remote_args import add_command

SHELLS: Final = ("bash", "zsh", "fish")

DESCRIPTION: Final = """\
Print a script that lets your shell complete commands, options, their values, and names of topics, groups and
transactional ids.

Names are asked of the broker that TAILRACE_BOOTSTRAP names, or localhost:9092, when you press Tab.
"""

EXAMPLES: Final = """\
examples:
  source <(tailrace completion bash)                    for this shell
  tailrace completion bash > ~/.local/share/bash-completion/completions/tailrace
  tailrace completion zsh > "${fpath[1]}/_tailrace"     then begin a new shell
  tailrace completion fish > ~/.config/fish/completions/tailrace.fish
"""


def register(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "completion", "print a script for your shell", DESCRIPTION, EXAMPLES, run)
    parser.add_argument("shell", choices=SHELLS, help="the shell that you use")


def run(args: argparse.Namespace) -> int:
    from tailrace.cli import completion_scripts
    from tailrace.cli.main import COMMANDS, build_parser

    print(completion_scripts.script(args.shell, build_parser(COMMANDS)), end="")
    return 0
