"""All rules that see a piece, and what its two edges are."""

from __future__ import annotations

import numpy as np

from tailrace.env import Files
from tailrace.spark.auditing.finding import Report
from tailrace.spark.auditing.pieces import AuditPiece, Seam
from tailrace.spark.auditing.task.block import Block, PieceRule
from tailrace.spark.auditing.task.epochs import EpochRule
from tailrace.spark.auditing.task.indexes import OffsetIndexRule, TimeIndexRule, TransactionIndexRule
from tailrace.spark.auditing.task.producers import ProducerRule


class PieceRules:
    """Blocks and damage come in the order of positions."""

    def __init__(self, piece: AuditPiece, files: Files, report: Report) -> None:
        self._piece = piece
        self._epochs = EpochRule(piece, report)
        self._times = TimeIndexRule(piece, files, report)
        aborts = TransactionIndexRule(piece, files, report)
        self._producers = ProducerRule(piece, report, aborts.is_indexed, aborts.began_at)
        self._rules: tuple[PieceRule, ...] = (
            self._epochs,
            OffsetIndexRule(piece, files, report),
            self._times,
            aborts,
            self._producers,
        )
        self._first_offset: int | None = None
        self._next_offset: int | None = None
        self._largest_timestamp = -1
        self._starts_damaged = False
        self._ends_damaged = False

    def block(self, block: Block) -> None:
        if self._first_offset is None:
            self._first_offset = int(block.base_offset[0])
        self._next_offset = int(block.last_offset[-1]) + 1
        self._largest_timestamp = max(self._largest_timestamp, int(np.max(block.max_timestamp)))
        self._ends_damaged = False
        for rule in self._rules:
            rule.block(block)

    def damage(self, position: int, behind: int, next_offset: int | None) -> None:
        if behind > position:
            self._ends_damaged = True
            self._starts_damaged = self._starts_damaged or self._first_offset is None
        for rule in self._rules:
            rule.damage(position, behind, next_offset)

    def end(self, position: int, *, is_whole: bool, is_end_of_file: bool, is_unjudged: bool) -> Seam:
        for rule in self._rules:
            rule.end(position, is_whole=is_whole, is_end_of_file=is_end_of_file)
        return Seam(
            start_position=self._piece.start,
            end_position=position,
            is_whole=is_whole,
            first_offset=self._first_offset,
            next_offset=self._next_offset,
            starts_damaged=self._starts_damaged,
            ends_damaged=self._ends_damaged,
            ends_unjudged=is_unjudged,
            first_epoch=self._epochs.first_epoch,
            last_epoch=self._epochs.last_epoch,
            without_epoch=self._epochs.without_epoch,
            largest_timestamp=self._largest_timestamp,
            first_time_entry=self._times.first_entry,
            last_time_entry=self._times.last_entry,
            producers=self._producers.seams(),
        )
