"""The example with Spark in the README does what it says, as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace.testing.broker import Broker

README = Path(__file__).resolve().parents[2] / "README.md"
ADDRESS = "localhost:9092"


@pytest.mark.usefixtures("spark")
def test_the_readmes_example_with_spark_runs(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = [
        each
        for each in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
        if "import read, read_stream" in each
    ]
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    monkeypatch.chdir(tmp_path)
    # A path that is not absolute begins where the JVM was started, which may be for another test, anywhere.
    for there, here in ((ADDRESS, broker.bootstrap_servers), ('"checkpoint"', f'"{tmp_path}/checkpoint"')):
        assert there in example
        example = example.replace(there, here)
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["2", "2"]
    assert SparkSession.getActiveSession() is not None, "it took the session that was there"
