"""A snapshot of a log's producers: the file `<offset>.snapshot`, the state after everything below that offset.

    position  bytes  field                       in each entry, from its first byte
    0         2      version, 1                  0    8   producer id
    2         4      CRC-32C of byte 6 to end    8    2   producer epoch
    6         4      number of entries           10   4   last sequence           −1 without a batch
    10        46     each entry                  14   8   last offset             −1 without a batch
                                                 22   4   last minus first offset of the last batch
                                                 26   8   timestamp of the last batch or marker
                                                 34   4   coordinator epoch       −1 before the first marker
                                                 38   8   first offset of the open transaction, −1 without one

All integers are big-endian. Only the last batch of each producer is kept, so a resend of an older one is no longer
recognised after a restart, and a batch followed by a marker comes back with the marker's timestamp. The order of
entries means nothing; we write them in the order given.

Crash rule: the file is written in place under its final name, synced or not. A torn, lost or grown file fails the
length or the CRC; its reader discards it and takes the next older one, or reads the log from its start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from struct import Struct
from typing import Final

from tailrace.env import Buffer, Files, Mode, write_fully
from tailrace.model.errors import CorruptSnapshotError
from tailrace.record.checksum import crc32c
from tailrace.storage.producer_entry import NO_OFFSET, BatchMetadata, ProducerStateEntry

VERSION: Final = 1

_HEADER: Final = Struct(">hIi")
_COUNT: Final = Struct(">i")
_CRC_FROM: Final = 6
_ENTRY: Final = Struct(">qhiqiqiq")


def encode(entries: Collection[ProducerStateEntry]) -> bytes:
    body = bytearray(_COUNT.pack(len(entries)))
    for entry in entries:
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_seq,
            entry.last_data_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            NO_OFFSET if entry.txn_first_offset is None else entry.txn_first_offset,
        )
    return _HEADER.pack(VERSION, crc32c(body), len(entries)) + bytes(memoryview(body)[_COUNT.size :])


def decode(data: Buffer) -> list[ProducerStateEntry]:
    """Raises CorruptSnapshotError for anything that `encode` (or Kafka) would not have written."""
    stated_crc, _ = _check_header(data, len(data))
    found_crc = crc32c(memoryview(data)[_CRC_FROM:])
    if found_crc != stated_crc:
        raise CorruptSnapshotError(f"snapshot has CRC {found_crc:08x} but states {stated_crc:08x}")
    # Bytes, not a view: CPython crashes when it collects a cycle that holds a view an iterator of struct still uses,
    # and the traceback of an error raised in here can be part of one.
    body = bytes(memoryview(data)[_HEADER.size :])
    entries = [_entry(*fields) for fields in _ENTRY.iter_unpack(body)]
    _check_distinct("producer id", [entry.producer_id for entry in entries])
    _check_distinct(
        "first offset of a transaction", [e.txn_first_offset for e in entries if e.txn_first_offset is not None]
    )
    return entries


def read(files: Files, path: str) -> list[ProducerStateEntry]:
    """Raises CorruptSnapshotError as `decode` does; a file whose length contradicts its header is not read further."""
    file = files.open(path, Mode.READ)
    try:
        size = file.size()
        _check_header(file.read_at(_HEADER.size, 0), size)
        return decode(file.read_at(size, 0))
    except CorruptSnapshotError as error:
        raise CorruptSnapshotError(f"{path}: {error}") from None
    finally:
        file.close()


def write(files: Files, path: str, data: bytes, sync: bool) -> None:
    """Write what `encode` made to a file of its own.

    With `sync` its bytes are on disk afterwards; its name only once the directory is synced.
    """
    file = files.open(path, Mode.REPLACE)
    try:
        write_fully(file, [data], 0)
        if sync:
            file.sync()
    finally:
        file.close()


def _check_header(data: Buffer, size: int) -> tuple[int, int]:
    """The CRC and the count of a snapshot of `size` bytes that begins with `data`."""
    if len(data) < _HEADER.size:
        raise CorruptSnapshotError(f"snapshot of {len(data)} bytes; its header alone has {_HEADER.size}")
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshotError(f"snapshot of version {version}; only {VERSION} is known")
    if count < 0 or size != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"snapshot of {size} bytes states {count} entries of {_ENTRY.size} bytes")
    return crc, count


def _entry(
    producer_id: int,
    producer_epoch: int,
    last_seq: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerStateEntry:
    if producer_id < 0:
        raise CorruptSnapshotError(f"snapshot holds producer id {producer_id}")
    return ProducerStateEntry(
        producer_id,
        producer_epoch,
        coordinator_epoch,
        timestamp,
        txn_first_offset if txn_first_offset >= 0 else None,
        (BatchMetadata(last_seq, last_offset, offset_delta, timestamp),) if last_offset >= 0 else (),
    )


def _check_distinct(what: str, values: Iterable[int]) -> None:
    seen: set[int] = set()
    for value in values:
        if value in seen:
            raise CorruptSnapshotError(f"snapshot holds the {what} {value} twice")
        seen.add(value)
