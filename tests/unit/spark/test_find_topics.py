"""Searches of log directories, without a JVM: what is found, in which order, and what is kept of too much."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.builders import NOW_MS, TOPIC_ID, marker, real_log
from support.spark.directory_source import SMALL
from support.spark.local_rdds import LocalSpark
from tailrace.record.builder import BatchBuilder
from tailrace.spark.errors import MissingTopicError, OptionError
from tailrace.spark.searching import find as find_module
from tailrace.spark.searching.find import find, wish_of
from tailrace.spark.searching.found import ABORTED, COMMITTED, OPEN, Found, Matches
from tailrace.spark.searching.predicate import reason
from tailrace.spark.searching.wish import Kept, Wish
from tailrace.spark.source import planning
from tailrace.spark.source.ranges import TimeRange
from tailrace.storage.origin import Origin

T0 = 1_700_000_000_000

Row = tuple[int, bytes | None, bytes | None]
"""Timestamp, key, value."""


def write(path: Path, rows: list[Row], *, partition: int = 0, codec: int = 0, batch_records: int = 7) -> Path:
    folder = path / f"t-{partition}"
    folder.mkdir(parents=True)
    log = real_log(folder, SMALL, topic_id=TOPIC_ID)
    for at in range(0, len(rows), batch_records):
        builder = BatchBuilder(codec=codec)
        for row in rows[at : at + batch_records]:
            builder.append(*row, headers=[("n", b"1"), ("none", None)])
        (result,) = log.append_as_leader([builder.build()], 0)
        assert result.error is None
    log.close()
    return path


def search(path: Path, **wanted: Any) -> Matches:
    spark: Any = LocalSpark()
    return find("t", path=str(path), session=spark, **wanted)


def places(found: Matches) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in found]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions of 300 records, one a second in turn; ten keys, every 50th record deletes one."""
    path = tmp_path_factory.mktemp("two")
    for partition in range(2):
        rows: list[Row] = [
            (T0 + 1000 * (2 * n + partition), b"k%d" % (n % 10), None if n % 50 == 49 else b"v%d" % n)
            for n in range(300)
        ]
        write(path, rows, partition=partition, codec=4 * partition)
    return path


def test_every_version_of_a_key_in_the_order_of_time(two: Path) -> None:
    found = search(two, key="k9")
    assert places(found) == [(partition, offset) for offset in range(9, 300, 10) for partition in range(2)]
    assert (found.total, found.left_out, found.offsets) == (60, 0, 600)
    first = found[0]
    assert first == Found("t", 0, 9, T0 + 18_000, 0, b"k9", b"v9", (("n", b"1"), ("none", None)))
    assert [each.offset for each in found if each.is_deletion and each.partition == 1] == [49, 99, 149, 199, 249, 299]
    assert found[:2] == (first, found[1])
    assert first.to_dict()["is_deletion"] is False


def test_the_first_or_the_newest_of_them(two: Path) -> None:
    assert places(search(two, key=b"k9", limit=3)) == [(0, 9), (1, 9), (0, 19)]
    newest = search(two, key="k9", limit=3, newest=True)
    assert places(newest) == [(1, 289), (0, 299), (1, 299)]
    assert (newest.total, newest.left_out) == (60, 57)
    assert places(search(two, key="k9", partitions=[1], limit=1)) == [(1, 9)]
    assert search(two, key="nobody").total == 0


@pytest.mark.parametrize(
    "at", [T0 + 100_000, datetime.fromtimestamp(T0 / 1000 + 100, UTC), "2023-11-14T22:15:00", "2023-11-14T22:15:00Z"]
)
def test_what_is_around_a_moment(two: Path, at: Any) -> None:
    found = search(two, at=at, around=timedelta(seconds=2))
    assert [each.timestamp_ms - T0 for each in found] == [98_000, 99_000, 100_000, 101_000, 102_000]
    assert [each.timestamp_ms - T0 for each in search(two, at=at, around="1m", limit=2)] == [99_000, 100_000]
    assert places(search(two, at=at, around="10s", key="k1")) == [(0, 51), (1, 51)]


def test_only_the_offsets_around_the_moment_are_read(two: Path) -> None:
    found = search(two, at=T0 + 100_000, around="2s", disorder="0s")
    assert found.total == 5
    assert found.offsets <= 6
    assert search(two, at=T0 + 100_000, around="2s", disorder="1m").offsets == pytest.approx(66, abs=2)


def test_a_moment_at_which_there_is_nothing(two: Path) -> None:
    assert search(two, at="2031-01-01").total == 0
    assert search(two, at=0).total == 0


def test_records_out_of_order_are_found_within_the_disorder(tmp_path: Path) -> None:
    rows: list[Row] = [(T0 + 1000 * n, b"k", b"%d" % n) for n in range(100)]
    rows[60] = (T0 + 10_500, b"k", b"late")
    write(tmp_path, rows)
    assert [each.value for each in search(tmp_path, at=T0 + 10_500, around="500ms")] == [b"10", b"late", b"11"]
    assert b"late" not in [each.value for each in search(tmp_path, at=T0 + 10_500, around="500ms", disorder="10s")]


def test_pieces_are_put_together(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "LEAST_OFFSETS", 20)
    assert places(search(two, key="k9", limit=5)) == [(0, 9), (1, 9), (0, 19), (1, 19), (0, 29)]
    assert search(two, key="k9", limit=5).total == 60


def test_only_partitions_with_something_to_read_are_named_to_spark(two: Path, tmp_path: Path) -> None:
    """A batch that begins a partition at its end is refused."""
    path = shutil.copytree(two, tmp_path / "three")
    (path / "t-2").mkdir()
    given = find_module.given_options("t", None, str(path), None, {}, wants_aborted=False)
    wish = wish_of(None, T0 + 10_000, "5s", "true", 10, newest=False)
    plan = find_module.planned(given, replace(wish, times=TimeRange(T0 + 10_000, T0 + 12_000)), disorder_ms=0)
    told = {name: json.loads(value) for name, value in find_module.edges(plan).items()}
    assert told == {
        "assign": {"t": [0, 1]},
        "startingOffsets": {"t": {"0": 5, "1": 5}},
        "endingOffsets": {"t": {"0": 7, "1": 6}},
    }
    assert find_module.edges(replace(plan, ranges=[])) == {"assign": '{"t": [0, 1, 2]}'}


# Transactions


@pytest.fixture(scope="module")
def transactions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Offsets 0 plain, 1 committed, 3 aborted, 5 plain, 6 open, 7 plain; 2 and 4 are markers."""
    path = tmp_path_factory.mktemp("transactions")
    (path / "t-0").mkdir()
    log = real_log(path / "t-0", SMALL, topic_id=TOPIC_ID)

    def put(value: bytes, producer_id: int = -1, sequence: int = -1) -> None:
        is_ours = producer_id >= 0
        builder = BatchBuilder(
            producer_id=producer_id,
            producer_epoch=0 if is_ours else -1,
            base_sequence=sequence,
            transactional=is_ours,
        )
        builder.append(T0, b"k", value)
        (result,) = log.append_as_leader([builder.build()], 0)
        assert result.error is None

    put(b"plain")
    put(b"committed", 7, 0)
    log.append_as_leader([marker(7, commit=True)], 0, Origin.COORDINATOR)
    put(b"aborted", 7, 1)
    log.append_as_leader([marker(7, commit=False)], 0, Origin.COORDINATOR)
    put(b"plain")
    put(b"open", 8, 0)
    put(b"behind")
    log.close()
    return path


def test_what_was_committed_is_found(transactions: Path) -> None:
    assert [each.offset for each in search(transactions, key="k")] == [0, 1, 5]
    assert {each.state for each in search(transactions, key="k")} == {COMMITTED}


def test_what_was_not_is_found_where_it_is_asked_for(transactions: Path) -> None:
    found = search(transactions, key="k", aborted=True)
    assert [(each.offset, each.state) for each in found] == [
        (0, COMMITTED),
        (1, COMMITTED),
        (3, ABORTED),
        (5, COMMITTED),
        (6, OPEN),
        (7, OPEN),
    ]


def test_markers_have_the_clock_of_a_broker_and_end_no_search(tmp_path: Path) -> None:
    """As where the past is written again: all records are far older than the marker behind the first of them."""
    past = NOW_MS - 30 * 86_400_000
    (tmp_path / "t-0").mkdir()
    log = real_log(tmp_path / "t-0", SMALL, topic_id=TOPIC_ID)
    for n in range(50):
        builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=n, transactional=True)
        builder.append(past + 1000 * n, b"k", b"v%d" % n)
        log.append_as_leader([builder.build()], 0)
        log.append_as_leader([marker(7, commit=True)], 0, Origin.COORDINATOR)
    log.close()
    found = search(tmp_path, at=past + 20_000, around="1s", disorder="10s")
    assert [each.value for each in found] == [b"v19", b"v20", b"v21"]
    assert found.offsets < 70, "it ends where records are later"


# Against plain Python


@settings(max_examples=examples(25))
@given(data=st.data())
def test_the_same_as_plain_python(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("random")
    dice = random.Random(data.draw(st.integers(0, 1 << 32)))
    rows: list[Row] = [
        (T0 + dice.randrange(60_000), dice.choice([None, b"", b"a", b"b"]), dice.choice([None, b"", b"x" * 50]))
        for _ in range(dice.randrange(1, 200))
    ]
    write(path, rows, codec=dice.randrange(5), batch_records=dice.randrange(1, 30))
    limit = data.draw(st.integers(1, 50))
    wanted = data.draw(st.sampled_from(["key", "newest", "at", "at and key"]))
    key, at = (b"a" if wanted != "at" else None), (T0 + dice.randrange(70_000) if "at" in wanted else None)
    around = dice.randrange(1, 30_000)
    matching = [
        (row[0], offset)
        for offset, row in enumerate(rows)
        if (key is None or row[1] == key) and (at is None or abs(row[0] - at) <= around)
    ]
    if at is not None:
        best = sorted(matching, key=lambda each: (abs(each[0] - at), each[1]))[:limit]
    else:
        best = sorted(matching, reverse=wanted == "newest")[:limit]
    found = search(path, key=key, at=at, around=around, limit=limit, newest=wanted == "newest")
    assert [(each.timestamp_ms, each.offset) for each in found] == sorted(best)
    assert found.total == len(matching)
    assert all((each.key, each.value) == rows[each.offset][1:] for each in found)


# What is kept


def record(time_ms: int, size: int = 10) -> Found:
    return Found("t", 0, time_ms, time_ms, 0, None, b"v" * size)


def test_what_is_too_much_for_memory_is_left_out() -> None:
    wish = Wish(limit=10, most_bytes=25)
    assert [each.offset for each in wish.kept(record(n) for n in range(5)).found] == [0, 1]
    assert wish.kept([record(0, size=100)]).found == [record(0, size=100)], "one at least"
    newest = Wish(limit=2, newest=True)
    assert [each.offset for each in newest.kept(record(n) for n in range(5)).found] == [4, 3]


def test_nothing_takes_the_place_of_what_had_no_room() -> None:
    wish = Wish(limit=10, most_bytes=25)
    kept = wish.kept([record(0), record(1), record(2), record(3)])
    assert kept == Kept([record(0), record(1)], (2, 0, 2))
    assert wish.kept([*kept.found, record(4, size=1)], kept.cut) == kept, "it is not the third one"
    assert wish.kept([record(-1, size=1), record(0)], kept.cut).found == [record(-1, size=1), record(0)]


def test_the_first_ones_are_the_first_ones_where_a_task_has_no_room_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "LEAST_OFFSETS", 20)
    monkeypatch.setattr(find_module, "LEAST_BYTES", 500)
    monkeypatch.setattr(find_module, "wish_of", lambda *given: replace(wish_of(*given), most_bytes=2000))
    write(tmp_path, [(T0 + n, b"k", b"v" * 80) for n in range(100)])
    for newest in (False, True):
        found = search(tmp_path, key="k", limit=30, newest=newest)
        offsets = [each.offset for each in found]
        assert 1 < len(offsets) < 30
        assert offsets == (list(range(100))[-len(offsets) :] if newest else list(range(len(offsets))))
        assert found.total == 100


# What cannot be


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({}, "nothing is looked for"),
        ({"where": " "}, "where is empty"),
        ({"where": "text = '\udcff'"}, "where is .* no UTF-8"),
        ({"key": "\udcff"}, "key is .* no UTF-8"),
        ({"key": "k", "limit": 0}, "limit is 0"),
        ({"key": "k", "limit": "5"}, "limit is '5'"),
        ({"at": 1.5}, "at is 1.5: it must be a datetime"),
        ({"at": "yesterday"}, "at is 'yesterday'"),
        ({"at": -5}, "from 1970 to 9999"),
        ({"at": 5, "around": "long"}, "option around is 'long'"),
        ({"at": 5, "newest": True}, "newest does not go with at"),
        ({"key": "k", "disorder": "x"}, "option disorder is 'x'"),
        ({"key": "k", "options": {"subscribe": "a"}}, "option subscribe does not go with a search"),
        ({"key": "k", "options": {"path": "/elsewhere"}}, "contradicts"),
        ({"key": "k", "options": {"colour": "red"}}, "colour"),
        ({"key": "k", "aborted": True, "options": {"kafka.isolation.level": "read_committed"}}, "leave"),
    ],
)
def test_wishes_that_cannot_be(two: Path, wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        search(two, **wanted)


def test_topics_that_are_not_there(two: Path) -> None:
    spark: Any = LocalSpark()
    with pytest.raises(MissingTopicError, match="does not hold nobody"):
        find("nobody", key="k", path=str(two), session=spark)
    with pytest.raises(MissingTopicError, match="t-5"):
        search(two, key="k", partitions=[5])
    with pytest.raises(OptionError, match="no name of a topic"):
        find("a/b", key="k", path=str(two), session=spark)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[CAST_INVALID_INPUT] it is no number\n== SQL ==\nCAST(…)", "[CAST_INVALID_INPUT] it is no number"),
        (
            "[PYTHON_EXCEPTION] of a worker: Traceback\n  File x\n"
            "tailrace.model.errors.CorruptMessageError: offset 5\n\tat org.apache",
            "offset 5",
        ),
        (
            "An error occurred while calling o129.collectToPython.\n: org.apache.spark.SparkException: Job aborted\n"
            "\tat org.apache\nCaused by: java.lang.RuntimeException: x\n\t... 9 more\n"
            "Caused by: java.util.regex.PatternSyntaxException: Unclosed group near index 1\n(\n\tat java.base",
            "java.util.regex.PatternSyntaxException: Unclosed group near index 1",
        ),
        ("", "ValueError"),
    ],
)
def test_what_a_task_met_is_told_in_one_line(text: str, said: str) -> None:
    assert reason(ValueError(text)) == said
