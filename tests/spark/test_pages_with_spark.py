"""The code blocks of pages with Spark run from top to bottom, in the session that is there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from support.docs.page_blocks import PAGES, name_of
from support.docs.page_run import PageRun, needs_spark

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
