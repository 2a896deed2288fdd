"""The README's example with an audit does what it says, as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.testing.broker import Broker

README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.mark.usefixtures("spark")
def test_the_readmes_example_with_an_audit_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (example,) = [each for each in found if "import audit" in each]
    monkeypatch.chdir(tmp_path)
    with Broker(data_dir="data") as broker:
        broker.create_topic("fruit", partitions=1)
        with Cluster(broker.bootstrap_servers) as cluster, Producer(cluster, may_create_topics=False) as producer:
            producer.send("fruit", b"two apples", b"customer-7")
            producer.send("fruit", b"one pear", b"customer-8")
            producer.send("fruit", b"three apples", b"customer-7")
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["True {}", "2", "0 b'two apples'", "2 b'three apples'"]
    assert "fruit" in (tmp_path / "audit.html").read_text()
    assert SparkSession.getActiveSession() is not None, "it took the session that was there"
