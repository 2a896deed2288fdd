"""docs/spark.md lists every option there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from tailrace.spark.options.client_keys import PREFIX, SINK_KEYS, SOURCE_KEYS
from tailrace.spark.options.known_names import SINK_NAMES, SOURCE_NAMES

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "spark.md").read_text()
BOOTSTRAP = "kafka.bootstrap.servers"


def section(title: str) -> str:
    """From a heading of the second level to the next."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


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
