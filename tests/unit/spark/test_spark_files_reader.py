"""Pieces of partitions read from files: exactly their rows, little else read, and what is missing by its offsets."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support.logs.builders import in_transaction, marker, real_log
from support.spark.directory_source import (
    PARTITION,
    START_MS,
    bases_of,
    expected_rows,
    note,
    offsets_in,
    options_for,
    read_batches,
    read_rows,
    segment_file,
    whole_piece,
    write_log,
)
from tailrace.client.offsets import READ_COMMITTED
from tailrace.config.log import LogConfig
from tailrace.env import Mode
from tailrace.env.real import RealFiles
from tailrace.model.errors import CorruptMessageError
from tailrace.spark.errors import DataLossError, PipelineError
from tailrace.spark.source.files import segment_reader
from tailrace.spark.source.files.headers import headers
from tailrace.spark.source.files.read_only import ReadOnlyFiles
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.ranges import OffsetRange, TimeRange
from tailrace.storage.origin import Origin

FOREVER = (1 << 63) - 1


def _piece(start: int, end: int, topic_id: str | None = None) -> OffsetRange:
    return OffsetRange(PARTITION, start, end, topic_id)


def _read(path: Path, start: int, end: int, **more: Any) -> list[int]:
    """The offsets that are read, with nothing lost."""
    return offsets_in(read_rows(options_for(path, "t"), _piece(start, end), **more))


def _read_with_loss(path: Path, start: int, end: int, **more: Any) -> tuple[list[int], int]:
    loss = LossPolicy(fails=False)
    options = options_for(path, "t", fail_on_data_loss=False, **more)
    return offsets_in(read_rows(options, _piece(start, end), loss=loss)), loss.lost_offsets


# Little else is read


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 MB in batches of 12 KB, in five segments; one millisecond from record to record."""
    path = tmp_path_factory.mktemp("large")
    config = LogConfig(segment_bytes=5 << 19, segment_index_bytes=1 << 16)
    write_log(path / "t-0", [100] * 1000, config=config, value_bytes=108)
    return path


def _bytes_of(path: Path) -> int:
    return sum(file.stat().st_size for file in (path / "t-0").glob("*.log"))


class CountedFiles(RealFiles):
    """Real files that keep count, whoever reads them."""

    __slots__ = ("counted",)

    def __init__(self) -> None:
        self.counted = ReadOnlyFiles()

    def open(self, path: str, mode: Any) -> Any:
        return self.counted.open(path, mode)


@pytest.mark.parametrize("start", [0, 12_345, 50_000, 98_999])
def test_one_percent_of_the_offsets_reads_little_more(start: int, large: Path) -> None:
    files = CountedFiles()
    assert _read(large, start, start + 1000, files=files) == list(range(start, start + 1000))
    assert files.counted.bytes_read <= 0.03 * _bytes_of(large)


@pytest.mark.parametrize("isolation", [0, READ_COMMITTED])
def test_the_last_percent_of_the_time_reads_little_more(isolation: int, large: Path) -> None:
    files = CountedFiles()
    options = options_for(large, "t", isolation=isolation)
    times = TimeRange(START_MS + 99_000, FOREVER)
    rows = read_rows(options, _piece(0, 100_000), times=times, files=files)
    assert offsets_in(rows) == list(range(99_000, 100_000))
    if isolation != READ_COMMITTED:
        assert files.counted.bytes_read <= 0.03 * _bytes_of(large)


def test_a_whole_log_is_read_once(large: Path) -> None:
    files = CountedFiles()
    assert _read(large, 0, 100_000, files=files) == list(range(100_000))
    assert files.counted.bytes_read <= 1.01 * _bytes_of(large)


def test_rows_are_those_that_were_written(large: Path) -> None:
    rows = read_rows(options_for(large, "t"), _piece(40_000, 40_300))
    assert rows == expected_rows(large / "t-0", 40_000, 40_300)


# Times in any order


@settings(max_examples=examples(15))
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_times_in_any_order_prune_nothing_that_is_wanted(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, seed: int
) -> None:
    path = tmp_path_factory.mktemp("times")
    dice = random.Random(seed)
    jitter = data.draw(st.sampled_from([1, 20, 500]))
    times = [START_MS + n + dice.randrange(jitter) for n in range(300)]
    folder = write_log(path / "t-0", [dice.randrange(1, 9) for _ in range(60)], times=times)
    end = whole_piece(options_for(path, "t"), PARTITION).end
    for suffix in data.draw(st.sets(st.sampled_from([".index", ".timeindex"]))):
        for base in bases_of(folder):
            index = segment_file(folder, base, suffix)
            if dice.random() < 0.5:
                index.write_bytes(dice.randbytes(len(index.read_bytes()) // 4 * 4))
    first = START_MS + data.draw(st.integers(-10, 600))
    last = first + data.draw(st.integers(0, 600))
    start = data.draw(st.integers(0, end))
    rows = read_rows(options_for(path, "t"), _piece(start, end), times=TimeRange(first, last))
    assert rows == [row for row in expected_rows(folder, start, end) if first <= row[1] <= last]


def test_a_batch_larger_than_a_block_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "BLOCK_BYTES", 300)
    folder = write_log(tmp_path / "t-0", [1, 60, 2, 1, 33, 1, 70, 1])
    rows = read_rows(options_for(tmp_path, "t"), _piece(0, 169))
    assert rows == expected_rows(folder, 0, 169)


# What is missing


def test_a_segment_that_is_missing_is_lost_by_its_offsets(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    _, second, third, *_ = bases_of(folder)
    segment_file(folder, second).unlink()
    with pytest.raises(DataLossError, match=f"t-0: offsets {second} to {third - 1} are lost: no batch in .* has them"):
        _read(tmp_path, 0, 300)
    kept = [offset for offset in range(300) if not second <= offset < third]
    assert _read_with_loss(tmp_path, 0, 300) == (kept, third - second)
    assert _read_with_loss(tmp_path, 0, second + 2) == (list(range(second)), 2)
    assert _read_with_loss(tmp_path, second + 2, second + 4) == ([], 2)
    assert _read_with_loss(tmp_path, third - 1, third + 1) == ([third], 1)


def test_what_the_cleaner_says_that_it_has_cleaned_is_no_loss(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    _, second, third, *_ = bases_of(folder)
    segment_file(folder, second).unlink()
    note(tmp_path, "cleaner-offset-checkpoint", {PARTITION: third})
    assert _read(tmp_path, 0, 300) == [offset for offset in range(300) if not second <= offset < third]
    assert _read(tmp_path, second, third) == []
    note(tmp_path, "cleaner-offset-checkpoint", {PARTITION: third - 3})
    with pytest.raises(
        DataLossError, match=f"offsets {third - 3} to {third - 1} are lost: .* up to offset {third - 3}"
    ):
        _read(tmp_path, 0, 300, pause=lambda _: None)


def test_a_round_of_cleaning_that_is_not_noted_yet_is_waited_for(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    _, second, third, *_ = bases_of(folder)
    segment_file(folder, second).unlink()
    note(tmp_path, "cleaner-offset-checkpoint", {PARTITION: second})

    def finish_round(_: float) -> None:
        note(tmp_path, "cleaner-offset-checkpoint", {PARTITION: third})

    assert len(_read(tmp_path, 0, 300, pause=finish_round)) == 300 - (third - second)


@pytest.mark.parametrize("sign", ["{third}.log.cleaned", "{third}.log.swap", "{second}.log.deleted"])
def test_a_gap_is_no_loss_while_the_cleaner_is_at_work(sign: str, tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    _, second, third, *_ = bases_of(folder)
    segment_file(folder, second).unlink()
    (folder / sign.format(second=f"{second:020d}", third=f"{third:020d}")).write_bytes(b"")
    assert len(_read(tmp_path, 0, 300)) == 300 - (third - second)


def test_what_retention_has_deleted_is_lost(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    first, second, *_ = bases_of(folder)
    segment_file(folder, first).rename(segment_file(folder, first, ".log.deleted"))
    with pytest.raises(DataLossError, match=f"offsets 3 to {second - 1} are lost: the first segment begins at offset"):
        _read(tmp_path, 3, 300)
    assert _read_with_loss(tmp_path, 3, 300) == (list(range(second, 300)), second - 3)
    assert _read_with_loss(tmp_path, 3, 7) == ([], 4)


def test_what_lies_below_the_log_start_is_lost(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [5] * 60)
    note(tmp_path, "log-start-offset-checkpoint", {PARTITION: 13})
    with pytest.raises(DataLossError, match="offsets 7 to 12 are lost: the log starts at offset 13 now"):
        _read(tmp_path, 7, 20)
    assert _read_with_loss(tmp_path, 7, 20) == (list(range(13, 20)), 6)


def test_a_log_that_has_shrunk_is_lost_from_its_end_on(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    with pytest.raises(DataLossError, match=r"offsets 300 to 319 are lost: the log in .* ends at offset 300"):
        _read(tmp_path, 0, 320)
    assert _read_with_loss(tmp_path, 310, 320) == ([], 10)
    last = segment_file(folder, bases_of(folder)[-1])
    last.write_bytes(last.read_bytes()[:-1])
    assert _read_with_loss(tmp_path, 290, 300) == (list(range(290, 295)), 5)


def test_a_topic_that_was_made_again_is_lost(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [5])
    loss = LossPolicy(fails=False)
    assert read_rows(options_for(tmp_path, "t"), _piece(0, 5, "AAAAAAAAAAAAAAAAAAAAAQ"), loss=loss) == []
    assert loss.lost_offsets == 5
    with pytest.raises(
        DataLossError, match="offsets 0 to 4 are lost: the topic was deleted and made again: its id was A"
    ):
        read_rows(options_for(tmp_path, "t"), _piece(0, 5, "AAAAAAAAAAAAAAAAAAAAAQ"))


def test_a_folder_that_is_gone_is_lost_and_a_path_that_is_gone_is_an_error(tmp_path: Path) -> None:
    write_log(tmp_path / "a" / "t-0", [5])
    write_log(tmp_path / "a" / "t-1", [5])
    options = options_for(tmp_path / "a", "t")
    (tmp_path / "a" / "t-0").rename(tmp_path / "a" / "t-0.0123456789abcdef0123456789abcdef-delete")
    with pytest.raises(DataLossError, match=r"t-0: offsets 0 to 4 are lost: path '.*' does not hold it any more"):
        read_rows(options, _piece(0, 5), pause=lambda _: None)
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(PipelineError, match="cannot be read here"):
        read_rows(options, _piece(0, 5))


# What is damaged


def _places(folder: Path, base: int) -> list[tuple[int, int]]:
    """(position, first offset) of each batch of a segment."""
    file = ReadOnlyFiles().open(str(segment_file(folder, base)), Mode.READ)
    try:
        return [(position, batch.base_offset) for position, batch in headers(file)]
    finally:
        file.close()


def _patch(folder: Path, base: int, position: int, data: bytes) -> None:
    path = segment_file(folder, base)
    found = bytearray(path.read_bytes())
    found[position : position + len(data)] = data
    path.write_bytes(found)


def _skip(path: Path, start: int, end: int) -> tuple[list[int], list[tuple[int, int]]]:
    told: list[tuple[int, int]] = []
    rows = read_rows(options_for(path, "t", skip_corrupt=True), _piece(start, end), corrupt=told)
    return offsets_in(rows), told


def _joined(told: list[tuple[int, int]]) -> list[int]:
    return [offset for first, end in told for offset in range(first, end)]


NOISE = bytes(range(200, 256)) + bytes(range(5))


def test_a_segment_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    class Refused(RealFiles):
        __slots__ = ()

        def open(self, path: str, mode: Mode) -> Any:
            if path.endswith(".log"):
                raise PermissionError(13, "Permission denied", path)
            return super().open(path, mode)

    write_log(tmp_path / "t-0", [5])
    with pytest.raises(PipelineError, match=r"t-0/0{20}\.log may not be read here: Permission denied"):
        _read(tmp_path, 0, 5, files=Refused())


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("place", [0, 3, -1])
@pytest.mark.parametrize("segment", [0, 1, -1])
@pytest.mark.parametrize("kind", ["records", "header", "length", "last offset"])
def test_damage_is_named_by_its_offsets_and_skipped_when_asked(
    kind: str, segment: int, place: int, has_index: bool, tmp_path: Path
) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    base = bases_of(folder)[segment]
    position, offset = _places(folder, base)[place]
    if kind == "records":
        _patch(folder, base, position + 70, b"\xff\xff")
    elif kind == "header":
        _patch(folder, base, position, NOISE)
    elif kind == "length":
        _patch(folder, base, position + 8, b"\0\0\0\x09")
    else:
        _patch(folder, base, position + 23, b"\0\x7f\0\0")
    if not has_index:
        segment_file(folder, base, ".index").unlink()
    with pytest.raises(CorruptMessageError, match=f"t-0: .*offsets? {offset} "):
        _read(tmp_path, 0, 300)
    found, told = _skip(tmp_path, 0, 300)
    assert sorted(found + _joined(told)) == list(range(300))
    assert set(range(offset, offset + 5)) <= set(_joined(told))
    if kind == "records":
        assert told == [(offset, offset + 5)]
    if has_index and offset < 240:  # damage before what is wanted is passed by
        assert _read(tmp_path, offset + 60, 300) == list(range(offset + 60, 300))


def test_damage_at_the_end_of_a_block_is_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    for position, offset in _places(folder, 0)[:8]:
        _patch(folder, 0, position, NOISE)
        for block in (310, 700, 1500):
            monkeypatch.setattr(segment_reader, "BLOCK_BYTES", block)
            found, told = _skip(tmp_path, 0, 300)
            assert sorted(found + _joined(told)) == list(range(300)), (offset, block)


def test_zeros_between_batches_are_passed_through_the_index(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    (position, offset), (_, behind) = _places(folder, 0)[3:5]
    _patch(folder, 0, position, bytes(400))
    with pytest.raises(CorruptMessageError, match=f"from offset {offset} on"):
        _read(tmp_path, 0, 300)
    found, told = _skip(tmp_path, 0, 300)
    assert sorted(found + _joined(told)) == list(range(300))
    assert behind in _joined(told)
    assert len(found) >= 285
    segment_file(folder, 0, ".index").write_bytes(bytes(400))
    note(tmp_path, "cleaner-offset-checkpoint", {PARTITION: 300})  # no gap, which would be normal then
    with pytest.raises(CorruptMessageError, match=f"from offset {offset} on"):
        _read(tmp_path, 0, 300)


def test_a_file_that_was_made_longer_ends_where_its_batches_do(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [5] * 60)
    for base in bases_of(folder):
        path = segment_file(folder, base)
        path.write_bytes(path.read_bytes() + bytes(3000))
    assert _read(tmp_path, 0, 300) == list(range(300))
    assert _read_with_loss(tmp_path, 290, 310) == (list(range(290, 300)), 10)


@settings(max_examples=examples(25))
@given(seed=st.integers(0, 1 << 32))
def test_whatever_the_bytes_are_reading_ends(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = tmp_path_factory.mktemp("noise")
    dice = random.Random(seed)
    folder = write_log(path / "t-0", [dice.randrange(1, 6) for _ in range(60)])
    end = whole_piece(options_for(path, "t"), PARTITION).end
    for _ in range(dice.randrange(1, 6)):
        file = dice.choice(sorted(set(folder.iterdir()) - {folder / "partition.metadata"}))
        data = bytearray(file.read_bytes())
        at = dice.randrange(len(data) + 1)
        change = dice.choice(["cut", "flip", "noise", "zeros", "more"])
        if change == "cut":
            del data[at:]
        elif change == "flip" and at < len(data):
            data[at] ^= 1 << dice.randrange(8)
        elif change == "more":
            data += dice.randbytes(100)
        else:
            data[at : at + 80] = dice.randbytes(80) if change == "noise" else bytes(80)
        file.write_bytes(data)
    told: list[tuple[int, int]] = []
    loss = LossPolicy(fails=False)
    options = options_for(path, "t", skip_corrupt=True, fail_on_data_loss=False, isolation=dice.choice([0, 1]))
    rows = read_rows(options, _piece(0, end), loss=loss, corrupt=told)
    offsets = offsets_in(rows)
    assert offsets == sorted(set(offsets))
    assert len(offsets) + len(_joined(told)) + loss.lost_offsets == end


# A log that changes meanwhile


class _Interrupted:
    """Rows as they come, with a turn of somebody else's after the first batch."""

    def __init__(self, path: Path, end: int, **more: Any) -> None:
        self.loss = LossPolicy(fails=False)
        options = options_for(path, "t", fail_on_data_loss=False, **more)
        self._batches = read_batches(options, _piece(0, end), loss=self.loss)
        self.offsets: list[int] = []

    def take(self, batches: int | None = None) -> None:
        for batch in self._batches:
            self.offsets += batch.column(0).to_pylist()
            if batches is not None:
                batches -= 1
                if not batches:
                    return


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """Segments with more rows than a batch of Arrow has."""
    config = LogConfig(segment_bytes=1 << 21, segment_index_bytes=1 << 16)
    write_log(tmp_path / "t-0", [2000] * 60, config=config, value_bytes=50)
    return tmp_path


def test_an_open_segment_is_read_to_its_end_and_what_is_deleted_behind_it_is_lost(wide: Path) -> None:
    folder = wide / "t-0"
    bases = bases_of(folder)
    assert len(bases) >= 4
    reading = _Interrupted(wide, 120_000)
    reading.take(1)
    for base in bases[:2]:
        segment_file(folder, base).rename(segment_file(folder, base, ".log.deleted"))
    reading.take()
    assert reading.offsets == [*range(bases[1]), *range(bases[2], 120_000)]
    assert reading.loss.lost_offsets == bases[2] - bases[1]


def test_segments_that_were_merged_meanwhile_are_read_on_at_the_same_offset(wide: Path) -> None:
    folder = wide / "t-0"
    bases = bases_of(folder)
    reading = _Interrupted(wide, 120_000)
    reading.take(1)
    merged = b"".join(segment_file(folder, base).read_bytes() for base in bases[:3])
    for base in bases[:3]:
        segment_file(folder, base).rename(segment_file(folder, base, ".log.deleted"))
        segment_file(folder, base, ".index").unlink()
    segment_file(folder, bases[0]).write_bytes(merged)
    reading.take()
    assert reading.offsets == list(range(120_000))
    assert not reading.loss.lost_offsets


def test_a_swap_under_way_is_read_under_the_name_it_still_has(wide: Path) -> None:
    folder = wide / "t-0"
    bases = bases_of(folder)
    merged = b"".join(segment_file(folder, base).read_bytes() for base in bases[:2])
    segment_file(folder, bases[0]).rename(segment_file(folder, bases[0], ".log.deleted"))
    segment_file(folder, bases[0], ".log.swap").write_bytes(merged)
    reading = _Interrupted(wide, 120_000)  # the second of the two is still there
    reading.take()
    assert reading.offsets == list(range(120_000))


def test_a_folder_that_goes_while_it_is_read_is_lost_behind_the_open_segment(wide: Path) -> None:
    folder = wide / "t-0"
    bases = bases_of(folder)
    reading = _Interrupted(wide, 120_000)
    reading.take(1)
    folder.rename(wide / "t-0.0123456789abcdef0123456789abcdef-delete")
    reading.take()
    assert reading.offsets == list(range(bases[1]))
    assert reading.loss.lost_offsets == 120_000 - bases[1]


# Transactions


@settings(max_examples=examples(20))
@given(seed=st.integers(0, 1 << 32))
@example(seed=531)  # an entry whose last byte is wrong, and nonsense behind it
def test_committed_pieces_have_no_row_of_an_aborted_transaction(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    path = tmp_path_factory.mktemp("transactions")
    dice = random.Random(seed)
    log = real_log(path / "t-0", LogConfig(segment_bytes=1500, segment_index_bytes=240, index_interval_bytes=200))
    sequences: dict[int, int] = {}
    begun: dict[int, int] = {}
    for _ in range(60):
        producer = dice.randrange(1, 5)
        if producer in begun and dice.random() < 0.4:
            log.append_as_leader([marker(producer, commit=dice.random() < 0.5)], 0, Origin.COORDINATOR)
            del begun[producer]
        else:
            count = dice.randrange(1, 4)
            begun.setdefault(producer, log.log_end_offset)
            sequence = sequences.get(producer, 0)
            log.append_as_leader([in_transaction(producer, sequence, count)], 0)
            sequences[producer] = sequence + count
    stable = min(begun.values(), default=log.log_end_offset)
    if dice.random() < 0.5:
        log.close()
    options = options_for(path, "t", isolation=READ_COMMITTED)
    piece = whole_piece(options, PARTITION)
    assert piece.end == stable
    damage = dice.choice(["none", "gone", "noise", "cut"])
    first_sure = 0
    for base in bases_of(path / "t-0"):
        index = segment_file(path / "t-0", base, ".txnindex")
        if damage == "gone" and base == bases_of(path / "t-0")[-1]:
            index.unlink(missing_ok=True)  # of the segment that is written; pieces before it cannot know of that
            first_sure = base
        elif index.exists() and damage in ("noise", "cut") and dice.random() < 0.5:
            data = bytearray(index.read_bytes())
            at = dice.randrange(len(data))
            at += not at % 34  # whole entries that are gone leave no trace
            at = min(at, len(data) - 3)  # nor does another number of the last field of the last entry
            index.write_bytes(data[:at] + (dice.randbytes(len(data) - at) if damage == "noise" else b""))
    committed = expected_rows(path / "t-0", 0, stable, committed=True)
    for _ in range(8):
        start = dice.randrange(stable + 1)
        end = dice.randrange(start, stable + 1)
        if end <= first_sure:
            continue
        rows = read_rows(options, piece._replace(start=start, end=end))
        assert rows == [row for row in committed if start <= row[0] < end]
