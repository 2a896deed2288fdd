"""Control batches of the quorum: what the log and its snapshots tell the quorum itself.

    type  value                  where
    2     LeaderChangeMessage    first record of an epoch in the log
    3     SnapshotHeaderRecord   first record of a snapshot
    4     SnapshotFooterRecord   last record of a snapshot
    5     KRaftVersionRecord     log and snapshots, from kraft.version 1 on
    6     VotersRecord           log and snapshots, from kraft.version 1 on

Unlike the markers of a transaction, several may stand in one batch. A type that is not known means nothing to us.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from tailrace.env import Buffer
from tailrace.model.errors import CorruptMessageError
from tailrace.protocol.codec import encode
from tailrace.protocol.message import Record
from tailrace.protocol.record_frame import decode_control_value
from tailrace.protocol.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from tailrace.record.builder import BatchBuilder
from tailrace.record.control import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    control_key,
)
from tailrace.record.reader import records_of
from tailrace.record.shallow import ShallowBatch

MAX_DECOMPRESSED_BYTES: Final = 64 << 20
"""Of one batch of metadata; Kafka writes them uncompressed and not above 8 MiB."""

_KINDS: Final[dict[int, type[Record]]] = {
    LEADER_CHANGE: LeaderChangeMessage,
    SNAPSHOT_HEADER: SnapshotHeaderRecord,
    SNAPSHOT_FOOTER: SnapshotFooterRecord,
    KRAFT_VERSION: KRaftVersionRecord,
    KRAFT_VOTERS: VotersRecord,
}
_TYPES: Final = {kind: control_type for control_type, kind in _KINDS.items()}
_KEY: Final = Struct(">hh")


def control_batch(records: Sequence[Record], base_offset: int, epoch: int, now_ms: int) -> bytearray:
    """One batch of them, all in version 0."""
    builder = BatchBuilder(base_offset, leader_epoch=epoch, control=True)
    for record in records:
        builder.append(now_ms, control_key(_TYPES[type(record)]), encode(record, 0))
    return builder.build()


def control_records(buffer: Buffer, batch: ShallowBatch) -> Iterator[tuple[int, Record]]:
    """Offset and value of those that are known. An error of `records_of` or of the codec when they are damaged."""
    for record in records_of(buffer, batch, MAX_DECOMPRESSED_BYTES):
        if record.key is None or len(record.key) < _KEY.size or record.value is None:
            raise CorruptMessageError(f"the control record at offset {record.offset} has no whole key or no value")
        kind = _KINDS.get(_KEY.unpack_from(record.key)[1])
        if kind is not None:
            yield record.offset, decode_control_value(kind, record.value)


def as_kafka_writes(record: Record) -> Record:
    """Kafka 4.3.1 writes LeaderChange in version 0, without directory ids, whatever the kraft.version."""
    if not isinstance(record, LeaderChangeMessage):
        return record
    return LeaderChangeMessage(
        version=0,
        leader_id=record.leader_id,
        voters=[LeaderChangeVoter(voter_id=each.voter_id) for each in record.voters],
        granting_voters=[LeaderChangeVoter(voter_id=each.voter_id) for each in record.granting_voters],
    )
