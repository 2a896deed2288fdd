"""`tailrace pipeline find` on Spark: keys, moments and conditions, from a broker and from its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.spark.directory_source import segment_file, write_log
from support.spark.topics import T0, Row, Topics
from tailrace.cli.main import main
from tailrace.client.cluster import Cluster
from tailrace.client.transactional_producer import TransactionalProducer
from tailrace.model.errors import TailraceError
from tailrace.spark.errors import OptionError, PipelineError
from tailrace.spark.searching.find import find
from tailrace.spark.spark_session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Asked = Callable[..., list[dict[str, Any]]]
COUNT = 400


@pytest.fixture(scope="module")
def topic(topics: Topics) -> str:
    """Two partitions; one record a second, ten keys, JSON values; every 100th is a deletion."""
    topic = topics.make("find", 2)
    for partition in range(2):
        rows = [
            Row(
                None if n % 100 == 99 else json.dumps({"n": n, "p": partition}).encode(),
                b"k%d" % (n % 10),
                T0 + 1000 * n,
                (("source", b"web"),),
            )
            for n in range(COUNT)
        ]
        topics.fill(topic, {partition: rows}, batch_records=20, codec="lz4" if partition else "none")
    return topic


@pytest.fixture
def asked(topics: Topics, topic: str, capsys: pytest.CaptureFixture[str], spark: SparkSession) -> Asked:
    def asked(*arguments: str, topic: str = topic) -> list[dict[str, Any]]:
        where = () if "--path" in arguments else ("--bootstrap", topics.bootstrap_servers)
        code = main(["pipeline", "find", topic, *arguments, *where, "--json"])
        captured = capsys.readouterr()
        assert (code, captured.err) == (0, "")
        return [json.loads(line) for line in captured.out.splitlines()]

    return asked


def places(items: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(item["partition"], item["offset"]) for item in items if item["type"] == "record"]


def test_every_version_of_a_key(asked: Asked) -> None:
    *found, summary = asked("--key", "k9")
    assert places(found) == [(partition, offset) for offset in range(9, COUNT, 10) for partition in range(2)]
    assert [item["offset"] for item in found if item["deleted"]] == [n for n in (99, 199, 299, 399) for _ in range(2)]
    assert found[0]["value"] == '{"n": 9, "p": 0}'
    assert found[0]["headers"] == [{"name": "source", "value": "web", "value_base64": None}]
    assert (summary["found"], summary["shown"], summary["offsets"]) == (80, 80, 2 * COUNT)
    *found, summary = asked("--key-base64", "azk=", "--newest", "--limit", "1")
    assert (places(found), summary["found"]) == ([(1, 399)], 80)


def test_around_a_moment(asked: Asked) -> None:
    *found, summary = asked("--at", f"@{T0 + 100_000}", "--around", "2s", "--disorder", "1s")
    assert places(found) == [(partition, offset) for offset in range(98, 103) for partition in range(2)]
    assert summary["offsets"] < 20


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("text LIKE '%\"n\": 7,%'", [(0, 7), (1, 7)]),
        ("get_json_object(text, '$.n') > 396 AND partition = 1", [(1, 397), (1, 398)]),
        ("value IS NULL AND offset < 150", [(0, 99), (1, 99)]),
        ("key_text = 'k3' AND timestamp < '2023-11-14 22:13:30'", [(0, 3), (1, 3)]),
        ("headers[0].key = 'nobody'", []),
    ],
)
def test_conditions_in_sql(asked: Asked, where: str, expected: list[tuple[int, int]]) -> None:
    *found, summary = asked("--where", where)
    assert places(found) == expected
    assert summary["found"] == len(expected)


def test_all_of_it_together_and_the_first_of_many(asked: Asked) -> None:
    *found, _ = asked("--where", "partition = 1", "--key", "k5", "--at", f"@{T0 + 50_000}", "--around", "10s")
    assert places(found) == [(1, 45), (1, 55)]
    *found, summary = asked("--where", "text LIKE '%n%'", "--limit", "3")
    assert (places(found), summary["found"]) == ([(0, 0), (1, 0), (0, 1)], 2 * COUNT - 8)
    *found, _ = asked("--where", "offset >= 0", "--limit", "2", "--newest")
    assert places(found) == [(0, 399), (1, 399)]


def test_partitions_of_which_nothing_is_read(asked: Asked, topics: Topics) -> None:
    topic = topics.make("gaps", 3)
    for partition, since in ((0, T0), (2, T0 + 10**9)):
        topics.fill(topic, {partition: [Row(b"%d" % n, b"k", since + 1000 * n) for n in range(5)]})
    *found, summary = asked("--where", "text = '3'", topic=topic)
    assert (places(found), summary["offsets"]) == ([(0, 3), (2, 3)], 10)
    found = asked("--where", "text >= '3'", "--at", f"@{T0 + 4000}", topic=topic)
    assert places(found) == [(0, 3), (0, 4)]
    assert places(asked("--where", "partition = 1", topic=topic)) == []
    assert places(asked("--where", "true", "--partition", "1", topic=topic)) == []
    assert places(asked("--where", "true", "--at", f"@{T0 + 10**10}", topic=topic)) == []


def test_transactions(asked: Asked, topics: Topics, spark: SparkSession) -> None:
    topic = topics.make("transactions")
    with Cluster(topics.bootstrap_servers) as cluster, TransactionalProducer(cluster, topic) as producer:
        producer.begin()
        producer.send(topic, b"kept", b"k")
        producer.commit()
        producer.begin()
        producer.send(topic, b"never", b"k")
        producer.flush()
        producer.abort()
    assert [item["value"] for item in asked("--key", "k", topic=topic)[:-1]] == ["kept"]
    found = asked("--key", "k", "--aborted", topic=topic)[:-1]
    assert [(item["value"], item["state"]) for item in found] == [("kept", "committed"), ("never", "aborted")]
    found = asked("--where", "text = 'never'", "--aborted", topic=topic)[:-1]
    assert [item["state"] for item in found] == ["aborted"]


def test_files_give_the_same_when_they_were_checkpointed(asked: Asked, topics: Topics, topic: str) -> None:
    broker = topics.broker
    broker.stop()
    try:
        for wanted in (("--key", "k9"), ("--where", "text LIKE '%7%'"), ("--at", f"@{T0 + 99_000}")):
            found = asked(*wanted, "--path", str(broker.data_dir))[:-1]
            assert found
            broker.start()
            assert found == asked(*wanted)[:-1]
            broker.stop()
    finally:
        if not broker.is_running:
            broker.start()


def test_what_is_wrong_is_said(
    topics: Topics, topic: str, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    given = ["--bootstrap", topics.bootstrap_servers]
    assert main(["pipeline", "find", topic, "--where", "no_such_column = 1", *given]) == 1
    err = capsys.readouterr().err
    assert "which Spark does not understand" in err
    assert "no_such_column" in err
    assert len(err.splitlines()) == 1, "nothing of Spark's own, with its traces"
    assert main(["pipeline", "find", "nobody", "--key", "k", *given]) == 1
    assert "hint: look for it with `tailrace topic list`" in capsys.readouterr().err
    with pytest.raises(PipelineError, match=r"the search failed: .*CAST_INVALID_INPUT"):
        find(topic, where="CAST(text AS INT) = 5", brokers=topics.bootstrap_servers, session=session())
    with pytest.raises(PipelineError, match=r"the search failed: .*Unclosed group"):
        find(topic, where="text RLIKE '('", brokers=topics.bootstrap_servers, session=session())
    with pytest.raises(OptionError, match="does not understand"):
        find(topic, where="offset <", brokers=topics.bootstrap_servers, session=session())


def test_damage_is_named_or_passed_over(tmp_path: Path, spark: SparkSession) -> None:
    write_log(tmp_path / "t-0", [10] * 3)
    log = segment_file(tmp_path / "t-0", 0)
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    for key, where in (("25", None), (None, "key_text = '25'")):
        with pytest.raises(TailraceError, match=r"offsets 0 to 9 cannot be read.*skipCorrupt"):
            find("t", key=key, where=where, path=str(tmp_path), session=spark)
    found = find("t", key="25", path=str(tmp_path), session=spark, options={"skipCorrupt": True})
    assert [each.offset for each in found] == [25]
