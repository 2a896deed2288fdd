"""The README's example with a table does what it says, as it stands, and its picture shows that."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace.cli.demo_orders import Orders
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.testing.broker import Broker

pytest.importorskip("deltalake")

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "localhost:9092"
ORDERS = 500


def example() -> str:
    found = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (wanted,) = [each for each in found if "read_table" in each]
    return str(wanted)


def test_the_example_is_five_lines_and_so_it_is_in_the_guide() -> None:
    assert len([line for line in example().splitlines() if line.strip()]) == 5
    assert example() in (ROOT / "docs" / "tables.md").read_text()


@pytest.mark.usefixtures("spark")
def test_the_readmes_example_with_a_table_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = {}
    orders = Orders()
    with Broker() as broker:
        broker.create_topic("orders", partitions=4)
        with Cluster(broker.bootstrap_servers) as cluster, Producer(cluster, may_create_topics=False) as producer:
            for _ in range(ORDERS):
                order = orders.next()
                producer.send("orders", order.value, order.key)
                item = re.search(rb'"item": "(\w+)"', order.value)
                assert item is not None
                expected[item[1].decode()] = expected.get(item[1].decode(), 0) + 1
        monkeypatch.chdir(tmp_path)
        exec(compile(example().replace(ADDRESS, broker.bootstrap_servers), "README.md", "exec"), {})
    report, *rows = capsys.readouterr().out.strip().splitlines()
    assert f"{ORDERS} rows" in report.replace(",", "")
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows if row.startswith("|")]
    assert cells[0] == ["item", "orders", "sales"]
    assert {item: int(count) for item, count, _ in cells[1:]} == expected
    assert SparkSession.getActiveSession() is not None, "it took the session that was there"


def test_the_picture_is_of_this_example() -> None:
    """tools/make_table_picture.py makes it anew."""
    drawn = unescape((ROOT / "docs" / "images" / "table.svg").read_text())
    for line in example().splitlines():
        assert line in drawn
    assert re.search(r"\| *chair *\|", drawn)
