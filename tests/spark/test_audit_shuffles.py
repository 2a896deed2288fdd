"""Superseded keys and the newest values of replicas, by Spark, against plain Python on random logs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from support.audit.logs import Log, LogDirectory, busy, table
from tailrace.env.real import RealFiles
from tailrace.record.builder import BatchBuilder
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.listing import find_places
from tailrace.spark.auditing.job.places import Folder, replica_groups
from tailrace.spark.auditing.shuffles.replicas import compare_replicas
from tailrace.spark.auditing.shuffles.superseded import MOST_FINDINGS, find_superseded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Rec(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


def folders(*directories: LogDirectory) -> tuple[Folder, ...]:
    return find_places(RealFiles(), [str(each) for each in directories]).folders


def log_of(records: list[Rec], end: int, cleaned_to: int | None, rng: random.Random) -> Log:
    """Batches of up to four records in segments of up to ten batches; the last segment begins at `end` − 1 at most."""
    files: dict[str, bytes] = {}
    base, content = 0, b""
    batches = 0
    left = list(records)
    while left:
        count = rng.randint(1, 4)
        taken, left = left[:count], left[count:]
        builder = BatchBuilder(taken[0].offset, codec=rng.choice((0, 0, 1, 3, 4)), leader_epoch=0)
        for each in taken:
            builder.append_at(each.offset, 1000 + each.offset, each.key, each.value)
        if batches == 10 or (cleaned_to is not None and base < cleaned_to <= taken[0].offset):
            files[f"{base:020d}.log"] = content
            base, content, batches = taken[0].offset, b"", 0
        content += builder.build()
        batches += 1
    files[f"{base:020d}.log"] = content
    return Log(files, end, cleaned_to)


def random_records(rng: random.Random, count: int, keys: int) -> list[Rec]:
    found = []
    for offset in range(count):
        key = b"key %d" % rng.randrange(keys)
        found.append(Rec(offset, key, None if rng.random() < 0.15 else b"v%d" % rng.randrange(1000)))
    return found


def newest_below(records: list[Rec], end: int) -> dict[bytes, Rec]:
    return {each.key: each for each in records if each.offset < end and each.key is not None}


def cleaned(records: list[Rec], point: int, rng: random.Random) -> list[Rec]:
    """What a cleaner leaves that came up to `point`; of the tombstones some are gone as well."""
    newest = newest_below(records, point)
    return [
        each
        for each in records
        if each.offset >= point
        or (each.key is not None and newest[each.key] is each and (each.value is not None or rng.random() < 0.5))
    ]


def places_of(findings: list[Finding]) -> set[tuple[str, str, int | None]]:
    return {(str(finding.partition), finding.rule, finding.offset) for finding in findings}


def test_superseded_keys_are_those_of_a_model(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(9)
    directory = LogDirectory(tmp_path / "one")
    expected: set[tuple[str, str, int | None]] = set()
    for number in range(8):
        point = rng.randint(20, 80)
        clean = cleaned(random_records(rng, 120, 25), point, rng)
        left = rng.sample(range(point), 6) if number % 2 else []
        planted = [
            Rec(offset, b"key %d" % rng.randrange(25) if rng.random() < 0.8 else None, b"left behind")
            for offset in left
            if offset not in {each.offset for each in clean}
        ]
        records = sorted([*clean, *planted], key=lambda each: each.offset)
        directory.put(f"t{number}-0", log_of(records, 120, point, rng))
        by_key: dict[bytes | None, list[int]] = {}
        for each in records:
            if each.offset < point:
                by_key.setdefault(each.key, []).append(each.offset)
        for key, offsets in by_key.items():
            if key is None:
                expected.add((f"t{number}-0", "keyless-record", min(offsets)))
            elif len(offsets) > 1:
                expected.add((f"t{number}-0", "superseded-key", min(offsets)))
    found: list[Finding] = []
    told: list[tuple[int, int]] = []
    find_superseded(spark, folders(directory), found.append, told=lambda *at: told.append(at))
    assert expected
    assert places_of(found) == expected
    assert told[-1][0] == told[-1][1]


def test_a_log_that_was_never_cleaned_floods_nobody(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(4)
    directory = LogDirectory(tmp_path / "one")
    records = [Rec(offset, b"key %d" % (offset % 150), b"v") for offset in range(400)]
    directory.put("t-0", log_of(records, 400, 380, rng))
    directory.put("fine-0", table())
    directory.put("plain-0", busy())
    found: list[Finding] = []
    find_superseded(spark, folders(directory), found.append)
    assert len(found) == MOST_FINDINGS + 1
    assert [finding.offset for finding in found[:3]] == [0, 1, 2]
    assert (
        found[0].words
        == "key 'key 0' has 3 records below the cleaner's point 380: this one, and the newest at offset 300"
    )
    assert found[-1].words == "and 50 more keys with older records below the cleaner's point 380"


def test_a_point_behind_a_log_that_was_cut_says_nothing(spark: SparkSession, tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "one")
    directory.put("t-0", table(is_cleaned=False)._replace(cleaned_to=60))
    found: list[Finding] = []
    find_superseded(spark, folders(directory), found.append)
    assert found == []


def test_replicas_that_were_cleaned_apart_agree(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(5)
    directories = [LogDirectory(tmp_path / str(node), node=node) for node in (1, 2, 3)]
    for number in range(4):
        records = random_records(rng, 150, 20)
        for directory in directories:
            point = rng.choice((None, rng.randint(10, 140)))
            kept = records if point is None else cleaned(records, point, rng)
            # Whatever the segments, batches above all points are the same bytes: one record each.
            directory.put(f"t{number}-0", _one_by_one(kept, 150, point, rng))
    found: list[Finding] = []
    groups = replica_groups(folders(*directories))
    assert len(groups) == 4
    compare_replicas(spark, groups, found.append)
    assert found == []


def test_differences_of_newest_values_are_those_of_a_model(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(6)
    one, two = (LogDirectory(tmp_path / str(node), node=node) for node in (1, 2))
    expected: set[tuple[str, str, int | None]] = set()
    for number in range(6):
        records = random_records(rng, 150, 20)
        point = rng.randint(60, 140)
        first, second = cleaned(records, point, rng), cleaned(records, rng.randint(1, point), rng)
        damaged = _damaged(second, point, rng)
        one.put(f"t{number}-0", _one_by_one(first, 150, point, rng))
        two.put(f"t{number}-0", _one_by_one(damaged, 150, 1, rng))
        expected |= {(f"t{number}-0", *each) for each in _differing(first, damaged, point)}
    found: list[Finding] = []
    compare_replicas(spark, replica_groups(folders(one, two)), found.append)
    assert len(expected) > 5
    assert places_of(found) == expected
    assert {Path(finding.file).parents[1].name for finding in found} <= {"1", "2"}


def _one_by_one(records: list[Rec], end: int, point: int | None, rng: random.Random) -> Log:
    files: dict[str, bytes] = {}
    base = 0
    for each in records:
        if (point is not None and base < point <= each.offset) or rng.random() < 0.05:
            base = each.offset
        builder = BatchBuilder(each.offset, leader_epoch=0)
        builder.append_at(each.offset, 1000 + each.offset, each.key, each.value)
        name = f"{base:020d}.log"
        files[name] = files.get(name, b"") + bytes(builder.build())
    return Log(files, end, point)


def _damaged(records: list[Rec], point: int, rng: random.Random) -> list[Rec]:
    """Some of those below `point` gone, some with other values."""
    kept = []
    for each in records:
        chance = rng.random() if each.offset < point else 1.0
        if chance < 0.05:
            continue
        kept.append(each._replace(value=b"another") if chance < 0.1 else each)
    return kept


def _differing(one: list[Rec], two: list[Rec], point: int) -> set[tuple[str, int]]:
    first, second = newest_below(one, point), newest_below(two, point)
    found = set()
    for key in first.keys() | second.keys():
        a, b = first.get(key), second.get(key)
        if (a.value if a else None) == (b.value if b else None):
            continue
        newest = max(each.offset for each in (a, b) if each is not None)
        is_same_place = a is not None and b is not None and a.offset == b.offset
        found.add(("replica-divergence" if is_same_place else "replica-missing", newest))
    return found
