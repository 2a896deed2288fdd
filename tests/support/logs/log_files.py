"""A log on a simulated disk, opened, ended and damaged by hand: what the tests of loading and recovery share.

`Bench` is a machine with one log directory. `Bench.open` loads it with whatever the broker is to remember; `content`
is everything a reader can get, byte for byte, and `derived` everything that a load makes from it. Batches made by the
functions here have a fixed size for each size asked for, so that a test can place them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from tailrace.config.log import LogConfig
from tailrace.env import Env, Files, Mode
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicId
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.shallow import ShallowBatch, batches
from tailrace.sim import World
from tailrace.sim.faults import Survival
from tailrace.storage import names
from tailrace.storage.loader import LoadOptions, load
from tailrace.storage.origin import Origin
from tailrace.storage.transaction_index import AbortedTxn
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.verify import Finding, verify_directory
from tailrace.storage.warm import WarmSet

T = TypeVar("T")

DIRECTORY = "/data/t-0"
TOPIC_ID = TopicId(bytes(range(16)))
OTHER_TOPIC_ID = TopicId(bytes(range(1, 17)))
CONFIG = LogConfig(segment_bytes=3000, segment_index_bytes=960, index_interval_bytes=100, file_delete_delay_ms=1000)
COMPACTED = LogConfig(
    segment_bytes=3000,
    segment_index_bytes=960,
    index_interval_bytes=100,
    file_delete_delay_ms=1000,
    cleanup_policy=("compact",),
)
TIMESTAMP = 1_700_000_000_000


def path(name: str) -> str:
    return f"{DIRECTORY}/{name}"


def log_path(base_offset: int) -> str:
    return path(names.log_name(base_offset))


def index_path(base_offset: int) -> str:
    return path(names.offset_index_name(base_offset))


def time_index_path(base_offset: int) -> str:
    return path(names.time_index_name(base_offset))


def txn_index_path(base_offset: int) -> str:
    return path(names.txn_index_name(base_offset))


def snapshot_path(offset: int) -> str:
    return path(names.snapshot_name(offset))


# Batches


def batch(
    count: int = 1,
    size: int = 100,
    *,
    base_offset: int = 0,
    epoch: int = -1,
    producer: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    timestamp: int = TIMESTAMP,
) -> bytearray:
    """`count` records whose values are `size` bytes in all; the values differ from offset to offset."""
    builder = BatchBuilder(
        base_offset,
        leader_epoch=epoch,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=sequence,
        transactional=transactional,
    )
    for n in range(count):
        builder.append(timestamp + n, b"key", bytes([(base_offset + n) % 251]) * (size // count))
    return builder.build()


def marker(producer: int, *, commit: bool, base_offset: int = 0, epoch: int = -1) -> bytearray:
    return end_txn_marker(
        COMMIT if commit else ABORT,
        producer_id=producer,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=TIMESTAMP,
        base_offset=base_offset,
        leader_epoch=epoch,
    )


# Files


def write_file(files: Files, file_path: str, data: bytes | bytearray) -> None:
    """The file has these bytes and no others."""
    file = files.open(file_path, Mode.REPLACE)
    file.write_at((bytes(data),), 0)
    file.close()


def read_file(files: Files, file_path: str) -> bytes:
    file = files.open(file_path, Mode.READ)
    try:
        return file.read_at(file.size(), 0)
    finally:
        file.close()


def patch_file(files: Files, file_path: str, data: bytes, position: int) -> None:
    """Other bytes at a place within the file, or behind its end."""
    file = files.open(file_path, Mode.WRITE)
    file.write_at((data,), position)
    file.close()


def cut_file(files: Files, file_path: str, size: int) -> None:
    file = files.open(file_path, Mode.WRITE)
    file.truncate(size)
    file.close()


def names_in(files: Files) -> list[str]:
    return [entry.name for entry in files.list(DIRECTORY)]


def whole_directory(files: Files) -> dict[str, bytes]:
    return {entry.name: read_file(files, path(entry.name)) for entry in files.list(DIRECTORY) if not entry.is_dir}


def segment_names(files: Files) -> list[str]:
    """Of the files that make up segments, without those that are on their way in or out."""
    return [name for name in names_in(files) if name.endswith((".log", ".index", ".timeindex", ".txnindex"))]


# What a log says


class Derived(NamedTuple):
    """What a load makes from the batches; equal for two loads of the same log."""

    log_start: int
    end: int
    first_unstable: int | None
    epochs: tuple[Any, ...]
    producers: dict[int, tuple[Any, ...]]
    aborted: tuple[AbortedTxn, ...]


def content(log: UnifiedLog) -> bytes:
    """Every byte from the log start to the end, through `read`."""
    found = bytearray()
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 24).read()
        whole = list(batches(data))
        if not whole:
            break
        found += data[: whole[-1].end]
        offset = whole[-1].next_offset
    return bytes(found)


def batches_of(log: UnifiedLog) -> list[ShallowBatch]:
    return list(batches(content(log)))


def offsets_of(log: UnifiedLog) -> list[tuple[int, int]]:
    return [(each.base_offset, each.last_offset) for each in batches_of(log)]


def reads_everywhere(log: UnifiedLog) -> list[bytes]:
    """One read from every offset, and a lookup of every timestamp that is in the log."""
    found = [log.read(offset, 1).read() for offset in range(log.log_start_offset, log.log_end_offset)]
    times = sorted({each.max_timestamp for each in batches_of(log)})
    return found + [repr(log.offset_by_time(time)).encode() for time in times]


def derived(log: UnifiedLog) -> Derived:
    """Snapshots keep only the last of a producer's five batches, so that is what is compared."""
    return Derived(
        log.log_start_offset,
        log.log_end_offset,
        log.producers.first_undecided_offset,
        log.epochs.entries,
        {
            entry.producer_id: (entry.producer_epoch, entry.last_seq, entry.last_data_offset, entry.txn_first_offset)
            for entry in log.producers.producers.values()
        },
        log.aborted_transactions(log.log_start_offset, log.log_end_offset),
    )


class Bench:
    """One machine, one log directory. What the broker would remember between two runs is given to `open`."""

    def __init__(self, config: LogConfig = CONFIG, seed: int = 0) -> None:
        self.world = World(seed)
        self.disk = self.world.disk
        self.config = config

    def clone(self, seed: int) -> Bench:
        """The same disk with another future; logs that are open on this one are not there."""
        copy = Bench(self.config, seed)
        copy.disk = copy.world.disk = self.disk.clone(seed)
        env = copy.world.env
        copy.world.env = Env(files=copy.disk, clock=env.clock, jobs=env.jobs, random=env.random)
        return copy

    def open(self, *, files: Files | None = None, config: LogConfig | None = None, **options: Any) -> UnifiedLog:
        env = self.world.env
        if files is not None:
            env = Env(files=files, clock=env.clock, jobs=env.jobs, random=env.random)
        return load(env, DIRECTORY, config or self.config, WarmSet(8), LoadOptions(topic_id=TOPIC_ID, **options))

    def kill(self) -> None:
        self.world.kill()

    def lose_power(self, survival: Survival = Survival.ANY) -> None:
        self.world.restart(survival)

    def finish_jobs(self) -> None:
        self.world.jobs.run_all()

    def close(self, log: UnifiedLog) -> None:
        log.close()
        self.world.jobs.forget()

    def write_segment(self, base_offset: int, parts: Iterable[bytes | bytearray]) -> bytes:
        """A data file without indexes; returns its bytes."""
        self.disk.make_dir(DIRECTORY)
        data = b"".join(parts)
        write_file(self.disk, log_path(base_offset), data)
        self.disk.sync_all()
        return data

    def findings(self) -> list[Finding]:
        self.finish_jobs()
        return list(verify_directory(self.disk, DIRECTORY))


def append(log: UnifiedLog, *sets: bytes | bytearray, epoch: int = 0, origin: Origin = Origin.CLIENT) -> int:
    """Each set in an append of its own, all of which must be taken; returns the last one's first offset."""
    first_offset = -1
    for records in sets:
        (result,) = log.append_as_leader([bytearray(records)], epoch, origin)
        assert result.error is None, result.error
        first_offset = result.first_offset
    return first_offset


def append_marker(log: UnifiedLog, producer: int, *, commit: bool, epoch: int = 0) -> int:
    return append(log, marker(producer, commit=commit), epoch=epoch, origin=Origin.COORDINATOR)


def attempt(action: Callable[[], T]) -> tuple[T | None, TailraceError | None]:
    """What the action gives, or the typed error that it ends in."""
    try:
        return action(), None
    except TailraceError as error:
        return None, error


def fill(log: UnifiedLog, batch_counts: Sequence[int], *, size: int = 400, epoch: int = 0) -> None:
    """One batch of so many records each."""
    for count in batch_counts:
        append(log, batch(count, size), epoch=epoch)


def busy_log(log: UnifiedLog) -> None:
    """Several segments with two epochs, an idempotent producer (1), one committed, two aborted transactions (2, 4) and
    one that stays open (6); the aborted ones end in different segments."""
    append(log, batch(3, 300), batch(2, 200, producer=1, sequence=0))
    append(log, batch(2, 200, producer=2, sequence=0, transactional=True))
    append(log, batch(1, 900), batch(1, 900))
    append_marker(log, 2, commit=False)
    append(log, batch(2, 300, producer=4, sequence=0, transactional=True), epoch=1)
    append(log, batch(1, 900), batch(3, 900, producer=1, sequence=2), epoch=1)
    append_marker(log, 4, commit=False, epoch=1)
    append(log, batch(1, 300, producer=2, sequence=2, transactional=True), epoch=1)
    append_marker(log, 2, commit=True, epoch=1)
    append(log, batch(1, 300, producer=6, sequence=0, transactional=True), batch(2, 700), batch(2, 700), epoch=3)


BUSY_SEGMENTS = 3
