"""`tailrace pipeline audit` and `stats` on Spark, with the files of a broker: what one types, and what comes out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.spark.topics import Topics
from tailrace.cli.main import main
from tailrace.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Asked = Callable[..., tuple[int, list[dict[str, Any]]]]
COUNT = 3000


@pytest.fixture(scope="module")
def stopped() -> Iterator[Broker]:
    """A broker that wrote a topic of three partitions, and ended well."""
    with Broker({"log.retention.ms": -1, "log.segment.bytes": 1 << 20}) as broker:
        topics = Topics(broker)
        broker.create_topic("orders", 3)
        topics.add_numbered("orders", COUNT, partitions=3)
        broker.stop()
        yield broker


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str], spark: SparkSession) -> Asked:
    """The exit code of a command, and the items that it prints."""

    def asked(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
        code = main(["pipeline", *arguments, "--json"])
        captured = capsys.readouterr()
        assert captured.err == ""
        return code, [json.loads(line) for line in captured.out.splitlines()]

    return asked


def test_an_audit_from_the_command_line(stopped: Broker, asked: Asked, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(stopped.data_dir, data)
    memory, page = str(tmp_path / "memory"), tmp_path / "audit.html"

    code, (summary,) = asked("audit", str(data), "--state", memory, "--report", str(page))
    assert (code, summary["is_clean"], summary["by_rule"]) == (0, True, {})
    assert summary["topics"]["orders"]["records"] == COUNT
    assert "orders" in page.read_text()

    log = data / "orders-1" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[-3] ^= 1
    log.write_bytes(content)
    code, (finding, summary) = asked("audit", str(data), "--state", memory)
    assert (code, finding["rule"], finding["severity"]) == (1, "crc", "error")
    assert (finding["file"], finding["partition"]) == (str(log), "orders-1")
    assert summary["by_severity"] == {"error": 1, "warning": 0, "note": 0}
    assert asked("audit", str(data), "--rules", "offset-gap", "--topic", "orders")[0] == 0
    assert asked("audit", str(data / "orders-0"))[0] == 0, "one partition"


def test_what_cannot_be_audited_has_a_code_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, spark: SparkSession
) -> None:
    (tmp_path / "photos").mkdir()
    assert main(["pipeline", "audit", str(tmp_path / "photos")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_statistics_from_the_command_line(stopped: Broker, asked: Asked, tmp_path: Path) -> None:
    page = tmp_path / "orders.html"
    code, (found,) = asked("stats", "orders", "--path", str(stopped.data_dir), "--top", "3", "--report", str(page))
    assert (code, found["records"], found["keys"]["distinct"]) == (0, COUNT, 10)
    assert len(found["keys"]["hot"]) == 3
    assert "orders" in page.read_text()
    _, (one,) = asked("stats", str(stopped.data_dir / "orders-0"))
    assert (one["topic"], one["records"]) == ("orders", COUNT // 3)
