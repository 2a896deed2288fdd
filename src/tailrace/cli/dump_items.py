"""What the files of a log hold, as plain dictionaries with keys that stay: each is a line of `log dump --json`.

Everything has `type`. Timestamps are milliseconds since 1970, offsets absolute. Bytes come as two keys: `key` is
text where the bytes are UTF-8, else null with `key_base64` beside it; both are null for null bytes.

Reading ends in a TailraceError where the bytes are not what the file's name says; what came before it is good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from tailrace.cli.lines import Item, text_or_base64
from tailrace.env import Files, Mode
from tailrace.model.errors import CorruptIndexError, CorruptMessageError, TailraceError
from tailrace.record.batch import CREATE_TIME, LOG_APPEND_TIME
from tailrace.record.builder import encode_header_key
from tailrace.record.control import ABORT, COMMIT, read_control
from tailrace.record.reader import Record, records_of
from tailrace.record.shallow import ShallowBatch
from tailrace.storage import names, producer_snapshot
from tailrace.storage.checkpoint import CheckpointFile, OffsetCheckpoint
from tailrace.storage.epoch_cache import parse_entry
from tailrace.storage.index_entries import OFFSET_ENTRY, TIME_ENTRY, TXN_ENTRY, raw_entries
from tailrace.storage.log_walk import LogWalk, WalkedBatch, is_zero_from
from tailrace.storage.partition_metadata import PartitionMetadata

MAX_DECOMPRESSED_BYTES: Final = 256 << 20
MAX_SNAPSHOT_BYTES: Final = 512 << 20

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_TYPES: Final = {CREATE_TIME: "CreateTime", LOG_APPEND_TIME: "LogAppendTime"}
CONTROL_TYPES: Final = (
    "abort",
    "commit",
    "leader_change",
    "snapshot_header",
    "snapshot_footer",
    "kraft_version",
    "kraft_voters",
)


def log_items(files: Files, path: str, *, with_records: bool) -> Iterator[Item]:
    """A `batch` for each batch; with records, its `record` items behind it."""
    file = files.open(path, Mode.READ)
    try:
        walk = LogWalk(file)
        try:
            for walked in walk:
                yield batch_item(walked)
                if with_records:
                    yield from record_items(walked)
        except CorruptMessageError as error:
            left = file.size() - walk.position
            if is_zero_from(file, walk.position):
                yield {"type": "preallocated", "position": walk.position, "bytes": left}
                return
            raise CorruptMessageError(f"{error}; the {left} bytes from there on are not shown") from None
    finally:
        file.close()


def batch_item(walked: WalkedBatch) -> Item:
    batch = walked.batch
    return {
        "type": "batch",
        "position": walked.position,
        "bytes": batch.size,
        "magic": batch.magic,
        "base_offset": batch.base_offset if batch.base_offset >= 0 else None,
        "last_offset": batch.last_offset,
        "records": batch.record_count if batch.record_count >= 0 else None,
        "leader_epoch": batch.leader_epoch,
        "codec": codec_name(batch),
        "timestamp_type": TIMESTAMP_TYPES.get(batch.timestamp_type),
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "delete_horizon_ms": batch.delete_horizon_ms,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "crc": f"{batch.crc:08x}",
        "crc_ok": walked.is_intact,
    }


def codec_name(batch: ShallowBatch) -> str:
    return CODECS[batch.codec] if batch.codec < len(CODECS) else f"unknown ({batch.codec})"


def record_items(walked: WalkedBatch) -> Iterator[Item]:
    batch = walked.batch
    if not walked.is_intact:
        yield {"type": "unreadable", "position": walked.position, "problem": "records are not read: the CRC is wrong"}
        return
    if walked.window is None:
        yield {"type": "unreadable", "position": walked.position, "problem": f"{batch.size} bytes: too long to show"}
        return
    try:
        for record in records_of(walked.window, batch, MAX_DECOMPRESSED_BYTES):
            yield record_item(record, is_control=batch.is_control)
    except TailraceError as error:
        yield {"type": "unreadable", "position": walked.position, "problem": str(error)}


def record_item(record: Record, *, is_control: bool) -> Item:
    item: Item = {
        "type": "record",
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES.get(record.timestamp_type),
        "sequence": record.sequence,
        **text_or_base64("key", record.key),
        **text_or_base64("value", record.value),
        "headers": [
            {**text_or_base64("key", encode_header_key(name)), **text_or_base64("value", value)}
            for name, value in record.headers
        ],
        "control": None,
        "coordinator_epoch": None,
    }
    if is_control:
        control = read_control(record)
        known = 0 <= control.type < len(CONTROL_TYPES)
        item["control"] = CONTROL_TYPES[control.type] if known else f"unknown ({control.type})"
        item["coordinator_epoch"] = control.coordinator_epoch if control.type in (ABORT, COMMIT) else None
    return item


def offset_index_items(files: Files, path: str) -> Iterator[Item]:
    base = _base_offset(path)

    def item(position: int, relative: int, log_position: int) -> Item:
        return {
            "type": "offset_index_entry",
            "position": position,
            "offset": base + relative,
            "log_position": log_position,
        }

    return _index_items(files, path, OFFSET_ENTRY, item)


def time_index_items(files: Files, path: str) -> Iterator[Item]:
    base = _base_offset(path)

    def item(position: int, timestamp: int, relative: int) -> Item:
        return {"type": "time_index_entry", "position": position, "timestamp": timestamp, "offset": base + relative}

    return _index_items(files, path, TIME_ENTRY, item)


def transaction_index_items(files: Files, path: str) -> Iterator[Item]:
    def item(position: int, version: int, producer_id: int, first: int, last: int, stable: int) -> Item:
        if version:
            raise CorruptIndexError(f"the entry at position {position} has version {version}; only 0 is known")
        return {
            "type": "transaction_index_entry",
            "position": position,
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": stable,
        }

    return _index_items(files, path, TXN_ENTRY, item)


def _index_items(files: Files, path: str, entry: Struct, item: Callable[..., Item]) -> Iterator[Item]:
    """Every entry; then `preallocated` for the zeros behind them in an index that is not filled yet."""
    file = files.open(path, Mode.READ)
    try:
        size, end = file.size(), 0
        for raw in raw_entries(file, entry):
            if not any(raw.fields) and size > entry.size:
                break  # the first slot of a time index: an entry only in a file that was cut to it
            yield item(raw.position, *raw.fields)
            end = raw.position + entry.size
        if size % entry.size:
            raise CorruptIndexError(f"{size} bytes are not a multiple of its {entry.size}-byte entries")
        if not is_zero_from(file, end):
            raise CorruptIndexError(f"the zeros at position {end} are followed by other bytes, which are not shown")
        if end < size:
            yield {"type": "preallocated", "position": end, "bytes": size - end}
    finally:
        file.close()


def _base_offset(path: str) -> int:
    return names.offset_of(path.rpartition("/")[2])


def snapshot_items(files: Files, path: str) -> Iterator[Item]:
    size = files.size(path)
    if size > MAX_SNAPSHOT_BYTES:
        raise CorruptMessageError(f"{size} bytes: no snapshot is longer than {MAX_SNAPSHOT_BYTES}")
    for entry in producer_snapshot.read(files, path):
        yield {
            "type": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": entry.last_seq,
            "last_offset": entry.last_data_offset,
            "offset_delta": entry.last_offset_delta,
            "timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "txn_first_offset": entry.txn_first_offset,
        }


def epoch_items(files: Files, path: str) -> Iterator[Item]:
    for line in CheckpointFile(files, path, 0).read():
        entry = parse_entry(path, line)
        yield {"type": "leader_epoch", "epoch": entry.epoch, "start_offset": entry.start_offset}


def metadata_items(files: Files, path: str) -> Iterator[Item]:
    topic_id = PartitionMetadata(files, names.directory_of(path)).read()
    yield {"type": "partition_metadata", "topic_id": str(topic_id)}


def offset_checkpoint_items(files: Files, path: str) -> Iterator[Item]:
    for partition, offset in OffsetCheckpoint(files, path).read().items():
        yield {
            "type": "checkpoint_offset",
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": offset,
        }
