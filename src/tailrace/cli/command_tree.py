"""The commands there are, read off argparse: for the completion scripts and for the reference in docs/cli.md."""

from __future__ import annotations

import argparse
from typing import NamedTuple


class Option(NamedTuple):
    flags: tuple[str, ...]
    metavar: str
    """Empty for an option without a value."""
    choices: tuple[str, ...]
    help: str


class Argument(NamedTuple):
    metavar: str
    choices: tuple[str, ...]
    help: str
    is_optional: bool
    is_repeatable: bool


class Node(NamedTuple):
    """A command. `path` begins with the program's name."""

    path: tuple[str, ...]
    help: str
    """One line, as its parent lists it."""
    parser: argparse.ArgumentParser
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]
    commands: tuple[Node, ...]

    def walk(self) -> list[Node]:
        """This one and all below it."""
        return [self, *(node for command in self.commands for node in command.walk())]


def tree_of(parser: argparse.ArgumentParser, path: tuple[str, ...] = (), title: str = "") -> Node:
    here = path or (parser.prog,)
    options, arguments, commands = [], [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            titles = {each.dest: each.help or "" for each in action._choices_actions}
            commands = [tree_of(each, (*here, name), titles.get(name, "")) for name, each in action.choices.items()]
        elif action.option_strings:
            options.append(
                Option(tuple(action.option_strings), _metavar(action), _choices(action), _help(parser, action))
            )
        else:
            is_optional, is_repeatable = action.nargs in ("*", "?"), action.nargs in ("*", "+")
            text = _help(parser, action)
            arguments.append(Argument(_metavar(action), _choices(action), text, is_optional, is_repeatable))
    return Node(here, title, parser, tuple(options), tuple(arguments), tuple(commands))


def _metavar(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if action.choices is not None and action.metavar is None:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())


def _choices(action: argparse.Action) -> tuple[str, ...]:
    return tuple(map(str, action.choices or ()))


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    formatter = parser._get_formatter()
    return formatter._expand_help(action) if action.help else ""
