"""Hostile inputs for whole logs, on a simulated disk: directories that are opened, and sets that are appended."""

from __future__ import annotations

import random
from functools import cache
from typing import Any, NamedTuple

from support.hostile.corpus import (
    Directory,
    batch_seeds,
    directories,
    disk_with,
    index_seeds,
    put,
    sent_seeds,
    snapshot_seeds,
    text_seeds,
)
from support.hostile.files import dump
from support.hostile.mutation import (
    Seed,
    fix_crcs,
    fix_snapshot_crc,
    hostile_batches,
    mutated,
    mutated_text,
    seed_of_batches,
)
from support.hostile.run import Refusal, Target, outcome
from support.logs.log_files import DIRECTORY, batch
from tailrace.config.log import LogConfig
from tailrace.env import Env
from tailrace.record.batch import set_base_offset, set_leader_epoch
from tailrace.record.shallow import batches
from tailrace.sim import World
from tailrace.sim.disk import SimDisk
from tailrace.storage import names
from tailrace.storage.fetch import Isolation
from tailrace.storage.loader import LoadOptions, load
from tailrace.storage.origin import Origin
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.verify import verify_directory
from tailrace.storage.warm import WarmSet

CONFIG = LogConfig(segment_bytes=6000, segment_index_bytes=480, index_interval_bytes=100, file_delete_delay_ms=1000)
COMPACTED = LogConfig(segment_index_bytes=480, index_interval_bytes=0, cleanup_policy=("compact",))
MAX_INT64 = (1 << 63) - 1
TIMESTAMPS = (-5, -4, -3, -2, -1, 0, 1_600_000_000_000, 1_700_000_000_003, MAX_INT64)
ODD_NAMES = (
    *("00000000000000000000.log.swap", "00000000000000000010.log.cleaned", "00000000000000000063.index.swap"),
    *("00000000000000000010.log.deleted", "99999999999999999999.log", "09223372036854775807.log", "7.log", "x.log"),
    *("09223372036854775807.snapshot", "00000000000000000001.snapshot", "00000000000000000500.index", "0.snapshot"),
    *("00000000000000000000.txnindex", "00000000000000000010.log", "leader-epoch-checkpoint.tmp", ".lock"),
)


class Machine:
    """A disk with everything around it that a log needs."""

    def __init__(self, disk: SimDisk) -> None:
        self.world = World(0)
        self.disk = disk
        self.env = Env(files=disk, clock=self.world.clock, jobs=self.world.jobs, random=random.Random(0))

    def open(self, options: LoadOptions, config: LogConfig) -> UnifiedLog:
        return load(self.env, DIRECTORY, config, WarmSet(4), options)


def read_through(log: UnifiedLog, isolation: Isolation) -> object:
    """Everything a fetch can get; a batch that cannot be passed ends it, as it ends a consumer."""
    pieces, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        fetched = log.read(offset, 1 << 20, isolation)
        data = fetched.read()
        found = list(batches(data))
        if not found:
            break
        pieces.append((offset, len(data), fetched.aborted, found[-1].last_offset))
        if found[-1].next_offset <= offset:
            break  # durable batches whose offsets, which no CRC covers, go backwards
        offset = found[-1].next_offset
    return pieces


def read_at(log: UnifiedLog, offset: int) -> bytes:
    return log.read(offset, 100).read()


def ask(log: UnifiedLog) -> list[object]:
    """Whatever may be asked of an open log."""
    log.bounds.check()
    found: list[object] = [
        (log.log_start_offset, log.last_stable_offset, log.log_end_offset, log.recovery_point, log.epochs.entries),
        {entry.producer_id: entry for entry in log.producers.producers.values()},
        [outcome(read_through, log, isolation) for isolation in Isolation],
        [outcome(log.offset_by_time, timestamp) for timestamp in TIMESTAMPS],
        outcome(log.aborted_transactions, log.log_start_offset, log.log_end_offset),
        [log.end_offset_for_epoch(epoch) for epoch in (-1, 0, 1, 7)],
    ]
    middle = (log.log_start_offset + log.log_end_offset) // 2
    found += [outcome(read_at, log, offset) for offset in (middle, log.log_end_offset, MAX_INT64)]
    return found


class DirectoryCase(NamedTuple):
    directory: int
    changed: tuple[tuple[str, bytes | None], ...]
    """New content of files, None for one that is gone."""
    options: LoadOptions
    config: LogConfig
    then: int


@cache
def disk_of(number: int) -> SimDisk:
    return disk_with(directories()[number])


class Directories(Target[DirectoryCase]):
    """A log directory with some of its files damaged: opened, read, verified, dumped, written to, opened again."""

    name = "directories"
    extra_bytes = 8 << 20

    def draw(self, chance: random.Random) -> DirectoryCase:
        number = chance.randrange(len(directories()))
        directory = directories()[number]
        changed = [self._changed(chance, directory) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
        bases = [offset for name in directory if (offset := names.parse_offset(name)) is not None]
        options = LoadOptions(
            recovery_point=chance.choice((0, 0, chance.choice(bases), chance.randrange(200), MAX_INT64)),
            log_start_offset=chance.choice((0, 0, 0, 0, chance.choice(bases), chance.randrange(200), MAX_INT64 - 1)),
            was_clean=chance.random() < 0.5,
        )
        config = chance.choice((CONFIG, CONFIG, CONFIG, COMPACTED))
        return DirectoryCase(number, tuple(changed), options, config, chance.randrange(4))

    def _changed(self, chance: random.Random, directory: Directory) -> tuple[str, bytes | None]:
        if chance.random() < 0.08:
            return chance.choice(ODD_NAMES), chance.choice((b"", chance.choice(batch_seeds()).data, b"\xff" * 100))
        name = chance.choice(sorted(directory))
        if chance.random() < 0.5:  # most of what happens depends on these
            name = chance.choice([each for each in sorted(directory) if each.endswith(names.LOG_SUFFIX)])
        data = directory[name]
        if chance.random() < 0.05:
            return name, None
        if chance.random() < 0.05:
            return name, chance.choice(sorted(directory.values()))
        return name, bytes(hostile_file(chance, name, data))

    def size_of(self, case: DirectoryCase) -> int:
        directory = directories()[case.directory] | dict(case.changed)
        return sum(len(data or b"") for data in directory.values())

    def read(self, case: DirectoryCase) -> object:
        disk = disk_of(case.directory).clone()
        for name, data in case.changed:
            path = f"{DIRECTORY}/{name}"
            if data is not None:
                put(disk, path, data)
            elif disk.exists(path):
                disk.unlink(path)
        findings = list(verify_directory(disk, DIRECTORY, notes=True))  # findings, never an error
        shown: list[str] = []
        dumped = [
            outcome(dump, disk, f"{DIRECTORY}/{name}", shown)
            for name, _ in case.changed
            if disk.exists(f"{DIRECTORY}/{name}")
        ]
        machine = Machine(disk)
        log = outcome(machine.open, case.options, case.config)
        if isinstance(log, Refusal):
            return len(findings), dumped, len(shown), log
        return len(findings), dumped, len(shown), ask(log), self._go_on(case, machine, log)

    def _go_on(self, case: DirectoryCase, machine: Machine, log: UnifiedLog) -> object:
        """Use the log as its owner would, end it, and open it again."""
        done: list[object] = []
        if case.then == 1:
            done.append(outcome(log.truncate_to, (log.log_start_offset + log.log_end_offset) // 2))
        if case.then == 2:
            done.append(outcome(lambda: repr(log.roll())))
        is_appended = False
        for _ in range(2):
            results = outcome(log.append_as_leader, [batch(2, 200)], 9)
            is_appended = not isinstance(results, Refusal) and results[0].error is None
            done.append(results)
        machine.world.jobs.run_all()
        bounds = (log.log_start_offset, log.log_end_offset)
        if case.then == 3:
            machine.world.jobs.forget()
            machine.disk.kill()
            was_clean = False
        else:
            closed = outcome(log.close)
            done.append(closed)
            was_clean = not isinstance(closed, Refusal)
        options = LoadOptions(log.recovery_point, log.log_start_offset, was_clean)
        again = outcome(machine.open, options, case.config)
        done.append(again)
        if not isinstance(again, Refusal):
            done += ask(again)
            if was_clean and is_appended:
                assert (again.log_start_offset, again.log_end_offset) == bounds, (again, bounds)
        return done


def hostile_file(chance: random.Random, name: str, data: bytes) -> bytearray:
    """The content of a log's file, damaged in the ways of its kind."""
    if name.endswith(names.LOG_SUFFIX):
        return hostile_batches(chance, (seed_of_batches(data), seed_of_batches(data), chance.choice(batch_seeds())))
    if name.endswith(names.SNAPSHOT_SUFFIX):
        found = next((seed for seed in snapshot_seeds() if seed.data == data), Seed(data))
        damaged = mutated(chance, found, snapshot_seeds())
        if chance.random() < 0.6:
            fix_snapshot_crc(damaged)
        return damaged
    for suffix, seeds in index_seeds().items():
        if name.endswith(suffix):
            return mutated(chance, next((seed for seed in seeds if seed.data == data), Seed(data)), seeds)
    kind = "metadata" if name == names.PARTITION_METADATA else "epochs"
    return mutated_text(chance, Seed(data), text_seeds()[kind])


class AppendCase(NamedTuple):
    sets: tuple[tuple[bytes, Origin], ...]
    followed: tuple[tuple[bytes, bool], ...]
    """Sets for a follower; whether they are given the offset that comes next."""
    epoch: int
    config: LogConfig
    log_start: int


class Appends(Target[AppendCase]):
    """Sets sent to a leader's log and fetched by a follower's: what is taken can be read, also after a restart."""

    name = "appends"
    extra_bytes = 8 << 20

    def draw(self, chance: random.Random) -> AppendCase:
        config = chance.choice(
            (
                CONFIG,
                COMPACTED,
                LogConfig(compression_type="zstd"),
                LogConfig(message_timestamp_type="LogAppendTime", compression_type="uncompressed"),
            )
        )
        followed = []
        for _ in range(2):
            data = hostile_batches(chance, batch_seeds())
            if chance.random() < 0.5:
                fix_crcs(data)
            followed.append((bytes(data), chance.random() < 0.8))
        sets = (bytes(hostile_batches(chance, sent_seeds())) for _ in range(3))
        return AppendCase(
            tuple((data, chance.choice((Origin.CLIENT, Origin.COORDINATOR, Origin.RAFT_LEADER))) for data in sets),
            tuple(followed),
            chance.choice((0, 5)),
            config,
            chance.choice((0, 0, 0, 1 << 40, MAX_INT64 - 3)),
        )

    def size_of(self, case: AppendCase) -> int:
        return sum(len(data) for data, _ in case.sets + case.followed)

    def read(self, case: AppendCase) -> object:
        machine = Machine(World(0).disk)
        log = machine.open(LoadOptions(log_start_offset=case.log_start), case.config)
        done: list[object] = []
        for data, origin in case.sets:
            done.append(outcome(log.append_as_leader, [bytearray(data)], case.epoch, origin))
        for data, is_placed in case.followed:
            buffer = placed(data, log.log_end_offset, case.epoch) if is_placed else data
            done.append(outcome(log.append_as_follower, buffer))
            done.append(outcome(log.append_from_raft_leader, buffer, case.epoch))
        machine.world.jobs.run_all()
        log.update_high_watermark(log.log_end_offset)
        done += ask(log)
        before = (log.log_start_offset, log.log_end_offset, outcome(read_through, log, Isolation.LOG_END))
        log.close()
        findings = [each for each in verify_directory(machine.disk, DIRECTORY) if "CRC" in each.problem]
        assert not findings, findings
        again = machine.open(LoadOptions(log.recovery_point, log.log_start_offset, True), case.config)
        after = (again.log_start_offset, again.log_end_offset, outcome(read_through, again, Isolation.LOG_END))
        assert repr(after) == repr(before), (before, after)
        return done


def placed(data: bytes, offset: int, epoch: int) -> bytearray:
    """The batches of a set one behind the other from `offset` on, as far as they can be walked."""
    made = bytearray(data)
    walk = batches(data)
    while (found := outcome(next, walk, None)) is not None and not isinstance(found, Refusal):
        if found.is_v2 and offset <= MAX_INT64:
            set_base_offset(made, found.position, offset)
            set_leader_epoch(made, found.position, epoch)
            offset += max(found.last_offset - found.base_offset, 0) + 1
    return made


TARGETS: tuple[Target[Any], ...] = (Directories(), Appends())
