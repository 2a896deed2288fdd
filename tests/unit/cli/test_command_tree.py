"""Properties of the whole command tree: which options are accepted, and which commands other texts name."""

from __future__ import annotations

import pytest

from tailrace.cli.command_tree import Node, tree_of
from tailrace.cli.main import COMMANDS, build_parser, main

NODES = tree_of(build_parser(COMMANDS)).walk()


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
