"""Two replicas byte by byte: what a task finds, against a plain model of two lists of batches."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.audit.logs import Partition, busy
from support.logs.sample_log import GOLDEN_PARTITIONS
from tailrace.record.batch import set_crc, set_leader_epoch
from tailrace.record.builder import batch_of
from tailrace.record.shallow import batches
from tailrace.spark.auditing.shuffles.replica_batches import (
    MOST_DIFFERENCES,
    Comparison,
    Difference,
    Kind,
    compare,
)

ALL = 1 << 40


def folder(root: Path, name: str) -> Partition:
    path = root / name / "t-0"
    path.mkdir(parents=True)
    for file, content in busy().files.items():
        (path / file).write_bytes(content)
    return Partition(path)


@pytest.fixture
def one(tmp_path: Path) -> Partition:
    return folder(tmp_path, "one")


@pytest.fixture
def two(tmp_path: Path) -> Partition:
    return folder(tmp_path, "two")


def differences(one: Partition, two: Partition, start: int = 0, end: int = ALL) -> list[tuple[Kind, int, int]]:
    found = compare(Comparison(0, str(one.folder), str(two.folder), start, end))
    assert found.is_readable
    return [(each.kind, each.offset, each.behind) for each in found.differences]


def changed(part: bytes) -> bytes:
    made = bytearray(part)
    made[-3] ^= 1
    set_crc(made)
    return bytes(made)


class TestEqualReplicas:
    def test_copies_do_not_differ(self, one: Partition, two: Partition) -> None:
        assert differences(one, two) == []

    @pytest.mark.parametrize("golden", GOLDEN_PARTITIONS, ids=lambda path: path.name)
    def test_whatever_kafka_writes_is_equal_to_itself(self, golden: Path) -> None:
        assert differences(Partition(golden), Partition(golden)) == []

    def test_replicas_roll_apart(self, one: Partition, two: Partition) -> None:
        whole = b"".join(two.file(number).read_bytes() for number in range(4))
        for number in reversed(range(1, 4)):
            two.file(number).unlink()
        two.file(0).write_bytes(whole)
        assert differences(one, two) == []
        assert differences(two, one) == []

    def test_only_what_both_must_have_is_compared(self, one: Partition, two: Partition) -> None:
        two.file(0).unlink()
        two.write(-1, two.parts(-1)[:4])
        assert differences(one, two, 28, 78) == []
        assert differences(one, two) == [(Kind.SECOND_LACKS, 0, 28), (Kind.SECOND_LACKS, 78, 87)]

    def test_a_stretch_may_begin_and_end_within_batches(self, one: Partition, two: Partition) -> None:
        parts = two.parts(1)
        two.write(1, [*parts[:2], changed(parts[2]), *parts[3:]])
        assert differences(one, two, 34, 60) == []
        assert differences(one, two, 0, 34) == [(Kind.DIFFERS, 33, 37)]


class TestDifferences:
    def test_other_bytes(self, one: Partition, two: Partition) -> None:
        parts = two.parts(1)
        two.write(1, [*parts[:2], changed(parts[2]), *parts[3:]])
        found = compare(Comparison(0, str(one.folder), str(two.folder), 0, ALL))
        position = two.batch(1, 2).position
        (difference,) = found.differences
        assert difference == Difference(Kind.DIFFERS, 33, 37, 1, position, position, difference.words)
        assert difference.words.startswith("CRC is ")

    def test_another_epoch_is_outside_the_crc_and_found(self, one: Partition, two: Partition) -> None:
        content = bytearray(two.file(3).read_bytes())
        set_leader_epoch(content, two.batch(3, 6).position, 4)
        two.file(3).write_bytes(content)
        found = compare(Comparison(0, str(one.folder), str(two.folder), 0, ALL))
        assert [(each.offset, each.words) for each in found.differences] == [
            (85, "leader epoch is 4 here, 3 there"),
        ]

    def test_neighbours_are_one_difference(self, one: Partition, two: Partition) -> None:
        parts = two.parts(0)
        two.write(0, [parts[0], *map(changed, (parts[1], parts[3])), *parts[4:]])
        assert differences(one, two) == [
            (Kind.DIFFERS, 4, 7),
            (Kind.SECOND_LACKS, 7, 12),
            (Kind.DIFFERS, 12, 15),
        ]
        two.write(0, [parts[0], *parts[5:]])
        assert differences(one, two) == [(Kind.SECOND_LACKS, 4, 19)]
        assert differences(two, one) == [(Kind.FIRST_LACKS, 4, 19)]

    def test_batches_of_other_sizes_differ_as_a_whole(self, one: Partition, two: Partition) -> None:
        parts = two.parts(0)
        apart = [bytes(batch_of([(1, b"k", b"v")], base_offset=at, leader_epoch=0)) for at in range(4)]
        two.write(0, [*apart, *parts[1:]])
        assert differences(one, two) == [(Kind.DIFFERS, 0, 4)]

    def test_what_has_no_right_crc_is_for_others_to_tell(self, one: Partition, two: Partition) -> None:
        content = bytearray(two.file(1).read_bytes())
        content[two.batch(1, 2).end - 3] ^= 1
        two.file(1).write_bytes(content)
        assert differences(one, two) == []
        assert differences(two, one) == []

    def test_what_cannot_be_framed_is_for_others_to_tell(self, one: Partition, two: Partition) -> None:
        content = bytearray(two.file(1).read_bytes())
        place = two.batch(1, 2)
        content[place.position : place.end] = b"\xee" * place.size
        two.file(1).write_bytes(content)
        assert differences(one, two) == []
        two.file(1, ".index").unlink()
        assert differences(one, two) == []

    def test_a_flood_of_differences_is_cut(self, one: Partition, two: Partition) -> None:
        for partition in (one, two):
            for number in reversed(range(1, 4)):
                partition.file(number).unlink()
        parts = [bytes(batch_of([(1, b"k", b"v")], base_offset=at, leader_epoch=0)) for at in range(3000)]
        one.file(0).write_bytes(b"".join(parts))
        two.file(0).write_bytes(b"".join(changed(part) if at % 2 else part for at, part in enumerate(parts)))
        assert MOST_DIFFERENCES <= len(differences(one, two)) <= MOST_DIFFERENCES + 1


def model(one: dict[int, bytes], two: dict[int, bytes]) -> set[int]:
    """First offsets of batches that are not the same in both."""
    return {first for first in one.keys() | two.keys() if one.get(first) != two.get(first)}


@given(st.data())
@settings(max_examples=examples(60))
def test_differences_are_those_of_a_model(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=30))
    log: dict[int, bytes] = {}
    offset = 0
    for count in counts:
        records = [(1000 + n, b"k", b"value") for n in range(count)]
        log[offset] = bytes(batch_of(records, base_offset=offset, leader_epoch=0, codec=offset % 5))
        offset += count
    other = dict(log)
    for first in data.draw(st.sets(st.sampled_from(sorted(log)), max_size=6)):
        if data.draw(st.booleans()):
            del other[first]
        else:
            moved = bytearray(log[first])
            set_leader_epoch(moved, 0, 5)
            other[first] = bytes(moved)
    with TemporaryDirectory() as root:
        sides = [_written(Path(root) / name, content, data) for name, content in (("one", log), ("two", other))]
        found = {
            first
            for _, begin, end in differences(Partition(sides[0]), Partition(sides[1]), 0, offset)
            for first in log
            if begin <= first < end
        }
    assert found == model(log, other)


@given(st.data())
@settings(max_examples=examples(80))
def test_whatever_the_bytes_are_a_comparison_ends(data: st.DataObject) -> None:
    with TemporaryDirectory() as root:
        sides = [folder(Path(root), name) for name in ("one", "two")]
        for side in sides:
            paths = sorted(side.folder.glob("*.*"))
            for path in data.draw(st.lists(st.sampled_from(paths), max_size=4)):
                content = bytearray(path.read_bytes())
                at = data.draw(st.integers(0, max(len(content) - 1, 0)))
                junk = data.draw(st.binary(max_size=70) | st.just(bytes(64)) | st.just(b"\xff" * 12))
                content[at : at + data.draw(st.integers(0, 70))] = junk
                path.write_bytes(content)
        found = compare(Comparison(0, str(sides[0].folder), str(sides[1].folder), 0, 87))
        assert found.is_readable
        assert [each.offset for each in found.differences] == sorted({each.offset for each in found.differences})


def _written(folder: Path, content: dict[int, bytes], data: st.DataObject) -> Path:
    """In segments that are cut at any batches."""
    path = folder / "t-0"
    path.mkdir(parents=True)
    bases = {0, *data.draw(st.sets(st.sampled_from(sorted(content) or [0]), max_size=4))}
    base = 0
    segments: dict[int, bytearray] = {}
    for first, part in sorted(content.items()):
        base = first if first in bases else base
        segments.setdefault(base, bytearray()).extend(part)
    for base, whole in (segments or {0: bytearray()}).items():
        (path / f"{base:020d}.log").write_bytes(whole)
        assert list(batches(whole)) or not whole
    return path
