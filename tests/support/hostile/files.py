"""Hostile inputs for readers of single files, on a simulated disk: indexes, snapshots, checkpoints, and the tools that
show and verify them."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any, NamedTuple

from support.hostile.corpus import index_seeds, log_seeds, put, snapshot_seeds, text_seeds
from support.hostile.mutation import fix_snapshot_crc, hostile_batches, mutated, mutated_text
from support.hostile.run import Refusal, Target, outcome
from tailrace.cli import dump_items
from tailrace.cli.dump_text import plain_line
from tailrace.env import InlineJobs
from tailrace.sim import World
from tailrace.sim.disk import SimDisk
from tailrace.storage import names, producer_snapshot
from tailrace.storage.checkpoint import CheckpointFile, OffsetCheckpoint
from tailrace.storage.epoch_cache import LeaderEpochCache
from tailrace.storage.offset_index import OffsetIndex
from tailrace.storage.partition_metadata import PartitionMetadata
from tailrace.storage.producer_state import ProducerStateManager
from tailrace.storage.time_index import TimeIndex
from tailrace.storage.transaction_index import AbortedTxn, TransactionIndex
from tailrace.storage.verify import verify_directory
from tailrace.storage.warm import WarmSet

DIRECTORY = "/data/t-0"
NOW_MS = 1_700_000_000_000
OFFSETS = (0, 1, 5, 60, 6995, 7000, 1 << 31, (1 << 63) - 1, -1, -(1 << 63))
TIMESTAMPS = (-1, 0, 5, NOW_MS, (1 << 63) - 1, -(1 << 63))


def new_disk() -> SimDisk:
    disk = World(0).disk
    disk.make_dir(DIRECTORY)
    return disk


class IndexCase(NamedTuple):
    suffix: str
    data: bytes
    base_offset: int
    max_bytes: int
    steps: tuple[int, ...]


class Indexes(Target[IndexCase]):
    """An index file found on disk: asked, checked, cut, appended to and closed, in any order."""

    name = "indexes"

    def draw(self, chance: random.Random) -> IndexCase:
        suffix = chance.choice((".index", ".timeindex", ".txnindex"))
        seeds = index_seeds()[suffix]
        return IndexCase(
            suffix,
            bytes(mutated(chance, chance.choice(seeds), seeds)),
            chance.choice((0, 0, 10, 63, 1 << 40, (1 << 63) - 1)),
            chance.choice((4096, 96, 4, 12000)),
            tuple(chance.randrange(8) for _ in range(chance.randint(3, 8))),
        )

    def size_of(self, case: IndexCase) -> int:
        return len(case.data) + case.max_bytes

    def read(self, case: IndexCase) -> object:
        disk = new_disk()
        path = f"{DIRECTORY}/{case.base_offset:020d}{case.suffix}"
        put(disk, path, case.data)
        if case.suffix == ".txnindex":
            return self._read_transactions(case, TransactionIndex(disk, path, case.base_offset))
        warm = WarmSet(2)
        if case.suffix == ".index":
            return self._read_offsets(case, OffsetIndex(disk, path, case.base_offset, case.max_bytes, warm))
        return self._read_times(case, TimeIndex(disk, path, case.base_offset, case.max_bytes, warm))

    def _read_offsets(self, case: IndexCase, index: OffsetIndex) -> object:
        base = case.base_offset
        steps = (
            lambda: [outcome(index.lookup, base + offset) for offset in OFFSETS],
            lambda: outcome(index.sanity_check, 5000),
            lambda: [outcome(index.first_from, at) for at in (0, 300, 1 << 31)],
            lambda: (index.entries, [outcome(index.entry, n) for n in range(min(index.entries, 5))]),
            lambda: outcome(index.append, base + 100_000, 200_000),
            lambda: outcome(index.truncate_to, base + 60),
            lambda: outcome(lambda: (index.last_offset, index.last_position, index.is_full)),
            lambda: (outcome(index.resize, 800), outcome(index.trim), outcome(index.sync)),
        )
        return [steps[step]() for step in case.steps], outcome(index.close)

    def _read_times(self, case: IndexCase, index: TimeIndex) -> object:
        base = case.base_offset
        steps = (
            lambda: [outcome(index.lookup, timestamp) for timestamp in TIMESTAMPS],
            lambda: outcome(index.sanity_check),
            lambda: outcome(lambda: index.last_entry),
            lambda: (index.entries, [outcome(index.entry, n) for n in range(min(index.entries, 5))]),
            lambda: outcome(index.maybe_append, NOW_MS * 2, base + 100_000, skip_full_check=len(case.data) % 2 == 0),
            lambda: outcome(index.truncate_to, base + 60),
            lambda: outcome(lambda: (index.last_offset, index.is_full)),
            lambda: (outcome(index.resize, 1200), outcome(index.trim), outcome(index.sync)),
        )
        return [steps[step]() for step in case.steps], outcome(index.close)

    def _read_transactions(self, case: IndexCase, index: TransactionIndex) -> object:
        aborted = AbortedTxn(3, 100_000, 100_002, 100_000)
        steps = (
            lambda: [outcome(index.collect, offset, offset + 50) for offset in OFFSETS],
            lambda: outcome(index.sanity_check),
            lambda: outcome(index.all),
            lambda: outcome(lambda: index.entries),
            lambda: outcome(index.append, aborted),
            lambda: outcome(index.truncate_to, 60),
            lambda: outcome(index.collect, 0, 1 << 62),
            lambda: outcome(index.reset) if len(case.data) % 3 == 0 else outcome(index.sync),
        )
        return [steps[step]() for step in case.steps]


class SnapshotCase(NamedTuple):
    snapshots: tuple[tuple[int, bytes], ...]
    log_start: int
    log_end: int
    at_most: int | None


class Snapshots(Target[SnapshotCase]):
    """Producer snapshots, alone and as the state of a log that is being opened."""

    name = "snapshots"

    def draw(self, chance: random.Random) -> SnapshotCase:
        found = []
        for offset in chance.sample((1, 50, 118, 4000, (1 << 63) - 1), chance.randint(1, 3)):
            data = mutated(chance, chance.choice(snapshot_seeds()), snapshot_seeds())
            if chance.random() < 0.6:
                fix_snapshot_crc(data)
            found.append((offset, bytes(data)))
        return SnapshotCase(
            tuple(found),
            chance.choice((0, 0, 49, 1 << 40)),
            chance.choice((118, 4000, (1 << 63) - 1, 10)),
            chance.choice((None, 60, 0)),
        )

    def size_of(self, case: SnapshotCase) -> int:
        return sum(len(data) for _, data in case.snapshots)

    def read(self, case: SnapshotCase) -> object:
        disk = new_disk()
        decoded = []
        for offset, data in case.snapshots:
            put(disk, f"{DIRECTORY}/{names.snapshot_name(offset)}", data)
            entries = outcome(producer_snapshot.decode, data)
            if not isinstance(entries, Refusal):
                assert producer_snapshot.decode(producer_snapshot.encode(entries)) == entries
            decoded.append(entries)
        state = ProducerStateManager(disk, DIRECTORY)
        state.load_from_snapshots(case.log_start, NOW_MS, at_most=case.at_most)
        loaded = (dict(state.producers), state.ongoing, state.first_unstable_offset)
        state.discard_torn_snapshots()
        state.truncate_and_reload(case.log_start, case.log_end, NOW_MS)
        state.on_high_watermark_updated(case.log_end)
        state.remove_expired(NOW_MS)
        state.has_late_transaction(NOW_MS)
        state.update_map_end_offset(case.log_end)
        state.remove_stray_snapshots((0, 50))
        taken = state.take_snapshot(sync=True)
        again = ProducerStateManager(disk, DIRECTORY)
        again.load_from_snapshots(0, 0)
        return decoded, loaded, state.producers, taken, again.producers


class TextCase(NamedTuple):
    kind: str
    data: bytes


class Checkpoints(Target[TextCase]):
    """The text files: offsets of partitions, leader epochs, the topic's id."""

    name = "checkpoints"

    def draw(self, chance: random.Random) -> TextCase:
        kind = chance.choice(("offsets", "epochs", "metadata"))
        seeds = text_seeds()[kind]
        return TextCase(kind, bytes(mutated_text(chance, chance.choice(seeds), seeds)))

    def size_of(self, case: TextCase) -> int:
        return len(case.data)

    def read(self, case: TextCase) -> object:
        disk = new_disk()
        put(disk, f"{DIRECTORY}/checkpoint", case.data)
        put(disk, f"{DIRECTORY}/{names.LEADER_EPOCH_CHECKPOINT}", case.data)
        put(disk, f"{DIRECTORY}/{names.PARTITION_METADATA}", case.data)
        checkpoint = CheckpointFile(disk, f"{DIRECTORY}/checkpoint", 0)
        return (
            outcome(checkpoint.read),
            outcome(checkpoint.read, empty_is_corrupt=True),
            self._read_offsets(disk),
            self._read_epochs(disk),
            outcome(PartitionMetadata(disk, DIRECTORY).read),
        )

    def _read_offsets(self, disk: SimDisk) -> object:
        checkpoint = OffsetCheckpoint(disk, f"{DIRECTORY}/checkpoint")
        offsets = outcome(checkpoint.read)
        if not isinstance(offsets, Refusal):
            checkpoint.write(offsets)
            assert checkpoint.read() == offsets
        return offsets

    def _read_epochs(self, disk: SimDisk) -> object:
        cache = LeaderEpochCache(disk, InlineJobs(), DIRECTORY)
        loaded = outcome(cache.load)
        entries = cache.entries
        assert all(one < two and one[1] < two[1] for one, two in pairwise(entries))
        asked = [cache.end_offset_for(epoch, 1 << 40) for epoch in (-1, 0, 4, 1 << 30)]
        cache.truncate_from_end(1 << 40)
        cache.truncate_from_start(3)
        cache.assign(1 << 20, 1 << 41)
        cache.sync_now()
        again = LeaderEpochCache(disk, InlineJobs(), DIRECTORY)
        assert again.load()
        assert again.entries == cache.entries
        return loaded, entries, asked, cache.entries


class FileCase(NamedTuple):
    name: str
    data: bytes


class Tools(Target[FileCase]):
    """`tailrace log dump` and `tailrace log verify` on one file."""

    name = "tools"
    extra_bytes = 64 << 20  # up to 256 MiB decompressed are shown; what the inputs here can make is less

    def draw(self, chance: random.Random) -> FileCase:
        kind = chance.choice(
            (".log", ".log", ".log", ".index", ".timeindex", ".txnindex", ".snapshot", "offsets", "epochs")
        )
        base = chance.choice((0, 0, 10, (1 << 63) - 1))
        name = f"{base:020d}{kind}"
        if kind == ".log":
            return FileCase(name, bytes(hostile_batches(chance, log_seeds())))
        if kind == ".snapshot":
            data = mutated(chance, chance.choice(snapshot_seeds()), snapshot_seeds())
            if chance.random() < 0.6:
                fix_snapshot_crc(data)
            return FileCase(name, bytes(data))
        if kind in index_seeds():
            return FileCase(name, bytes(mutated(chance, chance.choice(index_seeds()[kind]), index_seeds()[kind])))
        name = names.LEADER_EPOCH_CHECKPOINT if kind == "epochs" else "recovery-point-offset-checkpoint"
        return FileCase(name, bytes(mutated_text(chance, chance.choice(text_seeds()[kind]), text_seeds()[kind])))

    def size_of(self, case: FileCase) -> int:
        return len(case.data)

    def read(self, case: FileCase) -> object:
        disk = new_disk()
        put(disk, f"{DIRECTORY}/{case.name}", case.data)
        shown: list[str] = []
        end = outcome(dump, disk, f"{DIRECTORY}/{case.name}", shown)
        found = list(verify_directory(disk, DIRECTORY, notes=True))  # findings, never an error
        return end, len(shown), found


def dump(disk: SimDisk, path: str, shown: list[str]) -> None:
    """Every item of the file, as JSON and as text."""
    name = path.rpartition("/")[2]
    readers: dict[str, Any] = {
        names.LOG_SUFFIX: lambda: dump_items.log_items(disk, path, with_records=True),
        names.INDEX_SUFFIX: lambda: dump_items.offset_index_items(disk, path),
        names.TIME_INDEX_SUFFIX: lambda: dump_items.time_index_items(disk, path),
        names.TXN_INDEX_SUFFIX: lambda: dump_items.transaction_index_items(disk, path),
        names.SNAPSHOT_SUFFIX: lambda: dump_items.snapshot_items(disk, path),
        names.LEADER_EPOCH_CHECKPOINT: lambda: dump_items.epoch_items(disk, path),
        names.PARTITION_METADATA: lambda: dump_items.metadata_items(disk, path),
        "-offset-checkpoint": lambda: dump_items.offset_checkpoint_items(disk, path),
    }
    for suffix, items in readers.items():
        if name.endswith(suffix):
            for item in items():
                json.dumps(item).encode()
                line = plain_line(item)
                assert line.isprintable(), f"{line!r} could do something to a terminal"
                shown.append(line)


TARGETS: tuple[Target[Any], ...] = (Indexes(), Snapshots(), Checkpoints(), Tools())
