"""`tailrace pipeline table` on Spark, with a broker: what one types, in the order in which one would."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")

from tailrace.cli.main import main
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.spark.tables.store_at import store_at
from tailrace.testing.broker import Broker

Asked = Callable[..., list[dict[str, Any]]]
GIVES_UP_S = 120


def send(broker: Broker, topic: str, values: range) -> None:
    with Cluster(broker.bootstrap_servers) as cluster, Producer(cluster, may_create_topics=False) as producer:
        for number in values:
            value = b"no JSON" if number == 13 else json.dumps({"number": number, "name": f"n{number}"}).encode()
            producer.send(topic, value, f"k{number % 7}".encode())


@pytest.fixture
def asked(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: object) -> Asked:
    """The items that the command prints about a topic's table."""

    def asked(topic: str, *arguments: str) -> list[dict[str, Any]]:
        place = str(tmp_path / topic)
        given = ("--to", place, "--bootstrap", broker.bootstrap_servers, "--json", *arguments)
        code = main(["pipeline", "table", topic, *given])
        captured = capsys.readouterr()
        assert (code, captured.err) == (0, "")
        return [json.loads(line) for line in captured.out.splitlines()]

    return asked


def test_a_table_from_the_command_line(broker: Broker, asked: Asked, tmp_path: Path) -> None:
    topic = "typed"
    broker.create_topic(topic, partitions=2)
    send(broker, topic, range(100))

    plan, *columns = asked(topic, "--value", "json", "--dry-run")
    assert (plan["records"], len(plan["creates"])) == (100, 2)
    assert {"_offset", "number", "name"} <= {item["column"] for item in columns}
    assert asked(topic, "--status")[0]["version"] is None

    metrics = tmp_path / "metrics"
    *batches, summary = asked(topic, "--value", "json", "--metrics", str(metrics))
    assert (summary["rows"], summary["dead_letters"], summary["created"]) == (99, 1, True)
    assert sum(batch["rows"] for batch in batches) == 99
    assert sum(summary["offsets"].values()) == 100
    assert "tailrace_table_rows{" in metrics.read_text()

    send(broker, topic, range(100, 150))
    table, *_ = asked(topic, "--status")
    assert (table["behind"], table["rows"], table["dead_letters"]) == (50, 99, 1)
    assert asked(topic)[-1]["rows"] == 50, "what the table was made with need not be said again"
    assert asked(topic)[-1]["batches"] == 0

    newest, *_ = history = asked(topic, "--history")
    assert sum(newest["offsets"].values()) == 150
    end = newest["offsets"]["0"]
    (found,) = asked(topic, "--at", f"0:{end - 1}")
    assert found["offsets"]["0"] == end
    assert found["version"] in {item["version"] for item in history}

    files = asked(topic, "--files")
    assert sum(item["rows"] for item in files) == 149
    assert all(Path(item["path"]).stat().st_size == item["bytes"] for item in files)


def test_a_running_table_ends_well_when_it_is_asked_to(broker: Broker, asked: Asked, tmp_path: Path) -> None:
    topic = "running"
    broker.create_topic(topic, partitions=1)
    send(broker, topic, range(20, 50))
    store = store_at(str(tmp_path / topic), "delta")

    def interrupt() -> None:
        gives_up_s = time.monotonic() + GIVES_UP_S
        while time.monotonic() < gives_up_s:
            snapshot = store.open()
            if snapshot is not None and snapshot.offsets == {0: 30}:
                break
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    *_, summary = asked(topic, "--value", "json", "--mode", "upsert", "--buckets", "2", "--trigger", "200ms")
    assert (summary["mode"], summary["offsets"]) == ("upsert", {"0": 30})
    (table, _) = asked(topic, "--status")
    assert (table["mode"], table["rows"], table["behind"]) == ("upsert", 7, 0)


def test_a_table_of_another_topic_is_refused(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: object
) -> None:
    for topic in ("mine", "yours"):
        broker.create_topic(topic, partitions=1)
    given = ["--to", str(tmp_path / "table"), "--format", "parquet", "--bootstrap", broker.bootstrap_servers]
    assert main(["pipeline", "table", "mine", *given]) == 0
    capsys.readouterr()
    assert main(["pipeline", "table", "yours", *given]) == 1
    assert "has the topic 'mine'; asked for is 'yours'" in capsys.readouterr().err
