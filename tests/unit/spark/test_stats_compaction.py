"""What compaction would gain, against what it then does: a clean of the same files by the log's own compaction."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.stats.topics import SEGMENTED, Put, Row, clean, counted, log_bytes, write_topic
from tailrace.spark.statistics import plan
from tailrace.spark.statistics.sample import BATCH_COST_BYTES, RECORD_COST_BYTES
from tailrace.spark.statistics.topic_stats import Compacted

NEAR = 0.05
CODECS = (0, 1, 2, 3, 4)
SMALL = replace(SEGMENTED, segment_bytes=1 << 15)


def topic(
    batches: int,
    *,
    codec: int,
    keys: int,
    seed: int = 0,
    records: int = 40,
    tombstones: float = 0.05,
    producers: tuple[int, ...] = (-1,),
    ends: tuple[bool | None, ...] = (None,),
) -> list[Put]:
    dice = random.Random(seed)
    now = int(time.time() * 1000) - 1_000_000
    words = [b"%x" % dice.getrandbits(48) for _ in range(300)]
    made = []
    for number in range(batches):
        producer_id = dice.choice(producers)
        rows = tuple(
            Row(
                now + 1000 * number + place,
                b"customer-%06d" % int(keys * dice.random() ** 2),
                None if dice.random() < tombstones else b" ".join(dice.choices(words, k=dice.randrange(1, 20))),
                (("source", dice.choice(words)),) if dice.random() < 0.2 else (),
            )
            for place in range(dice.randrange(1, records))
        )
        made.append(Put(0, rows, codec, producer_id, dice.choice(ends) if producer_id >= 0 else None))
    return made


def is_near(told: Compacted, before: int, after: int) -> None:
    assert told.gained_bytes == pytest.approx(before - after, rel=NEAR, abs=64)
    assert told.stored_bytes == pytest.approx(after, rel=NEAR, abs=64)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("keys", [20, 2_000, 1_000_000])
def test_a_clean_of_everything(tmp_path: Path, codec: int, keys: int) -> None:
    (before,) = write_topic(tmp_path, topic(150, codec=codec, keys=keys), config=SMALL)
    found = counted(tmp_path)
    assert (found.stored_bytes, found.compaction.is_exact) == (before, True)
    done = clean(tmp_path, 0, rolls=True, now_ms=int(time.time() * 1000), config=SMALL)
    is_near(found.compaction.whole, before, log_bytes(tmp_path, 0))
    assert found.compaction.whole.records == done.records_written
    assert found.compaction.whole.removed_records == done.records_dropped


@pytest.mark.parametrize("codec", CODECS)
def test_a_clean_of_what_is_closed(tmp_path: Path, codec: int) -> None:
    (before,) = write_topic(tmp_path, topic(150, codec=codec, keys=500), config=SMALL)
    found = counted(tmp_path).compaction
    assert found.closed is not None
    assert found.closed.gained_bytes < found.whole.gained_bytes
    done = clean(tmp_path, 0, rolls=False, now_ms=int(time.time() * 1000), config=SMALL)
    is_near(found.closed, before, log_bytes(tmp_path, 0))
    assert found.closed.removed_records == done.records_dropped


@pytest.mark.parametrize("codec", [0, 3])
def test_idempotent_producers_and_transactions(tmp_path: Path, codec: int) -> None:
    written = topic(150, codec=codec, keys=30, producers=(5, 6, 7), ends=(True, True, False))
    (before,) = write_topic(tmp_path, written, config=SMALL)
    found = counted(tmp_path)
    assert found.aborted_records == sum(len(put.rows) for put in written if put.is_aborted)
    clean(tmp_path, 0, rolls=True, now_ms=int(time.time() * 1000), config=SMALL)
    is_near(found.compaction.whole, before, log_bytes(tmp_path, 0))


@pytest.mark.parametrize("codec", [0, 4])
def test_after_a_clean_there_is_little_to_gain(tmp_path: Path, codec: int) -> None:
    """And tombstones whose time has come go."""
    config = replace(SMALL, delete_retention_ms=0)
    write_topic(tmp_path, topic(100, codec=codec, keys=300, tombstones=0.5), config=config)
    clean(tmp_path, 0, rolls=True, now_ms=int(time.time() * 1000) - 1000, config=config)
    before = log_bytes(tmp_path, 0)
    found = counted(tmp_path, options={"failOnDataLoss": False})
    done = clean(tmp_path, 0, rolls=True, now_ms=int(time.time() * 1000), config=config)
    is_near(found.compaction.whole, before, log_bytes(tmp_path, 0))
    assert found.compaction.whole.records == done.records_written
    assert (found.compaction.tombstones, found.tombstones > 0) == (0, True)


@pytest.mark.parametrize(("codec", "keys"), [(0, 300), (3, 10_000)])
def test_from_a_sample(tmp_path: Path, codec: int, keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a third of the batches, in several pieces."""
    monkeypatch.setattr(plan, "LEAST_SAMPLE_BYTES", 1000)
    written = topic(1000, codec=codec, keys=keys, records=16, tombstones=0.01)
    (before,) = write_topic(tmp_path, written, config=SMALL)
    rows = sum(len(put.rows) for put in written)
    sample = (before + RECORD_COST_BYTES * rows + BATCH_COST_BYTES * len(written)) // 3
    found = counted(tmp_path, sample=sample, options={"maxRecordsPerPartition": 4000})
    assert not found.compaction.is_exact
    assert 150 < found.compaction.sampled_batches < 500
    done = clean(tmp_path, 0, rolls=True, now_ms=int(time.time() * 1000), config=SMALL)
    is_near(found.compaction.whole, before, log_bytes(tmp_path, 0))
    assert found.compaction.whole.records == done.records_written


ROWS = st.builds(
    Row,
    st.integers(1_700_000_000_000, 1_700_000_100_000),
    st.sampled_from([b"a", b"b", b"c", b"d" * 300]),
    st.one_of(st.none(), st.binary(max_size=200)),
    st.sampled_from([(), (("h", b"1"),)]),
)
PUTS = st.lists(
    st.builds(Put, st.just(0), st.lists(ROWS, min_size=1, max_size=6).map(tuple), st.sampled_from(CODECS)), max_size=20
)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=PUTS)
def test_random_topics_are_cleaned_as_told(tmp_path_factory: pytest.TempPathFactory, written: list[Put]) -> None:
    path = tmp_path_factory.mktemp("random")
    config = replace(SMALL, segment_bytes=2000)
    (before,) = write_topic(path, written, config=config)
    found = counted(path).compaction
    assert found.closed is not None
    clean(path, 0, rolls=False, now_ms=int(time.time() * 1000), config=config)
    between = log_bytes(path, 0)
    is_near(found.closed, before, between)
    clean(path, 0, rolls=True, now_ms=int(time.time() * 1000), config=config)
    is_near(found.whole, before, log_bytes(path, 0))
