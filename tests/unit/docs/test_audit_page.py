"""docs/audit.md lists every rule there is, with its severity and meaning, and no option that is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from tailrace.cli import audit_run
from tailrace.cli.command_tree import tree_of
from tailrace.cli.main import COMMANDS, build_parser
from tailrace.spark.auditing.audit import MAX_TRANSACTION_MS
from tailrace.spark.auditing.progress import STEPS
from tailrace.spark.auditing.rules import RULES
from tailrace.spark.searching.find import DEFAULT_AROUND, DEFAULT_DISORDER
from tailrace.spark.statistics.stats import DEFAULT_SAMPLE_BYTES, DEFAULT_TOP

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "audit.md").read_text()


def test_every_rule_is_listed_as_it_is() -> None:
    section = PAGE.partition("\n### Rules\n")[2].partition("\n### ")[0]
    listed = re.findall(r"^\| ([a-z-]+) \| (error|warning|note) \| (.+) \|$", section, re.MULTILINE)
    assert listed == [tuple(rule) for rule in RULES.values()]


def test_options_of_the_commands_that_are_named_exist() -> None:
    commands = [node for node in tree_of(build_parser(COMMANDS)).walk() if node.path[1:2] in (("pipeline",), ("demo",))]
    flags = {flag for command in commands for option in command.options for flag in option.flags}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= flags


def test_the_command_line_says_the_defaults_that_hold() -> None:
    assert MAX_TRANSACTION_MS == 15 * 60_000
    assert (DEFAULT_AROUND, DEFAULT_DISORDER) == ("5s", "1h")
    assert (DEFAULT_TOP, DEFAULT_SAMPLE_BYTES) == (10, 64 << 20)


def test_every_step_of_an_audit_has_words() -> None:
    assert set(audit_run.DOING) == set(STEPS)
