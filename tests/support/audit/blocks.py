"""Blocks of batches for the rules of an audit, made the slow and plain way: batch by batch, as a verification walks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from tailrace.env import Mode
from tailrace.env.real import RealFiles
from tailrace.model.errors import CorruptMessageError
from tailrace.model.ids import TopicPartition
from tailrace.record.batch import BatchHeader
from tailrace.record.control import ABORT, COMMIT, control_of
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.task.block import Block, Marker, PieceRule
from tailrace.spark.auditing.task.indexes import OffsetIndexRule, TimeIndexRule, TransactionIndexRule
from tailrace.storage import names
from tailrace.storage.epoch_cache import EpochEntry
from tailrace.storage.log_walk import LogWalk, WalkedBatch

Row = dict[str, int]
COLUMNS = [field.name for field in fields(Block) if field.name != "markers"]


def block_of(rows: Sequence[Row], markers: Sequence[Marker] = ()) -> Block:
    columns = {name: np.array([row[name] for row in rows], np.int64) for name in COLUMNS}
    return Block(**columns, markers=list(markers))


def rows_at(position: int, offset: int, sizes: Sequence[int], records: int = 3, **given: int) -> list[Row]:
    """Batches that follow each other, of these sizes."""
    found = []
    for size in sizes:
        row = dict.fromkeys(COLUMNS, -1) | {"magic": 2, "attributes": 0, "leader_epoch": 0, "record_count": records}
        row |= {"position": position, "size": size, "base_offset": offset, "last_offset": offset + records - 1}
        row |= {"base_timestamp": 1000 + offset, "max_timestamp": 1000 + offset + records - 1} | given
        found.append(row)
        position += size
        offset += records
    return found


def segments_of(folder: Path, epochs: Sequence[EpochEntry] = ()) -> list[AuditPiece]:
    """A piece for each segment of a folder."""
    bases = sorted(names.offset_of(path.name) for path in folder.glob("*.log"))
    listed = [path.name for path in folder.iterdir()]
    return [
        AuditPiece(
            TopicPartition("t", 0),
            str(folder),
            base,
            next_base,
            epochs=tuple(epochs),
            indexes=frozenset(name for name in listed if name.startswith(names.prefix_of(base)) and "index" in name),
        )
        for base, next_base in zip(bases, [*bases[1:], None], strict=True)
    ]


def walk(piece: AuditPiece, rules: Sequence[PieceRule], batches_per_block: int = 3) -> None:
    """Everything of the piece past the rules. A batch without its CRC is damage."""
    file = RealFiles().open(names.join(piece.folder, names.log_name(piece.base_offset)), Mode.READ)
    log = LogWalk(file)
    rows: list[Row] = []
    markers: list[Marker] = []
    position, next_offset, is_whole = piece.start, piece.base_offset, True

    def hand_over() -> None:
        if rows:
            for rule in rules:
                rule.block(block_of(rows, markers))
        rows.clear()
        markers.clear()

    try:
        for walked in _from(log, piece.start):
            if piece.end is not None and walked.position >= piece.end:
                break
            position = walked.position + walked.batch.size
            if not walked.is_intact:
                hand_over()
                for rule in rules:
                    rule.damage(walked.position, position, None)
                continue
            rows.append(_row(walked, next_offset))
            next_offset = walked.batch.next_offset
            marker = _marker(walked, len(rows) - 1)
            if marker is not None:
                markers.append(marker)
            if len(rows) == batches_per_block:
                hand_over()
    except CorruptMessageError:
        is_whole = False
    hand_over()
    for rule in rules:
        rule.end(position, is_whole=is_whole, is_end_of_file=position == file.size())
    file.close()


def _from(log: LogWalk, position: int) -> Iterator[WalkedBatch]:
    return (walked for walked in log if walked.position >= position)


def _row(walked: WalkedBatch, next_offset: int) -> Row:
    batch = walked.batch
    row = dict.fromkeys(COLUMNS, -1) | {
        "position": walked.position,
        "size": batch.size,
        "magic": batch.magic,
        "base_offset": batch.base_offset if batch.base_offset >= 0 else next_offset,
        "last_offset": batch.last_offset,
        "leader_epoch": batch.leader_epoch,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
    }
    if batch.is_v2 and walked.window is not None:
        header = BatchHeader.at(walked.window, batch.position)
        row |= {"producer_epoch": header.producer_epoch, "base_sequence": header.base_sequence}
        row |= {"record_count": header.record_count, "attributes": header.attributes}
    return row


def _marker(walked: WalkedBatch, row: int) -> Marker | None:
    if not walked.batch.is_control or walked.window is None:
        return None
    control = control_of(walked.window, walked.batch, 1 << 20)
    if control is None or control.type not in (ABORT, COMMIT):
        return None
    return Marker(row, control.type == COMMIT, 0)


INDEX_RULES = (OffsetIndexRule, TimeIndexRule, TransactionIndexRule)


def audited_indexes(folder: Path, *, notes: bool = False, batches_per_block: int = 3) -> list[Finding]:
    """What the rules of indexes say of all segments of a folder."""
    found: list[Finding] = []
    for piece in segments_of(folder):
        walk(piece, [kind(piece, RealFiles(), found.append) for kind in INDEX_RULES], batches_per_block)
    return [finding for finding in found if notes or finding.severity != "note"]
