"""Control records: what a log tells its readers and not the applications behind them.

    key                                 value of ABORT and COMMIT, which end a transaction
    version  int16  0                   version           int16  0
    type     int16  see below           coordinatorEpoch  int32

A control batch holds one control record. Later versions may only add fields at the end, so that a greater version
is read as version 0, and a type that is not known is kept as its number: it means nothing to us and is no error.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from tailrace.env.files import Buffer
from tailrace.model.errors import InvalidRecordError
from tailrace.record.builder import BatchBuilder
from tailrace.record.reader import MAX_DECOMPRESSED_BYTES, Record, records_of
from tailrace.record.shallow import ShallowBatch

ABORT: Final = 0
COMMIT: Final = 1
LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
KRAFT_VOTERS: Final = 6

_KEY: Final = Struct(">hh")
_END_TXN_VALUE: Final = Struct(">hi")


class ControlRecord(NamedTuple):
    """`coordinator_epoch` belongs to ABORT and COMMIT and is None for every other type."""

    type: int
    coordinator_epoch: int | None

    @property
    def ends_transaction(self) -> bool:
        return self.type in (ABORT, COMMIT)


def control_key(control_type: int) -> bytes:
    if not ABORT <= control_type <= KRAFT_VOTERS:
        raise InvalidRecordError(f"control record type {control_type} is unknown")
    return _KEY.pack(0, control_type)


def end_txn_marker(
    control_type: int,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """A whole control batch that ends a producer's transaction: ABORT or COMMIT."""
    if control_type not in (ABORT, COMMIT):
        raise InvalidRecordError(f"control record type {control_type} does not end a transaction")
    if not -0x8000_0000 <= coordinator_epoch <= 0x7FFF_FFFF:
        raise InvalidRecordError(f"coordinator epoch {coordinator_epoch} is out of range")
    builder = BatchBuilder(
        base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
    )
    builder.append(timestamp, control_key(control_type), _END_TXN_VALUE.pack(0, coordinator_epoch))
    return builder.build()


def read_control(record: Record) -> ControlRecord:
    """Raises InvalidRecordError when key or value is too short or has a negative version."""
    key = record.key
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordError(f"control record at offset {record.offset} has no whole key")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"control record at offset {record.offset} has key version {version}")
    if control_type not in (ABORT, COMMIT):
        return ControlRecord(control_type, None)
    value = record.value
    if value is None or len(value) < _END_TXN_VALUE.size:
        raise InvalidRecordError(f"transaction marker at offset {record.offset} has no whole value")
    version, coordinator_epoch = _END_TXN_VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecordError(f"transaction marker at offset {record.offset} has version {version}")
    return ControlRecord(control_type, coordinator_epoch)


def control_of(
    buffer: Buffer, batch: ShallowBatch, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> ControlRecord | None:
    """The control record of a control batch; None when a cleaner has emptied it."""
    for record in records_of(buffer, batch, max_decompressed_bytes):
        return read_control(record)
    return None
