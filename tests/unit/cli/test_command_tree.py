"""Properties of the whole command tree: which options are accepted, and which commands other texts name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tailrace
from tailrace.cli.command_tree import Node, tree_of
from tailrace.cli.main import COMMANDS, build_parser, main

TREE = tree_of(build_parser(COMMANDS))
NODES = TREE.walk()
SOURCES = sorted(Path(tailrace.__file__).parent.rglob("*.py"))
# `tailrace topic list --sizes`, up to whatever cannot belong to a command line; "{}" is a value put in when it runs.
MAY_MENTION = re.compile(r"tailrace [a-z]|program")
MENTION = re.compile(r"(?<![\w=/.-])(?:tailrace|\{program\}) ([a-z][^`;|\n]*)")


def prefixes_of_options(node: Node) -> set[str]:
    """Every proper prefix of a long option that is not an option too."""
    flags = {flag for option in node.options for flag in option.flags if flag.startswith("--")}
    return {flag[:end] for flag in flags for end in range(len("--") + 1, len(flag))} - flags


def without_requirements(node: Node) -> Node:
    """The node with a parser that accepts an empty command line."""
    for action in node.parser._actions:
        action.required = False
    for group in node.parser._mutually_exclusive_groups:
        group.required = False
    return node


def test_no_command_accepts_a_prefix_of_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    checked = 0
    for node in map(without_requirements, tree_of(build_parser(COMMANDS)).walk()):
        for prefix in sorted(prefixes_of_options(node)):
            for argument in (prefix, f"{prefix}=1"):
                try:
                    rest = node.parser.parse_known_args([argument])[1]
                except SystemExit:
                    rest = [capsys.readouterr().err]
                assert rest == [argument], " ".join(node.path)
                checked += 1
    assert checked > 2 * len(NODES)


@pytest.mark.parametrize("option", [["--key", "k1"], ["--key=k1"]], ids=" ".join)
def test_produce_rejects_an_unknown_key_option_as_wrong_usage(
    capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["produce", "orders", *option, "--bootstrap", "127.0.0.1:1"])
    assert exit_info.value.code == 2
    assert "unrecognized arguments: --key" in capsys.readouterr().err


def texts_of(source: str) -> Iterator[str]:
    """Every string in the source; an f-string with {} for each value, but {program} for the name of the program."""
    nodes = list(ast.walk(ast.parse(source)))
    skipped = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    skipped |= {id(node.args[0]) for node in nodes if isinstance(node, ast.Call) and names_spark_application(node)}
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(map(shown_part, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def names_spark_application(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.func, ast.Name) and call.func.id == "started"


def shown_part(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        return "{program}" if "program" in ast.unparse(part.value) else "{}"
    assert isinstance(part, ast.Constant)
    return str(part.value)


def command_named(line: str) -> tuple[Node | None, list[str]]:
    """The command that a line calls, None when there is no such command, and the options given to it."""
    node, words = TREE, re.split(r"  |, ", line)[0].split()
    while node.commands:
        word = words.pop(0).strip(".,:") if words else ""
        if not re.fullmatch("[a-z-]+", word):
            break
        found = [command for command in node.commands if command.path[-1] == word]
        if not found:
            return None, []
        node = found[0]
    return node, re.findall(r"(?<!\S)--[a-z-]+", " ".join(words))


def test_every_command_and_option_that_a_text_names_exists() -> None:
    wrong, checked = [], 0
    for source in SOURCES:
        code = source.read_text()
        for text in texts_of(code) if MAY_MENTION.search(code) else ():
            for line in MENTION.findall(text):
                checked += 1
                node, options = command_named(line)
                known = {flag for option in node.options for flag in option.flags} if node is not None else set()
                if node is None or not known.issuperset(options):
                    wrong.append(f"{source.name}: tailrace {line}")
    assert wrong == [], wrong
    assert checked > 100
