"""The code blocks of pages with Spark run from top to bottom, in the session that is there."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.docs.page_blocks import PAGES, ROOT, name_of
from support.docs.page_run import DEMO_ORDERS, PageRun, needs_spark
from tailrace.cli.demo_orders import Orders

pytest.importorskip("confluent_kafka")
pytest.importorskip("deltalake")
pytest.importorskip("duckdb")
pytest.importorskip("kafka")
pytest.importorskip("polars")
pytest.importorskip("pyiceberg")


@pytest.fixture
def folder(spark_folder: Path) -> Iterator[Path]:
    """The working directory of the JVM, where relative paths begin for all processes. Left as it was found."""
    before = set(spark_folder.iterdir())
    with chdir(spark_folder):
        yield spark_folder
    for each in set(spark_folder.iterdir()) - before:
        shutil.rmtree(each) if each.is_dir() else each.unlink()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", [page for page in PAGES if needs_spark(page)], ids=name_of)
def test_the_blocks_of_a_page_run(page: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    with PageRun(page, folder, request.getfixturevalue) as running:
        running.run()
    assert SparkSession.getActiveSession() is not None, "a block stopped the session"
    if page == ROOT / "README.md":
        check_readme(running.printed, folder)


def check_readme(printed: list[str], folder: Path) -> None:
    """The output of its examples that its comments leave out."""
    orders = Orders()
    sold = Counter(json.loads(orders.next().value)["item"] for _ in range(DEMO_ORDERS))
    header, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed if line.startswith("|")]
    assert header == ["item", "orders", "sales"]
    assert {item: int(count) for item, count, _ in rows} == sold
    assert any(f"{DEMO_ORDERS} rows" in line for line in printed)
    assert "1 b'customer-8' b'one pear' (('source', b'web'),)" in printed
    assert "fruit" in (folder / "audit.html").read_text(encoding="utf-8")
