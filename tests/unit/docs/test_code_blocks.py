"""Every code block of README.md and docs has a kind, and those that can run do, page by page.

Pages with Spark run in tests/spark/test_pages_with_spark.py, in the session that is there, and the page on clusters in
test_clusters_page.py, with several processes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.docs.page_blocks import KINDS, PAGES, PYTHON, SHELL, TEXT, Command, blocks, command, commands, name_of
from support.docs.page_run import DEMO, NOT_RUN, PageRun, is_tailrace, needs_spark, parse, pattern_of

RUNNABLE = [page for page in PAGES if {each.kind for each in blocks(page)} & {PYTHON, SHELL}]
WITH_A_CLUSTER = {"docs/operations/clusters.md"}
WITH_ONE_BROKER = [page for page in RUNNABLE if not needs_spark(page) and name_of(page) not in WITH_A_CLUSTER]
REFERENCE = "docs/cli.md"
PROGRAMS = r"(\.venv/bin/)?(tailrace|python|pip|make) "


def every_command() -> list[Command]:
    return [
        each
        for page in RUNNABLE
        for block in blocks(page)
        if block.kind == SHELL
        for each in commands(block)
        if each.programs
    ]


def test_every_block_has_a_known_kind() -> None:
    found = [(f"{name_of(page)}:{each.line}", each.info) for page in PAGES for each in blocks(page)]
    assert [(where, info) for where, info in found if not info or info.split()[0] not in KINDS] == []


def test_no_command_hides_in_a_text_block() -> None:
    hidden = [
        f"{name_of(page)}:{number}: {line}"
        for page in PAGES
        if name_of(page) != REFERENCE
        for block in blocks(page)
        if block.kind == TEXT
        for number, line in enumerate(block.lines, block.line)
        if re.match(PROGRAMS, line)
    ]
    assert hidden == []


def test_every_command_with_a_special_rule_is_on_a_page() -> None:
    found = every_command()
    assert {pattern_of(each) for each in found} - {None} == set(NOT_RUN)
    assert {" ".join(each.words) for each in found} >= DEMO


def test_examples_of_the_command_line_are_valid_usage() -> None:
    """They are the epilogs of the help: a command, two or more spaces, what it does."""
    (reference,) = [page for page in PAGES if name_of(page) == REFERENCE]
    parsed = 0
    for block in blocks(reference):
        _, _, examples = block.text.partition("\nexamples:\n")
        for line in examples.partition("\n\n")[0].splitlines():
            if line.strip().startswith("source <("):  # process substitution
                continue
            example = command(re.split(r"\s{2,}", line.strip())[0], f"{REFERENCE}, {line}")
            for words in example.programs:
                if is_tailrace(words):
                    parse(example.where, words)
                    parsed += 1
    assert parsed > 100


@pytest.mark.parametrize("page", WITH_ONE_BROKER, ids=name_of)
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for client in ("aiokafka", "confluent_kafka", "kafka"):
        pytest.importorskip(client)
    monkeypatch.chdir(tmp_path)
    with PageRun(page, tmp_path, request.getfixturevalue) as running:
        running.run()
