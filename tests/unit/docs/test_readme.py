"""The README's examples are short, and its picture is of its example. They run in tests/spark."""

from __future__ import annotations

import re
from html import unescape

from support.docs.page_blocks import PYTHON, ROOT, blocks

README = ROOT / "README.md"


def example(mark: str) -> str:
    (found,) = [each.text for each in blocks(README) if each.kind == PYTHON and mark in each.text]
    return found


def lines_of_code(text: str) -> int:
    return len([line for line in text.splitlines() if line.strip()])


def test_examples_with_spark_are_short() -> None:
    assert lines_of_code(example("read_stream")) <= 10
    assert lines_of_code(example("read_table")) == 5


def test_the_guide_to_tables_has_the_same_example() -> None:
    assert example("read_table") in (ROOT / "docs" / "tables.md").read_text()


def test_the_picture_is_of_the_example() -> None:
    """tools/make_table_picture.py draws it."""
    drawn = unescape((ROOT / "docs" / "images" / "table.svg").read_text())
    for line in example("read_table").splitlines():
        assert line in drawn
    assert re.search(r"\| *chair *\|", drawn)
