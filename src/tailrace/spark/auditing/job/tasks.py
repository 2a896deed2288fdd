"""What tasks of an audit run, and what they give where there is nothing to give."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.folder_rules import FolderFacts, check_folder
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.pieces import AuditPiece, PieceResult
from tailrace.spark.auditing.rules import UNREADABLE
from tailrace.spark.auditing.task.piece_audit import audit_piece
from tailrace.spark.source.files.read_only import ReadOnlyFiles

_log: Final = logging.getLogger("tailrace.spark")


@dataclass(frozen=True)
class Missed:
    """In the place of a piece's result."""

    words: str | None
    """Why it cannot be read; None where the file went away."""


def audit_pieces(pieces: Sequence[AuditPiece]) -> list[PieceResult | Missed]:
    """In their order. One that cannot be read is no reason to give up the others."""
    return [_audited(piece) for piece in pieces]


def _audited(piece: AuditPiece) -> PieceResult | Missed:
    try:
        return audit_piece(piece)
    except FileNotFoundError:
        return Missed(None)
    except OSError as error:
        return Missed(f"cannot be read: {error.strerror or error}")
    except Exception as error:  # a fault of ours must not hide what the rest of a log has
        _log.exception("%s cannot be audited at %d of segment %d", piece.folder, piece.start, piece.base_offset)
        return Missed(f"cannot be audited, which is a fault of the audit: {type(error).__name__}: {error}")


def check_folders(folders: Sequence[Folder]) -> list[tuple[FolderFacts, list[Finding]] | Missed]:
    return [_checked(folder) for folder in folders]


def _checked(folder: Folder) -> tuple[FolderFacts, list[Finding]] | Missed:
    try:
        return check_folder(ReadOnlyFiles(), folder)
    except FileNotFoundError:
        return Missed(None)
    except OSError as error:
        words = f"cannot be read: {error.strerror or error}"
        return FolderFacts(), [Finding(folder.path, str(folder.partition), None, UNREADABLE, words)]
