"""The examples in the README do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tailrace

README = Path(__file__).parents[3] / "README.md"
ADDRESS = "localhost:9092"


MARKS = {
    "table": "read_table",
    "audit": "import audit",
    "spark": "tailrace.spark",
    "client": ADDRESS,
    "broker": "tailrace.Broker",
    "log": "load(",
}
"""What tells the kind of an example; the first that fits."""


def examples(wanted: str | None = None) -> list[str]:
    found = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    return [each for each in found if wanted in (None, kind(each))]


def kind(example: str) -> str:
    return next((name for name, mark in MARKS.items() if mark in example), "")


def run(example: str) -> None:
    exec(compile(example, "README.md", "exec"), {})


def test_every_example_is_run() -> None:
    """Those with Spark by `test_spark_readme.py`, `test_table_readme.py` and `test_audit_readme.py`."""
    kinds = ["client", "client", "spark", "table", "audit", "broker", "log"]
    assert [kind(each) for each in examples()] == kinds


def test_the_client_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("confluent_kafka")
    pytest.importorskip("kafka")
    with tailrace.Broker() as broker:
        for example in examples("client"):
            run(example.replace(ADDRESS, broker.bootstrap_servers))
    assert capsys.readouterr().out.splitlines() == ["b'two apples'"] * 2


def test_the_broker_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run(*examples("broker"))
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", capsys.readouterr().out)


def test_the_log_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(*examples("log"))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "0 1"
    assert printed[1:] == [
        "0 b'customer-7' b'two apples' ()",
        "1 b'customer-8' b'one pear' (('source', b'web'),)",
    ]
    assert (tmp_path / "orders-0" / "00000000000000000000.log").stat().st_size > 0
