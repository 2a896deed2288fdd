"""Log directories as the Spark source reads them: laid out for a test, and read without Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from golden.corpus import LOG_DIRS, Golden
from support.logs.builders import TOPIC_ID, real_log
from tailrace.client.offsets import READ_UNCOMMITTED
from tailrace.config.log import LogConfig
from tailrace.model.ids import TopicPartition
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import ABORT, COMMIT, control_of
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import ShallowBatch, batches
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.options.subscription import Topics
from tailrace.spark.source.columns import Columns
from tailrace.spark.source.decoding import Decoder
from tailrace.spark.source.files.origin import DirectoryOrigin
from tailrace.spark.source.files.reader import read_files
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.ranges import ALL_TIMES, OffsetRange, TimeRange

CHECKPOINTS = (
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


def log_dir_of(golden: Golden, directory: Path) -> Path:
    """A log directory with a golden partition in it, and the checkpoints that Kafka had beside it."""
    directory.mkdir(exist_ok=True)
    beside = LOG_DIRS / ("killed" if golden.was_killed else "clean")
    for file in beside.iterdir():
        shutil.copy(file, directory / file.name)
    golden.copy_to(directory)
    return directory


def note(directory: Path, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Write a checkpoint."""
    lines = [f"{partition.topic} {partition.partition} {offset}" for partition, offset in offsets.items()]
    (directory / name).write_text("\n".join(("0", str(len(lines)), *lines, "")))


def options_for(path: Path | str, *topics: str, isolation: int = READ_UNCOMMITTED, **more: Any) -> SourceOptions:
    return SourceOptions(subscription=Topics(topics), path=str(path), isolation=isolation, **more)


def whole_piece(options: SourceOptions, partition: TopicPartition) -> OffsetRange:
    origin = DirectoryOrigin(options)
    bounds = origin.bounds([partition])[partition]
    return OffsetRange(partition, bounds.start, bounds.end, origin.partitions(options.subscription)[partition])


def read_rows(
    options: SourceOptions,
    piece: OffsetRange,
    *,
    times: TimeRange = ALL_TIMES,
    loss: LossPolicy | None = None,
    corrupt: list[tuple[int, int]] | None = None,
    **more: Any,
) -> list[tuple[Any, ...]]:
    """(offset, timestamp in ms, key, value) of every row."""
    return [row for batch in read_batches(options, piece, times, loss, corrupt, **more) for row in _rows(batch)]


def read_batches(
    options: SourceOptions,
    piece: OffsetRange,
    times: TimeRange = ALL_TIMES,
    loss: LossPolicy | None = None,
    corrupt: list[tuple[int, int]] | None = None,
    **more: Any,
) -> Iterator[pa.RecordBatch]:
    told: list[tuple[int, int]] = [] if corrupt is None else corrupt
    decoder = Decoder(
        Columns(("offset", "timestamp", "key", "value")),
        piece,
        times=times,
        skips_corrupt=options.skip_corrupt,
        on_corrupt=lambda first, end, why: told.append((first, end)),
    )
    yield from read_files(options, piece, decoder, loss or LossPolicy(options.fail_on_data_loss), **more)
    yield from decoder.rest()


def _rows(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    offsets, times, keys, values = batch.columns
    milliseconds = [us // 1000 for us in times.cast(pa.int64()).to_pylist()]
    return list(zip(offsets.to_pylist(), milliseconds, keys.to_pylist(), values.to_pylist(), strict=True))


# The same from the bytes, by other code


def batches_in(folder: Path) -> list[tuple[bytes, ShallowBatch]]:
    found: list[tuple[bytes, ShallowBatch]] = []
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        found += [(data, batch) for batch in batches(data.rstrip(b"\0") if not data.strip(b"\0") else data)]
    return found


def expected_rows(folder: Path, start: int, end: int, *, committed: bool = False) -> list[tuple[Any, ...]]:
    """Every record of the application in [start, end), read one by one; with `committed` none that was aborted."""
    begun: dict[int, list[Record]] = {}
    found: list[Record] = []
    for data, batch in batches_in(folder):
        if batch.is_control:
            marker = control_of(data, batch)
            if marker is not None and marker.type in (ABORT, COMMIT):
                held = begun.pop(batch.producer_id, [])
                found += held if marker.type == COMMIT else []
            continue
        records = list(records_of(data, batch))
        if committed and batch.is_transactional:
            begun.setdefault(batch.producer_id, []).extend(records)
        else:
            found += records
    rows = [(each.offset, each.timestamp, each.key, each.value) for each in found if start <= each.offset < end]
    return sorted(rows, key=lambda row: row[0])


# Logs of our own

PARTITION = TopicPartition("t", 0)
START_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=4096, segment_index_bytes=1024, index_interval_bytes=256)


def write_log(
    folder: Path, counts: Sequence[int], *, config: LogConfig = SMALL, times: Sequence[int] = (), value_bytes: int = 40
) -> Path:
    """Batches of so many records, closed cleanly. Keys are offsets; times ascend by a millisecond unless given."""
    folder.mkdir(parents=True, exist_ok=True)
    log = real_log(folder, config, topic_id=TOPIC_ID)
    offset = log.log_end_offset
    for count in counts:
        builder = BatchBuilder()
        for _ in range(count):
            time_ms = times[offset] if offset < len(times) else START_MS + offset
            builder.append(time_ms, b"%d" % offset, bytes([offset % 251]) * value_bytes)
            offset += 1
        (result,) = log.append_as_leader([builder.build()], 0)
        assert result.error is None
    log.close()
    return folder


def bases_of(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.log"))


def segment_file(folder: Path, base: int, suffix: str = ".log") -> Path:
    return folder / f"{base:020d}{suffix}"


def offsets_in(rows: list[tuple[Any, ...]]) -> list[int]:
    return [row[0] for row in rows]
