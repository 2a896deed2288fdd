"""The example of a declarative pipeline, run as its README says, on a broker with orders of the demo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.cli.demo_orders import Orders
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.spark.java import find_java
from tailrace.testing.broker import Broker

pytest.importorskip("grpc", reason="tailrace[pipelines] is not installed")
pyspark = pytest.importorskip("pyspark")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "orders_pipeline"
STORAGE = "file:///tmp/tailrace-orders-pipeline"
BROKERS = "localhost:9092"


@pytest.fixture
def pipeline(tmp_path: Path, broker: Broker) -> Path:
    """A copy of the example with this test's broker and storage."""
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, folder)
    spec = folder / "spark-pipeline.yml"
    text = spec.read_text()
    assert STORAGE in text
    assert BROKERS in text
    spec.write_text(text.replace(STORAGE, f"file://{tmp_path}/storage").replace(BROKERS, broker.bootstrap_servers))
    return folder


def send_orders(broker: Broker, orders: Orders, count: int) -> None:
    with Cluster(broker.bootstrap_servers) as cluster, Producer(cluster) as producer:
        for _ in range(count):
            order = orders.next()
            producer.send("orders", order.value, order.key)


def run(folder: Path) -> None:
    programs = Path(pyspark.__file__).parent / "bin"
    done = subprocess.run(
        ["bash", programs / "spark-pipelines", "run", "--conf", "spark.sql.catalogImplementation=hive"],
        cwd=folder,
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))},
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_HOME": str(find_java().home),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def table(folder: Path, name: str) -> list[dict[str, object]]:
    import pyarrow.parquet as pq

    return [
        row for file in (folder / "spark-warehouse" / name).glob("*.parquet") for row in pq.read_table(file).to_pylist()
    ]


@pytest.mark.long
def test_the_example_makes_tables_and_goes_on_where_it_ended(pipeline: Path, broker: Broker) -> None:
    broker.create_topic("orders", partitions=2)
    orders = Orders()
    for expected in (300, 500):
        send_orders(broker, orders, expected - len(table(pipeline, "orders")))
        run(pipeline)
        rows = table(pipeline, "orders")
        assert sorted(row["order"] for row in rows) == list(range(expected))
        sales = table(pipeline, "sales")
        assert sum(row["orders"] for row in sales) == expected
        assert sum(row["pieces"] for row in sales) == sum(row["pieces"] for row in rows)
