"""Statistics of random topics against plain Python, without a JVM: files and brokers, whole and in pieces."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golden.corpus import Golden, cases
from suite.seeds import examples
from support.brokers.scripted import ScriptedBroker
from support.spark.directory_source import expected_rows, log_dir_of
from support.spark.local_rdds import LocalSpark
from support.stats.model import check
from support.stats.topics import SEGMENTED, T0, Put, Row, counted, write_topic
from tailrace.model.errors import CorruptMessageError
from tailrace.record.shallow import batches
from tailrace.spark.errors import MissingTopicError, OptionError
from tailrace.spark.statistics import job, keys, plan, producers
from tailrace.spark.statistics.stats import StatsProgress, stats
from tailrace.spark.statistics.topic_stats import TopicStats

PARTITIONS = 2

KEYS = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"b\x00", b"long" * 100, b"tall" * 101, b"\xff\xfe"]))
VALUES = st.one_of(st.none(), st.binary(max_size=40), st.integers(0, 3000).map(lambda size: b"v" * size))
HEADERS = st.lists(
    st.tuples(st.sampled_from(["", "h", "größe"]), st.one_of(st.none(), st.binary(max_size=100))), max_size=3
).map(tuple)
TIMES = st.one_of(st.integers(T0, T0 + 10_000_000), st.sampled_from([0, 1, T0, T0 + 4_000_000_000]))
ROWS = st.builds(Row, TIMES, KEYS, VALUES, HEADERS)


@st.composite
def puts(draw: st.DrawFn) -> list[Put]:
    made = []
    for _ in range(draw(st.integers(0, 12))):
        rows = tuple(draw(st.lists(ROWS, min_size=1, max_size=8)))
        producer_id = draw(st.sampled_from([-1, -1, 3, 70_000_000_000]))
        ends = draw(st.sampled_from([None, None, True, False])) if producer_id >= 0 else None
        codec = draw(st.sampled_from([0, 0, 1, 2, 3, 4]))
        made.append(Put(draw(st.integers(0, PARTITIONS - 1)), rows, codec, producer_id, ends))
    # A producer has transactions or has none.
    ended = {put.producer_id for put in made if put.ends is not None}
    return [replace(put, ends=True) if put.producer_id in ended and put.ends is None else put for put in made]


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=puts(), piece=st.one_of(st.none(), st.integers(1, 20)), top=st.integers(0, 6))
def test_random_topics(tmp_path: Path, written: list[Put], piece: int | None, top: int) -> None:
    path = tmp_path / "log"
    shutil.rmtree(path, ignore_errors=True)
    write_topic(path, written, partitions=PARTITIONS)
    options = {} if piece is None else {"maxRecordsPerPartition": piece}
    found = counted(path, top=top, options=options)
    check(found, written, path, PARTITIONS, top)
    assert json.loads(json.dumps(found.to_dict()))["records"] == found.records


def some_puts(count: int = 150, seed: int = 1, **more: Any) -> list[Put]:
    dice = random.Random(seed)
    return [
        Put(
            number % PARTITIONS,
            tuple(
                Row(
                    T0 + 60_000 * number + place,
                    b"key-%d" % int(dice.paretovariate(1)),
                    None if dice.random() < 0.05 else b"%d " % dice.randrange(100) * dice.randrange(30),
                    (("trace", b"%016d" % place),) if place % 3 else (),
                )
                for place in range(dice.randrange(1, 40))
            ),
            codec=dice.choice([0, 4]),
            producer_id=dice.choice([-1, 7, 8]),
            **more,
        )
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Put]]:
    path, written = tmp_path_factory.mktemp("topic"), some_puts()
    write_topic(path, written, partitions=PARTITIONS)
    return path, written


def test_a_larger_topic_in_any_pieces(topic: tuple[Path, list[Put]]) -> None:
    path, written = topic
    whole = counted(path)
    check(whole, written, path, PARTITIONS, 10)
    for piece in (37, 500):
        cut = counted(path, options={"maxRecordsPerPartition": piece})
        check(cut, written, path, PARTITIONS, 10)
        assert replace(cut, compaction=whole.compaction, codec_trials=whole.codec_trials) == whole


def test_keys_and_producers_that_are_sent_early_and_to_many_buckets(
    topic: tuple[Path, list[Put]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = topic
    whole = counted(path)
    monkeypatch.setattr(keys, "MOST_WAITING_BYTES", 100)
    monkeypatch.setattr(producers, "SENT_PRODUCERS", 1)
    monkeypatch.setattr(plan, "KEYS_PER_BUCKET", 100)
    found = counted(path)
    assert _without_times(found) == _without_times(whole)
    # Batches with tombstones get a time that is as late as the run.
    assert found.compaction.whole.gained_bytes == pytest.approx(whole.compaction.whole.gained_bytes, rel=0.001)
    assert found.compaction.whole.records == whole.compaction.whole.records


def _without_times(found: TopicStats) -> TopicStats:
    """What depends on the clock is never the same."""
    trials = tuple(replace(each, pack_ns_per_byte=0.0, unpack_ns_per_byte=0.0) for each in found.codec_trials.trials)
    gain = replace(found.compaction, whole=None, closed=None)  # type: ignore[arg-type]
    return replace(found, codec_trials=replace(found.codec_trials, trials=trials), compaction=gain)


def test_one_partition_by_its_folder(topic: tuple[Path, list[Put]]) -> None:
    path, written = topic
    own = [put for put in written if put.partition == 1]
    found = counted(path / "t-1")
    assert found.topic == "t"
    assert [each.partition for each in found.partitions] == [1]
    assert found.records == sum(len(put.rows) for put in own)


def test_a_part_of_a_topic(topic: tuple[Path, list[Put]]) -> None:
    path, written = topic
    edges = {"startingOffsets": '{"t": {"0": 100, "1": 0}}', "endingOffsets": '{"t": {"0": -1, "1": 0}}'}
    found = counted(path, options=edges)
    rows = [row for put in written if put.partition == 0 for row in put.rows][100:]
    assert found.records == len(rows)
    assert found.payload_bytes == sum(row.payload for row in rows)
    assert (found.partitions[0].start, found.partitions[0].records) == (100, len(rows))
    assert found.partitions[1].records == found.partitions[1].stored_bytes == 0


def test_an_empty_topic(tmp_path: Path) -> None:
    write_topic(tmp_path, [], partitions=PARTITIONS)
    found = counted(tmp_path)
    assert (found.records, found.batches, found.stored_bytes, found.first_ms) == (0, 0, 0, None)
    assert found.codec_trials.trials == ()
    assert (found.compaction.whole.gained_bytes, found.compaction.is_exact) == (0, True)
    assert (found.keys.gini, found.keys.lorenz, found.rates.buckets) == (0, (), ())
    json.dumps(found.to_dict())


def test_codecs_are_measured(topic: tuple[Path, list[Put]]) -> None:
    path, written = topic
    found = counted(path)
    trials = {each.codec: each for each in found.codec_trials.trials}
    assert list(trials) == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert trials["none"].estimated_bytes == found.plain_bytes
    assert all(each.estimated_bytes == found.stored_bytes - each.saved_bytes for each in trials.values())
    assert trials["zstd"].estimated_bytes < trials["snappy"].estimated_bytes < trials["none"].estimated_bytes
    as_zstd = write_again(path.parent / "zstd", written, codec=4)
    assert trials["zstd"].estimated_bytes == pytest.approx(as_zstd, rel=0.001)
    sampled = counted(path, sample=1)
    assert 0 < sampled.codec_trials.sampled_batches < found.batches
    assert [each.estimated_bytes for each in sampled.codec_trials.trials] == pytest.approx(
        [each.estimated_bytes for each in found.codec_trials.trials], rel=0.5
    )


def write_again(path: Path, written: list[Put], *, codec: int) -> int:
    return sum(write_topic(path, [replace(put, codec=codec) for put in written], partitions=PARTITIONS))


def test_no_sample_at_all(topic: tuple[Path, list[Put]]) -> None:
    found = counted(topic[0], sample=0)
    assert found.codec_trials.trials == ()
    assert not found.compaction.is_exact
    assert found.compaction.whole.records == counted(topic[0]).compaction.whole.records


def test_aborted_records_are_counted_apart(tmp_path: Path) -> None:
    written = [replace(put, producer_id=9, ends=bool(number % 3)) for number, put in enumerate(some_puts(30))]
    write_topic(tmp_path, written, partitions=PARTITIONS)
    found = counted(tmp_path)
    check(found, written, tmp_path, PARTITIONS, 10)
    assert found.aborted_records == sum(len(put.rows) for put in written if put.is_aborted) > 0
    assert found.control_batches == 30
    seen = counted(tmp_path, options={"kafka.isolation.level": "read_uncommitted"})
    assert (seen.records, seen.aborted_records) == (found.records + found.aborted_records, 0)


@pytest.mark.parametrize("golden", cases(), ids=lambda golden: golden.name)
def test_kafkas_own_directories(golden: Golden, tmp_path: Path) -> None:
    directory = log_dir_of(golden, tmp_path / "logs")
    found = counted(directory, options={"failOnDataLoss": False})
    (edges,) = found.partitions
    rows = expected_rows(golden.folder, edges.start, edges.end, committed=True)
    assert found.topic == golden.name
    assert found.records == len(rows)
    assert found.keys.distinct == len({key for _, _, key, _ in rows} - {None})
    assert found.key_sizes.total + found.value_sizes.total <= found.payload_bytes
    assert found.stored_bytes <= sum(file.stat().st_size for file in golden.folder.glob("*.log"))
    assert sum(each.records for each in found.codecs) >= found.records


def test_brokers_say_the_same_as_files(topic: tuple[Path, list[Put]], swift: None, broker: ScriptedBroker) -> None:
    path, _ = topic
    logs = broker.add_topic("t", PARTITIONS)
    for number, log in enumerate(logs):
        for file in sorted((path / f"t-{number}").glob("*.log")):
            data = file.read_bytes()
            for batch in batches(data):
                log.append(data[batch.position : batch.end])
    spark: Any = LocalSpark()
    found = stats("t", brokers=broker.address, session=spark)
    files = counted(path)
    assert (found.source, found.compaction.closed) == (broker.address, None)
    assert _without_times(replace(found, source=files.source)) == _without_times(files)
    with pytest.raises(OptionError, match="no topic is given"):
        stats(brokers=broker.address, session=spark)


def test_damage_is_told_where_it_may_be_passed_over(tmp_path: Path) -> None:
    write_topic(tmp_path, some_puts(20), partitions=PARTITIONS, config=SEGMENTED)
    file = next((tmp_path / "t-0").glob("*.log"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(CorruptMessageError):
        counted(tmp_path)
    found = counted(tmp_path, options={"skipCorrupt": True, "failOnDataLoss": False})
    assert len(found.skipped) == 1
    assert found.skipped[0].startswith("t-0: offsets ")
    assert 0 < found.records < sum(len(put.rows) for put in some_puts(20))


def test_what_was_passed_over_is_saved_by_no_codec(tmp_path: Path) -> None:
    write_topic(tmp_path, [Put(0, (Row(T0, b"k", b"v" * 100),))] * 9)
    file = next((tmp_path / "t-0").glob("*.log"))
    data = bytearray(file.read_bytes())
    data[100] ^= 0xFF
    file.write_bytes(data)
    (none, *_) = counted(tmp_path, options={"skipCorrupt": True}).codec_trials.trials
    assert (none.codec, none.estimated_bytes, none.saved_bytes) == ("none", len(data), 0)


def test_what_cannot_be_asked(tmp_path: Path, topic: tuple[Path, list[Put]]) -> None:
    path, _ = topic
    with pytest.raises(OptionError, match="top is -1"):
        counted(path, top=-1)
    with pytest.raises(OptionError, match="sample is -5"):
        counted(path, sample=-5)
    with pytest.raises(OptionError, match="does not go with statistics"):
        counted(path, options={"subscribePattern": ".*"})
    with pytest.raises(OptionError, match="contradicts"):
        counted(path, options={"path": "/elsewhere"})
    with pytest.raises(MissingTopicError, match="other"):
        counted(path, topic="other")
    shutil.copytree(path / "t-0", tmp_path / "t-0")
    shutil.copytree(path / "t-0", tmp_path / "u-0")
    with pytest.raises(OptionError, match=r"2 topics \(t, u\): name one"):
        counted(tmp_path)
    assert counted(tmp_path, topic="u", options={"failOnDataLoss": False}).topic == "u"
    for several in ("t,u", "t, u", "", "."):
        with pytest.raises(OptionError, match="is no name of a topic: statistics are of one"):
            counted(tmp_path, topic=several)


def test_progress_is_told(topic: tuple[Path, list[Put]], monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def told_at_once(_: Any, whole: Any, told: Any) -> Any:
        yield
        told(replace(whole, tasks_done=whole.tasks))

    monkeypatch.setattr(job, "watched", told_at_once)
    seen: list[StatsProgress] = []
    counted(topic[0], told=seen.append)
    assert [(each.doing, each.tasks_done == each.tasks) for each in seen] == [
        ("reading", True),
        ("counting", True),
        ("sampling", True),
    ]
