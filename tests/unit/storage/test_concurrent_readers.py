"""Readers on other threads, on real files, while the owner appends, rolls, truncates, deletes and closes.

Every batch says in its value which offset it was written at and in which generation (truncations so far). What a reader
gets must be whole batches of one generation that were at that place, or a clear error. Bounded by counts.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.logs.builders import batch, in_transaction, marker, real_log, sound
from tailrace.config.log import LogConfig
from tailrace.model.errors import OffsetOutOfRangeError, SegmentGoneError
from tailrace.record.builder import BatchBuilder
from tailrace.record.reader import records_of
from tailrace.storage.fetch import FetchData, Isolation
from tailrace.storage.origin import Origin
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

STEPS = 700
LEAST_READS = 300
READERS = 3
HELD_SLICES = 5
CONFIG = LogConfig(segment_bytes=6000, segment_index_bytes=960, index_interval_bytes=200)

Held = tuple[FetchData, int, Isolation]


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def stamped(offset: int, generation: int, dice: random.Random) -> bytearray:
    builder = BatchBuilder()
    for n in range(dice.randint(1, 3)):
        builder.append(
            1_700_000_000_000 + offset, b"k", b"%d %d " % (offset + n, generation) + b"." * dice.randrange(400)
        )
    return builder.build()


class Readers:
    """Each reads from anywhere in the log until told to stop, and at least `LEAST_READS` times."""

    def __init__(self, log: UnifiedLog, committed: dict[int, int]) -> None:
        self._log = log
        self._committed = committed
        self._stop = threading.Event()
        self.trouble: list[BaseException] = []
        self.batches_read = 0
        self.has_seen_gone = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(READERS)]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, seed: int) -> None:
        dice = random.Random(seed)
        held: list[Held] = []  # a slice is sent long after it was looked up: the socket was busy
        reads = 0
        try:
            while not self._stop.is_set() or reads < LEAST_READS:
                reads += 1
                self._look_up(dice, held)
                if len(held) > HELD_SLICES:
                    self._read(*held.pop(0))
        except BaseException as error:
            self.trouble.append(error)

    def _look_up(self, dice: random.Random, held: list[Held]) -> None:
        log = self._log
        start, end = log.log_start_offset, log.log_end_offset
        offset = dice.randint(start, max(start, end))
        isolation = dice.choice(list(Isolation))
        try:
            if dice.random() < 0.1:
                log.offset_by_time(1_700_000_000_000 + offset)
                log.offset_by_time(-3)
            held.append((log.read(offset, dice.choice([1, 700, 5000]), isolation), offset, isolation))
        except (SegmentGoneError, OffsetOutOfRangeError):
            self.has_seen_gone.set()

    def _read(self, found: FetchData, offset: int, isolation: Isolation) -> None:
        try:
            data = found.read()
        except SegmentGoneError:
            self.has_seen_gone.set()
        else:
            self._check(data, offset, isolation)

    def _check(self, data: bytes, offset: int, isolation: Isolation) -> None:
        whole = sound(data)
        assert whole or not data, f"{len(data)} bytes without a whole batch"
        assert not whole or whole[0].last_offset >= offset
        generations = []
        expected = None
        for each in whole:
            assert expected is None or each.base_offset == expected, "a hole in the offsets"
            expected = each.next_offset
            if each.is_control or each.has_producer_id:
                continue
            for record in records_of(data, each):
                assert record.value is not None
                said_offset, generation, _ = record.value.split(b" ")
                assert int(said_offset) == record.offset, "another batch's bytes"
                generations.append(int(generation))
                if isolation is not Isolation.LOG_END:
                    assert self._committed.get(record.offset) == int(generation), "not replicated, but visible"
        assert generations == sorted(generations)
        self.batches_read += len(whole)


class Owner:
    """Changes the log in every way there is; keeps by itself what is committed."""

    def __init__(self, log: UnifiedLog, committed: dict[int, int], dice: random.Random) -> None:
        self.log = log
        self.generation = 0
        self.content: dict[int, int] = {}
        self.edges: list[int] = []
        self.committed = committed
        self.dice = dice
        self.sequence = 0

    def step(self) -> None:
        kind = self.dice.choices(
            ["append", "commit", "truncate", "roll", "delete", "transaction", "flush"], [60, 12, 8, 4, 3, 4, 3]
        )[0]
        getattr(self, kind)()
        self.log.bounds.check()

    def append(self) -> None:
        for _ in range(self.dice.randint(1, 3)):
            first = self.log.log_end_offset
            [result] = self.log.append_as_leader([stamped(first, self.generation, self.dice)], 0)
            assert result.error is None
            self.edges.append(first)
            self.content.update(dict.fromkeys(range(first, result.last_offset + 1), self.generation))

    def transaction(self) -> None:
        self.edges.append(self.log.log_end_offset)
        self.log.append_as_leader([in_transaction(7, self.sequence)], 0)
        self.sequence += 1
        self.log.append_as_leader([marker(7, commit=False)], 0, Origin.COORDINATOR)
        self.commit()  # so that no truncation leaves the producer behind its sequence

    def commit(self) -> None:
        self.committed.update(self.content)
        self.content.clear()
        self.log.update_high_watermark(self.log.log_end_offset)

    def truncate(self) -> None:
        """Only what is not committed, as replication does."""
        above = [edge for edge in self.edges if edge >= self.log.high_watermark]
        if above:
            offset = self.dice.choice(above)
            self.log.truncate_to(offset)
            self.generation += 1
            self.edges = [edge for edge in self.edges if edge < offset]
            self.content = {each: generation for each, generation in self.content.items() if each < offset}

    def roll(self) -> None:
        self.log.roll()

    def flush(self) -> None:
        self.log.flush()

    def delete(self) -> None:
        log = self.log
        old = [segment for segment in log.local.segments if segment is not log.local.active][:-2]
        old = [
            segment
            for segment in old
            if log.local.segments.higher(segment.base_offset).base_offset <= log.high_watermark
        ]  # type: ignore[union-attr]
        if old:
            log.increment_log_start(log.local.segments.higher(old[-1].base_offset).base_offset)  # type: ignore[union-attr]
            log.local.remove(old)
            if self.dice.random() < 0.5:
                log.local.place.env.jobs.run_due()  # type: ignore[attr-defined]


@pytest.mark.spec("LS-34")
@pytest.mark.parametrize(("seed", "preallocate"), [(1, False), (2, True)])
def test_readers_see_old_data_or_a_clear_error(tmp_path: Path, seed: int, preallocate: bool) -> None:
    config = LogConfig(segment_bytes=6000, segment_index_bytes=960, index_interval_bytes=200, preallocate=preallocate)
    log = real_log(tmp_path / "t-0", config, WarmSet(4))
    committed: dict[int, int] = {}
    owner = Owner(log, committed, random.Random(seed))
    owner.append()
    with Readers(log, committed) as readers:
        for _ in range(STEPS):
            owner.step()
            if readers.trouble:
                break
    assert readers.trouble == []
    assert readers.batches_read > LEAST_READS
    log.close()


@pytest.mark.spec("LS-34")
def test_readers_of_a_log_that_is_closed_get_a_clear_error(tmp_path: Path) -> None:
    for n in range(5):
        log = real_log(tmp_path / f"t-{n}", CONFIG, WarmSet(2))
        committed: dict[int, int] = {}
        owner = Owner(log, committed, random.Random(n))
        for _ in range(15):
            owner.append()
        owner.commit()
        decoys = []
        with Readers(log, committed) as readers:
            log.close()
            for place in range(20):  # descriptors that were closed come back with other files behind them
                decoys.append(os.open(tmp_path / f"decoy-{place}", os.O_CREAT | os.O_RDWR))
                os.write(decoys[-1], b"\xff" * 10_000)
            assert readers.has_seen_gone.wait(timeout=60), "no reader noticed that the log is closed"
        assert readers.trouble == []
        for fd in decoys:
            os.close(fd)


@pytest.mark.spec("LS-28", "LS-34")
def test_readers_who_find_the_same_damaged_index_do_not_disturb_each_other(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = real_log(directory, CONFIG)
    for _ in range(150):
        log.append_as_leader([batch(1, 100)], 0)
    for _ in range(5):
        log.close()
        for path in directory.glob("*.index"):
            path.write_bytes(b"\xff" * len(path.read_bytes()))
        log = real_log(directory, CONFIG, was_clean=True)
        trouble: list[BaseException] = []

        def read_all(log: UnifiedLog = log, trouble: list[BaseException] = trouble) -> None:
            try:
                for offset in range(0, 150, 5):
                    [found] = sound(log.read(offset, 1).read())
                    assert found.base_offset == offset
            except SegmentGoneError:
                pass
            except BaseException as error:
                trouble.append(error)

        threads = [threading.Thread(target=read_all) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert trouble == []


@pytest.mark.spec("LS-34")
def test_readers_never_hold_up_the_owner(tmp_path: Path) -> None:
    """A slice that is held for ever, on a segment that is rolled, removed, truncated: the owner just goes on."""
    log = real_log(tmp_path / "t-0", CONFIG)
    log.append_as_leader([batch(3, 100)], 0)
    held = [log.read(0, 100)]
    for n in range(40):
        log.append_as_leader([batch(3, 500)], 0)
        held.append(log.read(log.log_end_offset - 1, 100))
        if n % 10 == 9:
            log.truncate_to(log.log_end_offset - 6)
    log.restart_at(1000)
    log.local.place.env.jobs.run_due()  # type: ignore[attr-defined]
    assert log.log_end_offset == 1000
    for found in held:
        try:
            sound(found.read())
        except SegmentGoneError:
            continue


@pytest.mark.spec("LS-34")
@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_bound_from_before_a_truncation_shows_nothing_from_after_it(tmp_path: Path, isolation: Isolation) -> None:
    """The reader has its bound, then is held up while the owner truncates and writes what nobody has replicated."""
    log = real_log(tmp_path / "t-0", CONFIG)
    log.append_as_leader([batch(1, 100), batch(1, 100), batch(1, 100)], 0)
    log.update_high_watermark(3)
    look_up = log.local.read

    def held_up(*bound: Any) -> FetchData:
        log.truncate_to(1)
        log.append_as_leader([batch(1, 900)], 1)
        return look_up(*bound)

    log.local.read = held_up  # type: ignore[method-assign]
    with pytest.raises(SegmentGoneError):
        log.read(0, 1 << 20, isolation)
    log.local.read = look_up  # type: ignore[method-assign]
    assert len(sound(log.read(0, 1 << 20, isolation).read())) == (2 if isolation is Isolation.LOG_END else 1)
