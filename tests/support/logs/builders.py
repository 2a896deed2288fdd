"""Logs for tests, on a simulated machine or on real files, and batches to put into them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tailrace.config.log import LogConfig
from tailrace.env import Buffer, Mode
from tailrace.env.real import real_env
from tailrace.model.ids import TopicId
from tailrace.record.batch import set_base_offset, set_leader_epoch
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.shallow import ShallowBatch, batches, check_integrity
from tailrace.sim import World
from tailrace.sim.clock import START_MS
from tailrace.sim.faults import Faults, Op
from tailrace.storage.append import AppendResult
from tailrace.storage.loader import LoadOptions, load
from tailrace.storage.origin import Origin
from tailrace.storage.segment import LogSegment, SegmentPlace
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

DIRECTORY = "/data/orders-2"
NOW_MS = START_MS
TOPIC_ID = TopicId(bytes(range(16)))
CONFIG = LogConfig(segment_bytes=1 << 20, segment_index_bytes=4096)


class Tape(Faults):
    """Faults that also write down every call that reaches the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Op, str]] = []

    def check(self, op: Op, path: str, target: str | None = None) -> None:
        self.calls.append((op, path))
        super().check(op, path, target)

    def of(self, *ops: Op) -> list[str]:
        """The paths of the calls of these kinds, in order."""
        return [path for op, path in self.calls if op in ops]

    def rewind(self) -> None:
        self.calls.clear()


class SimLog:
    """One log on a machine of its own; `tape` has its calls, `world` the strings to pull."""

    def __init__(self, config: LogConfig = CONFIG, *, seed: int = 0, warm: int = 50, **options: Any) -> None:
        self.tape = Tape()
        self.world = World(seed, faults=self.tape)
        self.disk = self.world.disk
        self.config = config
        self._warm = warm
        self.log = self.open(**options)

    def open(self, **options: Any) -> UnifiedLog:
        self.log = load(self.world.env, DIRECTORY, self.config, WarmSet(self._warm), LoadOptions(**options))
        return self.log

    def kill_and_open(self, **options: Any) -> UnifiedLog:
        """The process dies and the operating system lives."""
        self.world.kill()
        return self.open(**options)

    def names(self) -> list[str]:
        return [entry.name for entry in self.disk.list(DIRECTORY)]

    def append(self, *sets: Buffer, epoch: int = 0, origin: Origin = Origin.CLIENT) -> list[AppendResult]:
        """Every set must be taken."""
        results = self.log.append_as_leader(sets, epoch, origin)
        for result in results:
            if result.error is not None:
                raise result.error
        return results

    def fill(self, count: int, value_bytes: int = 100, **fields: Any) -> None:
        """`count` appends of one record each."""
        for _ in range(count):
            self.append(batch(1, value_bytes, **fields))

    def all_moved_to_end(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)


def real_log(directory: Path, config: LogConfig = CONFIG, warm: WarmSet | None = None, **options: Any) -> UnifiedLog:
    """On real files, jobs inline."""
    return load(
        real_env(seed=0), str(directory), config, warm if warm is not None else WarmSet(50), LoadOptions(**options)
    )


def place_on(world: World, config: LogConfig = CONFIG, directory: str = DIRECTORY) -> SegmentPlace:
    """Where segments of a test without a log live; the directory is made."""
    world.disk.make_dir(directory)
    return SegmentPlace(world.env, directory, config, WarmSet(50))


def batch(
    count: int = 1,
    value_bytes: int = 10,
    *,
    timestamp: int = NOW_MS,
    step_ms: int = 0,
    key: bytes | None = b"k",
    **fields: Any,
) -> bytearray:
    """One batch of `count` records; `fields` as for BatchBuilder."""
    builder = BatchBuilder(**fields)
    for n in range(count):
        builder.append(timestamp + n * step_ms, key, bytes([n % 251]) * value_bytes)
    return builder.build()


def sized_batch(total_bytes: int, **fields: Any) -> bytearray:
    """A batch of one record that is exactly so many bytes long; where a length's varint grows, a longer key helps."""
    for key_bytes in range(1, 8):
        fields["key"] = b"k" * key_bytes
        spare = total_bytes - len(batch(1, 0, **fields))
        for value_bytes in range(spare, max(spare - 8, -1), -1):
            made = batch(1, value_bytes, **fields)
            if len(made) == total_bytes:
                return made
    raise ValueError(f"no batch of one record has {total_bytes} bytes")


def produced_by(producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0, **fields: Any) -> bytearray:
    """A batch of an idempotent producer."""
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def in_transaction(producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0, **fields: Any) -> bytearray:
    return produced_by(producer_id, sequence, count, epoch=epoch, transactional=True, **fields)


def marker(producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, **fields: Any) -> bytearray:
    return end_txn_marker(
        COMMIT if commit else ABORT,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=NOW_MS,
        **fields,
    )


def placed(records: Buffer, offset: int, leader_epoch: int = 0) -> bytearray:
    """The batch as a leader's log holds it."""
    data = bytearray(records)
    set_base_offset(data, 0, offset)
    set_leader_epoch(data, 0, leader_epoch)
    return data


def sound(data: Buffer) -> list[ShallowBatch]:
    """The whole batches of a read, each with a CRC that holds."""
    found = list(batches(data))
    for each in found:
        check_integrity(data, each)
    return found


def offsets(data: Buffer) -> list[tuple[int, int]]:
    """First and last offset of each batch of a read, CRCs checked."""
    return [(each.base_offset, each.last_offset) for each in sound(data)]


def bytes_of(log: UnifiedLog, start: int | None = None) -> bytes:
    """Everything from `start` (the log start) to the log end, segment by segment."""
    data = b""
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 24).read()
        if not piece:
            break
        data += piece
        offset = sound(piece)[-1].next_offset
    return data


def holds(log: UnifiedLog) -> list[tuple[int, int]]:
    return offsets(bytes_of(log))


def bases(log: UnifiedLog) -> list[int]:
    return list(log.local.segments.base_offsets)


def offset_entries(segment: LogSegment) -> list[tuple[int, int]]:
    """(offset, position) of every entry."""
    return [tuple(segment.offset_index.entry(n)) for n in range(segment.offset_index.entries)]


def time_entries(segment: LogSegment) -> list[tuple[int, int]]:
    """(timestamp, offset) of every entry."""
    return [tuple(segment.time_index.entry(n)) for n in range(segment.time_index.entries)]


def entries_in(raw: Buffer, form: str) -> list[tuple[int, ...]]:
    """The entries of an index file by a struct format, up to the first that is all zeros."""
    found = []
    for entry in struct.iter_unpack(form, bytes(raw)[: len(raw) - len(raw) % struct.calcsize(form)]):
        if not any(entry):
            break
        found.append(entry)
    return found


def file_bytes(world: World, name: str, directory: str = DIRECTORY) -> bytes:
    path = f"{directory}/{name}"
    return world.disk.open(path, Mode.READ).read_at(world.disk.size(path), 0)


def with_config(config: LogConfig = CONFIG, **changes: Any) -> LogConfig:
    return replace(config, **changes)


def joined(parts: Iterable[Buffer]) -> bytes:
    return b"".join(bytes(part) for part in parts)
