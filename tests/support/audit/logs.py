"""Log directories for an audit to look at: small, clean, and with a bit of everything, each batch at a known place.

`busy` has four segments of plain and compressed batches, an idempotent producer, committed and aborted transactions and
three leader epochs; `table` is a compacted log of which the beginning was cleaned. Both are written by the engine once,
closed cleanly, and copied from memory then. `LogDirectory` is what a broker has: partitions and checkpoints.

Where batches stand in `busy` (segment, place in it → offsets):

    0   0 plain 0–3     1 p1 4–6      2 lz4 7–11     3 p1 12–14
        4 gzip 15–18    5 p1 19–21    6 zstd 22–25   7 plain 26–27
    1   0 plain 28–30   1 tx2 31–32   2 plain 33–36  3 tx2 37–38
        4 abort2 39     5 p1 40–42    6 plain 43–45  7 snappy 46–49
    2   0 plain 50–52   1 tx3 53–54   2 tx2 55       3 commit3 56
        4 plain 57–59   5 commit2 60  6 p1 61–63     7 plain 64–67
    3   0 plain 68–70   1 tx3 71–72   2 plain 73–76  3 abort3 77
        4 p1 78–80      5 lz4 81–84   6 plain 85–86

Leader epoch 0 wrote segment 0, epoch 1 what comes up to offset 56, epoch 3 the rest. p1 is an idempotent producer.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import md5
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from support.logs.data_dirs import DataDirectory
from tailrace.config.log import LogConfig
from tailrace.env.real import real_env
from tailrace.model.ids import TopicId
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.shallow import ShallowBatch, batches
from tailrace.storage import names
from tailrace.storage.compaction.log_compaction import cleanable_of, compact
from tailrace.storage.compaction.offset_map import SLOT_BYTES, OffsetMap
from tailrace.storage.index_entries import OFFSET_ENTRY, TIME_ENTRY
from tailrace.storage.loader import LoadOptions, load
from tailrace.storage.origin import Origin
from tailrace.storage.steps import run_inline
from tailrace.storage.unified_log import UnifiedLog
from tailrace.storage.warm import WarmSet

START_MS = 1_700_000_000_000
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
IDEMPOTENT, FIRST_TX, SECOND_TX = 1, 2, 3
CONFIG = LogConfig(segment_bytes=1 << 20, segment_index_bytes=8000, index_interval_bytes=200)
TABLE_CONFIG = LogConfig(
    segment_bytes=1 << 20, segment_index_bytes=8000, index_interval_bytes=200, cleanup_policy=("compact",)
)


class Log(NamedTuple):
    """A partition's files, and what its broker remembers of it."""

    files: Mapping[str, bytes]
    end: int
    cleaned_to: int | None = None


class Writer:
    """Appends as a leader; what it writes is the same in every run."""

    def __init__(self, log: UnifiedLog) -> None:
        self.log = log
        self.epoch = 0
        self._sequences: dict[int, int] = {}

    @property
    def time_ms(self) -> int:
        return START_MS + 1000 * self.log.log_end_offset

    def records(self, count: int, *, codec: int = 0, producer: int = -1, transactional: bool = False) -> None:
        first = self.log.log_end_offset
        pairs = [(b"key %d" % (first + n), b"value %03d " % (first + n) * 4) for n in range(count)]
        self.pairs(pairs, codec=codec, producer=producer, transactional=transactional)

    def pairs(
        self,
        pairs: list[tuple[bytes | None, bytes | None]],
        *,
        producer: int = -1,
        transactional: bool = False,
        codec: int = 0,
    ) -> None:
        fields: dict[str, Any] = {}
        if producer >= 0:
            sequence = self._sequences.get(producer, 0)
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            self._sequences[producer] = sequence + len(pairs)
        builder = BatchBuilder(codec=codec, transactional=transactional, **fields)
        for place, (key, value) in enumerate(pairs):
            builder.append(self.time_ms + 1000 * place, key, value)
        self._append(builder.build(), Origin.COORDINATOR if any(key is None for key, _ in pairs) else Origin.CLIENT)

    def end(self, producer: int, kind: int) -> None:
        fields = {"producer_id": producer, "producer_epoch": 0, "coordinator_epoch": 5, "timestamp": self.time_ms}
        self._append(end_txn_marker(kind, **fields), Origin.COORDINATOR)

    def roll(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        self.log.roll()

    def _append(self, data: bytearray, origin: Origin) -> None:
        (result,) = self.log.append_as_leader([data], self.epoch, origin)
        if result.error is not None:
            raise result.error
        self.log.update_high_watermark(self.log.log_end_offset)


def _opened(parent: str, config: LogConfig) -> Writer:
    return Writer(load(real_env(1), f"{parent}/t-0", config, WarmSet(8), LoadOptions()))


def _closed(writer: Writer, cleaned_to: int | None = None) -> Log:
    writer.log.close()
    folder = Path(writer.log.dir)
    kept = (file for file in folder.iterdir() if not file.name.endswith(names.DELETED_SUFFIX))
    return Log({file.name: file.read_bytes() for file in kept}, writer.log.log_end_offset, cleaned_to)


@cache
def busy() -> Log:
    with TemporaryDirectory() as parent:
        writer = _opened(parent, CONFIG)
        _write_busy(writer)
        return _closed(writer)


@cache
def shortened(start: int) -> Log:
    """The same, and then the records before `start` were deleted, and segments that have only these."""
    with TemporaryDirectory() as parent:
        writer = _opened(parent, replace(CONFIG, retention_ms=-1))
        _write_busy(writer)
        writer.log.increment_log_start(start)
        writer.log.delete_old_segments(lambda _: None)
        return _closed(writer)


def _write_busy(to: Writer) -> None:
    to.records(4)
    to.records(3, producer=IDEMPOTENT)
    to.records(5, codec=LZ4)
    to.records(3, producer=IDEMPOTENT)
    to.records(4, codec=GZIP)
    to.records(3, producer=IDEMPOTENT)
    to.records(4, codec=ZSTD)
    to.records(2)
    to.roll()
    to.epoch = 1
    to.records(3)
    to.records(2, producer=FIRST_TX, transactional=True)
    to.records(4)
    to.records(2, producer=FIRST_TX, transactional=True)
    to.end(FIRST_TX, ABORT)
    to.records(3, producer=IDEMPOTENT)
    to.records(3)
    to.records(4, codec=SNAPPY)
    to.roll()
    to.records(3)
    to.records(2, producer=SECOND_TX, transactional=True)
    to.records(1, producer=FIRST_TX, transactional=True)
    to.end(SECOND_TX, COMMIT)
    to.epoch = 3
    to.records(3)
    to.end(FIRST_TX, COMMIT)
    to.records(3, producer=IDEMPOTENT)
    to.records(4)
    to.roll()
    to.records(3)
    to.records(2, producer=SECOND_TX, transactional=True)
    to.records(4)
    to.end(SECOND_TX, ABORT)
    to.records(3, producer=IDEMPOTENT)
    to.records(4, codec=LZ4)
    to.records(2)


@cache
def table(*, is_cleaned: bool = True) -> Log:
    """Ten keys in turn, now and then deleted; two of its three segments cleaned, or none."""
    with TemporaryDirectory() as parent:
        writer = _opened(parent, TABLE_CONFIG)
        for number in range(36):
            value = None if number % 9 == 8 else b"value %03d " % number * 4
            writer.pairs([(b"key %d" % (number % 10), value), (b"other %d" % (number % 4), b"x%d" % number)])
            if number in (11, 23):
                writer.roll()
        cleaned_to = _clean(writer) if is_cleaned else None
        return _closed(writer, cleaned_to)


def _clean(writer: Writer) -> int:
    to_clean = cleanable_of(writer.log, None, writer.time_ms).log
    slots = OffsetMap(1000 * SLOT_BYTES, random.Random(7), 0.9)
    stats = run_inline(compact(writer.log, to_clean, slots, writer.time_ms, buffers_per_step=1))
    return stats.cleaner_point


@dataclass
class Partition:
    """A copy of a log in a folder, to be damaged."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def bases(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("*.log"))

    def file(self, segment: int, suffix: str = names.LOG_SUFFIX) -> Path:
        """By the number of the segment, from 0 on; −1 is the active one."""
        return self.folder / f"{self.bases[segment]:020d}{suffix}"

    def batches(self, segment: int) -> list[ShallowBatch]:
        return list(batches(self.file(segment).read_bytes()))

    def batch(self, segment: int, place: int) -> ShallowBatch:
        return self.batches(segment)[place]

    def bytes_of(self, segment: int, place: int) -> bytes:
        found = self.batch(segment, place)
        return self.file(segment).read_bytes()[found.position : found.end]

    def parts(self, segment: int) -> list[bytes]:
        """The segment, batch by batch."""
        data = self.file(segment).read_bytes()
        return [data[each.position : each.end] for each in batches(data)]

    def write(self, segment: int, parts: list[bytes], *, is_indexed: bool = True) -> None:
        """Other batches, and indexes that say so."""
        self.file(segment).write_bytes(b"".join(parts))
        if is_indexed:
            self.index(segment)

    def date(self, time_ms: int) -> None:
        """All files were last written then."""
        for file in self.folder.iterdir():
            os.utime(file, (time_ms / 1000, time_ms / 1000))

    def index(self, segment: int) -> None:
        """Makes offset and time index anew, with an entry for every batch but the first, as long as offsets ascend."""
        base, largest = self.bases[segment], -1
        last = base - 1
        offsets, times = b"", b""
        for each in self.batches(segment):
            if each.last_offset <= last:
                continue
            last = each.last_offset
            if each.position:
                offsets += OFFSET_ENTRY.pack(each.last_offset - base, each.position)
            if each.max_timestamp > largest:
                largest = each.max_timestamp
                times += TIME_ENTRY.pack(largest, each.last_offset - base)
        self.file(segment, names.INDEX_SUFFIX).write_bytes(offsets)
        self.file(segment, names.TIME_INDEX_SUFFIX).write_bytes(times)


class LogDirectory(DataDirectory):
    """Of a broker that was shut down cleanly: all that was written is below its high watermark."""

    def __init__(self, path: Path, *, node: int = 1) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, node=node)
        self.cleaned_ends: dict[str, int] = {}

    def put(self, name: str, log: Log) -> Partition:
        folder = self.path / name
        folder.mkdir()
        for file, content in log.files.items():
            (folder / file).write_bytes(content)
        topic_id = TopicId(md5(name.rpartition("-")[0].encode(), usedforsecurity=False).digest())
        (folder / names.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {topic_id}")
        self.ends[name] = log.end
        if log.cleaned_to is not None:
            self.cleaned_ends[name] = log.cleaned_to
        self.write_checkpoints()
        return Partition(folder)

    def write_checkpoints(self) -> None:
        self.checkpoint("recovery-point-offset-checkpoint", self.ends)
        self.checkpoint("replication-offset-checkpoint", self.ends)
        self.checkpoint("log-start-offset-checkpoint", {})
        self.checkpoint("cleaner-offset-checkpoint", self.cleaned_ends)
