"""Faults of producers as findings."""

from __future__ import annotations

from typing import Final

from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.pieces import AuditPiece
from tailrace.spark.auditing.rules import TRANSACTION_INDEX, UNINDEXED_ABORT
from tailrace.spark.auditing.task.producer_judging import Fault
from tailrace.storage import names

_OF_THE_INDEX: Final = frozenset({TRANSACTION_INDEX, UNINDEXED_ABORT})


def log_path(piece: AuditPiece) -> str:
    return _path(piece, names.log_name(piece.base_offset))


def _path(piece: AuditPiece, name: str) -> str:
    return names.join(piece.folder, name + (names.SWAP_SUFFIX if piece.is_swap else ""))


def finding_of(piece: AuditPiece, producer_id: int, offset: int, position: int, fault: Fault) -> Finding:
    """About the batch at this offset and position of the log file."""
    partition = str(piece.partition)
    if fault.rule in _OF_THE_INDEX:
        path = _path(piece, names.txn_index_name(piece.base_offset))
        return Finding(path, partition, offset, fault.rule, f"producer {producer_id}: {fault.words}")
    return Finding(log_path(piece), partition, offset, fault.rule, f"producer {producer_id}: {fault.words}", position)
