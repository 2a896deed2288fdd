from __future__ import annotations

import make_cli_reference
from tailrace.cli.command_tree import tree_of
from tailrace.cli.main import COMMANDS, build_parser


def test_the_reference_is_up_to_date() -> None:
    made = make_cli_reference.reference()
    assert make_cli_reference.REFERENCE.read_text() == made, "run python tools/make_cli_reference.py"


def test_every_command_teaches_with_examples() -> None:
    for node in tree_of(build_parser(COMMANDS)).walk():
        if not node.commands:
            assert node.help, node.path
            assert "examples:" in (node.parser.epilog or ""), node.path
        for option in node.options:
            assert option.help, (node.path, option.flags)
        for argument in node.arguments:
            assert argument.help, (node.path, argument.metavar)
