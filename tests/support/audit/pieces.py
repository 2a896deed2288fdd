"""Segments made batch by batch, and what an audit of one piece says about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tailrace.model.ids import TopicPartition
from tailrace.record.batch import set_crc
from tailrace.record.builder import BatchBuilder
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.pieces import AuditPiece, PieceResult
from tailrace.spark.auditing.rules import NOTE
from tailrace.spark.auditing.task.piece_audit import audit_piece
from tailrace.storage import names

START_MS = 1_700_000_000_000
PARTITION = TopicPartition("t", 0)


def batch(base_offset: int, count: int = 3, *, size: int = 20, **fields: Any) -> bytearray:
    """Of `count` records with values of `size` bytes."""
    builder = BatchBuilder(base_offset, leader_epoch=fields.pop("leader_epoch", 0), **fields)
    for number in range(base_offset, base_offset + count):
        builder.append(START_MS + number, b"key %d" % number, (b"value %d " % number * size)[:size])
    return builder.build()


def batches(counts: Sequence[int] = (3, 1, 4, 1, 5), *, base_offset: int = 0, **fields: Any) -> list[bytearray]:
    """One behind the other."""
    made = []
    for count in counts:
        made.append(batch(base_offset, count, **fields))
        base_offset += count
    return made


def patched(data: bytes, at: int, new: bytes, *, has_right_crc: bool = True) -> bytearray:
    """A batch with other bytes at a place, and the CRC of what it then is."""
    made = bytearray(data)
    made[at : at + len(new)] = new
    if has_right_crc:
        set_crc(made)
    return made


def audited(folder: Path, data: bytes, *, base_offset: int = 0, next_base: int | None = None, **of: Any) -> PieceResult:
    """A segment of these bytes, without indexes, in a folder of its own."""
    folder.mkdir(exist_ok=True)
    (folder / names.log_name(base_offset)).write_bytes(data)
    return audit_piece(AuditPiece(PARTITION, str(folder), base_offset, next_base, **of))


def faults(result: PieceResult) -> list[Finding]:
    return [finding for finding in result.findings if finding.severity != NOTE]


def faults_of(result: PieceResult) -> list[tuple[str, int | None, int | None]]:
    """Rule, position and offset of every fault."""
    return [(finding.rule, finding.position, finding.offset) for finding in faults(result)]
