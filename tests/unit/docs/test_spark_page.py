"""docs/spark.md lists every option there is, and no other; errors are where it says."""

from __future__ import annotations

import re

from support.docs.page_blocks import ROOT
from tailrace.spark import errors
from tailrace.spark.options.client_keys import PREFIX, SINK_KEYS, SOURCE_KEYS
from tailrace.spark.options.known_names import SINK_NAMES, SOURCE_NAMES

PAGE = (ROOT / "docs" / "spark.md").read_text()
TABLES_PAGE = (ROOT / "docs" / "tables.md").read_text()
BOOTSTRAP = "kafka.bootstrap.servers"


def section(title: str, page: str = PAGE) -> str:
    """From a heading of the second level to the next."""
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def listed(text: str) -> set[str]:
    """The first cells of its tables, where they are names of options."""
    return set(re.findall(r"^\| `([A-Za-z.]+)` \|", text, re.MULTILINE))


def client_keys(text: str) -> set[str]:
    return set(re.findall(r"`kafka\.([a-z0-9.]+)(?:=\w+)?`", text))


def test_every_option_of_the_source_is_listed() -> None:
    assert listed(section("Reading")) == {*SOURCE_NAMES, BOOTSTRAP}


def test_every_option_of_the_sink_is_listed() -> None:
    assert listed(section("Writing")) == {*SINK_NAMES, BOOTSTRAP}


def test_every_key_of_kafkas_clients_that_has_an_effect_is_named() -> None:
    assert client_keys(section("Reading")) == SOURCE_KEYS.with_effect
    assert client_keys(section("Writing")) - {"isolation.level"} == SINK_KEYS.with_effect
    assert PREFIX == "kafka."


def test_every_listed_error_can_be_imported_from_where_the_pages_say() -> None:
    for page in (PAGE, TABLES_PAGE):
        text = section("Errors", page)
        assert "`tailrace.spark.errors`" in text
        names = re.findall(r"^\| `(\w+Error)` \|", text, re.MULTILINE)
        assert len(names) == 6
        assert all(issubclass(getattr(errors, name), errors.PipelineError) for name in names)
