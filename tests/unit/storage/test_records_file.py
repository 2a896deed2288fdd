"""The data file of a segment: appends, cuts, headers, and who holds its handle how long."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from support.logs.builders import Tape, batch, joined, offsets, placed, sized_batch
from tailrace.env import File, Mode
from tailrace.env.files import MAX_PARTS
from tailrace.env.real import RealFiles
from tailrace.model.errors import CorruptMessageError, SegmentGoneError
from tailrace.model.invariant import InvariantError
from tailrace.record.legacy import plain_message
from tailrace.sim import World
from tailrace.storage.records_file import HEADER_WINDOW_BYTES, RecordsFile
from tailrace.storage.warm import WarmSet

PATH = "/data/file.log"


@pytest.fixture
def world() -> World:
    return World()


def created(world: World, warm: WarmSet | None = None) -> RecordsFile:
    return RecordsFile.create(world.disk, PATH, WarmSet(10) if warm is None else warm)


def put(records: RecordsFile, *parts: bytes | bytearray) -> None:
    records.append(parts, sum(len(part) for part in parts))


@pytest.mark.spec("LS-02")
def test_parts_are_written_one_behind_the_other(world: World) -> None:
    records = created(world)
    put(records, b"one", bytearray(b"two"))
    put(records, b"three")
    assert (records.size, records.read(0, 100)) == (11, b"onetwothree")


def test_short_writes_are_gone_on_with_at_any_edge(world: World) -> None:
    records = created(world)
    world.disk.faults.short_write_probability = 0.9
    parts = [bytes([n]) * (n % 7) for n in range(200)]
    put(records, *parts)
    assert records.read(0, 5000) == joined(parts)


@pytest.mark.parametrize("count", [MAX_PARTS, MAX_PARTS + 1, 3 * MAX_PARTS])
def test_any_number_of_parts(world: World, tmp_path: Path, count: int) -> None:
    for records in (created(world), RecordsFile.create(RealFiles(), str(tmp_path / "file.log"), WarmSet(1))):
        put(records, *[b"%5d" % n for n in range(count)])
        assert records.size == 5 * count
        assert records.read(5 * (count - 1), 10) == b"%5d" % (count - 1)


def test_a_failed_append_leaves_waste_until_the_cut(world: World) -> None:
    records = created(world)
    put(records, b"kept")
    world.disk.faults.short_write_probability = 1.0
    world.disk.fail_next("write", PATH, errno.EIO, skip=1)
    with pytest.raises(OSError, match="Input/output error"):
        put(records, b"x" * 100)
    assert (records.size, records.has_waste) == (4, True)
    assert world.disk.size(PATH) > 4
    records.cut(4)
    assert (world.disk.size(PATH), records.has_waste) == (4, False)


@pytest.mark.spec("LS-33")
def test_a_cut_is_durable_and_counted(world: World) -> None:
    records = created(world)
    world.disk.sync_dir("/data")
    put(records, b"0123456789")
    records.sync()
    records.cut(4)
    assert (records.size, records.cuts) == (4, 1)
    world.restart()
    assert world.disk.size(PATH) == 4
    with pytest.raises(InvariantError):
        RecordsFile(world.disk, PATH, WarmSet(1), size=4).cut(5)


@pytest.mark.spec("LS-35")
def test_preallocated_room_is_no_data_and_is_given_back(world: World) -> None:
    records = RecordsFile.create(world.disk, PATH, WarmSet(1), preallocate_bytes=10_000)
    put(records, sized_batch(100))
    assert (records.size, world.disk.size(PATH)) == (100, 10_000)
    assert len(list(records.headers(0))) == 1
    records.trim()
    assert world.disk.size(PATH) == 100


class TestHeaders:
    def test_every_batch_with_its_place_whatever_the_sizes(self, world: World) -> None:
        records = created(world)
        sizes = [100, HEADER_WINDOW_BYTES - 130, 100, 100, 61 + 3000, 30_000, 100]
        for n, size in enumerate(sizes):
            put(records, placed(sized_batch(size), n))
        found = list(records.headers(0))
        assert [position for position, _ in found] == [sum(sizes[:n]) for n in range(len(sizes))]
        assert [each.base_offset for _, each in found] == list(range(len(sizes)))
        assert [each.size for _, each in found] == sizes

    def test_large_batches_are_stepped_over_unread(self) -> None:
        tape = Tape()
        world = World(faults=tape)
        records = created(world)
        for n in range(5):
            put(records, placed(sized_batch(200_000), n))
        tape.rewind()
        assert len(list(records.headers(0))) == 5
        assert tape.of("read") == [PATH] * 5

    def test_from_a_position_up_to_a_limit(self, world: World) -> None:
        records = created(world)
        for n in range(10):
            put(records, placed(sized_batch(100), n))
        assert [each.base_offset for _, each in records.headers(300)] == [3, 4, 5, 6, 7, 8, 9]
        assert [each.base_offset for _, each in records.headers(300, 550)] == [3, 4]  # a partial one is not handed on
        assert list(records.headers(1000)) == []

    def test_small_old_messages_at_the_end(self, world: World) -> None:
        records = created(world)
        for n in range(200):
            put(records, plain_message(n, 0, None, b"", magic=0))
        assert [each.last_offset for _, each in records.headers(0)] == list(range(200))

    def test_what_is_no_batch_is_told(self, world: World) -> None:
        records = created(world)
        put(records, placed(batch(1), 0), b"\0" * 100)
        with pytest.raises(CorruptMessageError):
            list(records.headers(0))

    @pytest.mark.spec("LS-34")
    @pytest.mark.parametrize("left", [0, 10, 60, 100, 130])
    def test_a_file_that_lost_its_end_meanwhile_is_gone_and_no_crash(self, world: World, left: int) -> None:
        records = created(world)
        put(records, placed(sized_batch(100), 0), placed(sized_batch(100), 1))
        records.file.truncate(left)
        with pytest.raises(SegmentGoneError):
            list(records.headers(0 if left < 100 else 100))


class TestHandles:
    def test_an_unpinned_file_is_opened_when_used_and_cooled_by_others(self, world: World) -> None:
        warm = WarmSet(1)
        records = created(world, warm)
        put(records, b"data")
        held = records.file
        records.unpin()
        assert len(warm) == 1
        other = RecordsFile.create(world.disk, "/data/other.log", warm)
        other.unpin()
        assert records._file is None
        assert held.read_at(4, 0) == b"data"  # whoever holds the handle can finish
        assert records.read(0, 4) == b"data"
        assert other._file is None

    def test_files_that_are_only_read_are_open_as_long_as_the_warm_set_holds_them(self, world: World) -> None:
        """A log that was loaded has many segments: a handle for each would exhaust the descriptors."""
        warm = WarmSet(2)
        for n in range(3):
            RecordsFile.create(world.disk, f"/data/{n}.log", warm).close()
        files = [RecordsFile(world.disk, f"/data/{n}.log", warm, size=0) for n in range(3)]
        for records in files:
            records.read(0, 1)
        assert [records._file is not None for records in files] == [False, True, True]

    def test_a_pinned_file_stays_open(self, world: World) -> None:
        warm = WarmSet(1)
        records = created(world, warm)
        for n in range(5):
            RecordsFile.create(world.disk, f"/data/{n}.log", warm).unpin()
        assert records._file is not None
        records.cool()
        assert records._file is not None

    @pytest.mark.spec("LS-34")
    def test_a_closed_file_serves_those_who_hold_it_and_nobody_else(self, tmp_path: Path) -> None:
        """Closing the descriptor under a reader would give it the bytes of whichever file is opened next."""
        records = RecordsFile.create(RealFiles(), str(tmp_path / "file.log"), WarmSet(1))
        put(records, placed(batch(2), 0))
        held = records.file
        records.close()
        decoy = RecordsFile.create(RealFiles(), str(tmp_path / "decoy.log"), WarmSet(1))
        put(decoy, b"\xff" * 500)
        assert offsets(held.read_at(1000, 0)) == [(0, 1)]
        with pytest.raises(SegmentGoneError):
            records.read(0, 1)

    def test_a_reader_that_comes_while_the_name_changes_finds_the_file(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between the rename and our knowing of it nothing stands under the old name."""
        records = created(world)
        put(records, b"here")
        records.unpin()
        records.cool()
        rename, open_file = world.disk.rename, world.disk.open
        has_missed = threading.Event()
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append(records.read(0, 4)))

        def slow_rename(source: str, target: str) -> None:
            rename(source, target)
            reader.start()
            assert has_missed.wait(10)

        def watched_open(path: str, mode: Mode) -> File:
            try:
                return open_file(path, mode)
            except FileNotFoundError:
                has_missed.set()
                raise

        monkeypatch.setattr(world.disk, "rename", slow_rename)
        monkeypatch.setattr(world.disk, "open", watched_open)
        records.change_suffix("", ".swap")
        reader.join(10)
        assert found == [b"here"]

    @pytest.mark.spec("LS-34")
    def test_a_file_that_is_renamed_under_a_reader_is_gone(self, world: World) -> None:
        records = created(world)
        records.unpin()
        records.cool()
        world.disk.rename(PATH, PATH + ".deleted")  # its owner is about to say so
        with pytest.raises(SegmentGoneError):
            records.read(0, 1)
