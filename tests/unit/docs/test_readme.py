"""The examples in the README do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tailrace

README = Path(__file__).parents[3] / "README.md"
ADDRESS = "localhost:9092"


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def run(example: str) -> None:
    exec(compile(example, "README.md", "exec"), {})


def test_every_example_is_run() -> None:
    kinds = [
        "client" if ADDRESS in each else "broker" if "tailrace.Broker" in each else "log" if "load(" in each else ""
        for each in examples()
    ]
    assert kinds == ["client", "client", "broker", "log"]


def test_the_client_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("confluent_kafka")
    pytest.importorskip("kafka")
    with tailrace.Broker() as broker:
        for example in examples()[:2]:
            run(example.replace(ADDRESS, broker.bootstrap_servers))
    assert capsys.readouterr().out.splitlines() == ["b'two apples'"] * 2


def test_the_broker_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run(examples()[2])
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", capsys.readouterr().out)


def test_the_log_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(examples()[3])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "0 1"
    assert printed[1:] == [
        "0 b'customer-7' b'two apples' ()",
        "1 b'customer-8' b'one pear' (('source', b'web'),)",
    ]
    assert (tmp_path / "orders-0" / "00000000000000000000.log").stat().st_size > 0
