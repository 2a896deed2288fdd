"""docs/tables.md lists every option, metric, format and kind of value there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from support.docs.page_blocks import PYTHON, ROOT, blocks
from support.docs.page_run import PageRun
from support.tables.harness import TableRig
from support.tables.model import Record
from tailrace.cli import pipeline
from tailrace.cli.command_tree import tree_of
from tailrace.cli.main import COMMANDS, build_parser, main
from tailrace.spark.tables.job import settings
from tailrace.spark.tables.job.report import TableReport
from tailrace.spark.tables.job.status import PartitionStatus, TableStatus, metrics_text

GUIDE = ROOT / "docs" / "tables.md"
PAGE = GUIDE.read_text()


def section(title: str) -> str:
    """From a heading of the second level to the next."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def listed(text: str) -> set[str]:
    """The first cells of its tables, where they are names."""
    return set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))


def test_every_option_is_listed() -> None:
    assert listed(section("Options")) == {*settings.OWN_OPTIONS, "maxOffsetsPerTrigger"}
    assert f"| {settings.DEFAULT_MAX_OFFSETS} |" in section("Options")


def test_formats_and_values_are_those_of_the_command_line_and_of_the_pipeline() -> None:
    assert listed(section("Formats")) == set(pipeline.FORMATS) == set(settings.FORMATS)
    assert listed(section("Values")) == set(pipeline.VALUES) == set(settings.VALUES)
    assert (pipeline.MODES, pipeline.KEYS) == (settings.MODES, settings.KEYS)


def test_every_metric_is_named() -> None:
    status = TableStatus("t", "p", "delta", "append", 1, 0, (PartitionStatus(0, 0, 0, 0),))
    made = set(
        re.findall(r"^# TYPE (\w+)", metrics_text(status, TableReport("t", "p", "delta", "append")), re.MULTILINE)
    )
    assert set(re.findall(r"`(tailrace_table_\w+)`", PAGE)) == made


def test_options_of_the_commands_that_are_named_exist() -> None:
    named = (("pipeline", "table"), ("demo",))
    commands = [node for node in tree_of(build_parser(COMMANDS)).walk() if node.path[1:] in named]
    flags = {flag for command in commands for option in command.options for flag in option.flags}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= flags


@pytest.mark.parametrize("package", ["duckdb", "polars"])
def test_the_files_of_a_parquet_table_are_read_as_it_says(
    package: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """Also a column that only later files have."""
    pytest.importorskip(package)
    rig = TableRig(tmp_path, "parquet", "append")
    for offset, value in enumerate([b'{"number": 1, "item": "01"}', b'{"number": 2, "item": "02", "late": "x"}']):
        rig.come([Record(0, offset, 0, b"k", value)])
        rig.run(partition_by="item")
    main(["pipeline", "table", "orders", "--to", str(rig.place), "--files"])
    (tmp_path / "files").write_text(capsys.readouterr().out)
    monkeypatch.chdir(tmp_path)
    (recipe,) = [each for each in blocks(GUIDE) if each.kind == PYTHON and f"import {package}" in each.text]
    page = PageRun(GUIDE, tmp_path, request.getfixturevalue)
    page.python(recipe)
    orders = page.namespace["orders"].select("item", "late")
    rows = orders.fetchall() if package == "duckdb" else orders.collect().rows()
    assert sorted(rows) == [("01", None), ("02", "x")]
